"""CSV: rows of texts, every one as wide as the header.

The names stand in the first line, or below a title, comments, or Excel's line `sep=;`. Numbers with a decimal comma
are found from the first rows and turned into points.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from undrift.errors import DataError
from undrift.stream.cells import BATCH_CHARACTERS, BATCH_ROWS, MAX_COLUMNS, MAX_LINE_BYTES, Cells, RowBatch

if TYPE_CHECKING:
    from undrift.run.read.source import Source

TOTALS = ("total", "totals", "grand total", "subtotal", "sum", "summe", "gesamt")
"""What the first cell of a last row says that sums up the others, in lower case."""


def csv_batches(source: Source) -> Iterator[RowBatch]:
    """Yield the rows of a CSV file."""
    found = find_header(source.lines(), source.settings.delimiter, has_names=source.settings.header)
    if found is None or (not found.text.strip() and not any(line.strip() for line in found.below)):
        raise DataError(f"{source.name} is empty; it needs a header line and rows")
    source.notes = [_note_on_title(found.above)] if found.above else []
    counted = _BoundedLines(source, found)
    reader = csv.reader(counted.lines(), delimiter=found.delimiter)
    try:
        if source.settings.header:
            header = _header(source, found.above + 1, next(reader))
        else:
            header = _number_columns(source, found)
        yield from with_points(_rows(source, reader, header, counted), source.settings.decimal, found.delimiter)
    except csv.Error as error:
        if "new-line" in str(error):
            raise DataError(
                f"{source.name}: lines end in a bare carriage return; save it with ordinary line ends"
            ) from None
        raise DataError(
            f"{source.at(found.above + reader.line_num)}: not CSV ({error}); is there a quote that never closes?"
        ) from None


class _BoundedLines:
    """Lines for the CSV reader, which joins lines inside quotes; a row that grows too long that way is refused."""

    def __init__(self, source: Source, found: HeaderLine) -> None:
        self._source, self._lines = source, chain([found.text], found.below)
        self.above = found.above
        self.row = self.batch = 0  # characters since the last row and the last batch

    def lines(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, start=self.above + 1):
            self.row += len(line)
            if self.row > MAX_LINE_BYTES:
                raise DataError(
                    f"{self._source.at(number)}: a row of more than {MAX_LINE_BYTES >> 20} MiB over several lines; "
                    "is there a quote that never closes?"
                )
            yield line

    def end_row(self) -> None:
        """Count from 0 again."""
        self.batch += self.row
        self.row = 0


def _note_on_title(above: int) -> str:
    lines = "the first line stands" if above == 1 else f"the first {above} lines stand"
    return f"{lines} above the names of the columns and {'was' if above == 1 else 'were'} left out"


def _header(source: Source, line: int, cells: Sequence[str]) -> list[str]:
    """Return the columns' names, or say what is wrong with them; "" for those without one."""
    if len(cells) > MAX_COLUMNS:
        raise DataError(f"{source.at(line)}: {len(cells):,} columns, where {MAX_COLUMNS:,} are allowed; leave some out")
    names = [cell.strip() for cell in cells]
    if not any(names):
        raise DataError(f"{source.at(line)}: the header is empty; name the columns in the first line")
    if all(is_number(name) for name in names if name):
        raise DataError(
            f"{source.at(line)}: there are numbers where names should be; add a header line above the data, "
            "or pass --no-header to call the columns c1, c2, ..."
        )
    where: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name and name in where:
            raise DataError(
                f"{source.at(line)}: columns {where[name]} and {place} are both called '{name}'; rename one"
            )
        where[name] = place
    return names


def _number_columns(source: Source, found: HeaderLine) -> list[str]:
    """Return names for the columns of a file without a header: c1, c2, ..."""
    width = len(next(csv.reader([found.text], delimiter=found.delimiter)))
    if width > MAX_COLUMNS:
        raise DataError(
            f"{source.at(found.above + 1)}: {width:,} columns, where {MAX_COLUMNS:,} are allowed; leave some out"
        )
    return [f"c{place}" for place in range(1, width + 1)]


def _rows(source: Source, reader: Iterator[list[str]], header: list[str], counted: _BoundedLines) -> Iterator[RowBatch]:
    width, last = len(header), reader.line_num  # type: ignore[attr-defined]  # csv readers have it
    taken = 0
    rows: list[list[str]] = []
    lines: list[int] = []
    for row in reader:
        counted.end_row()
        line, last = counted.above + last + 1, reader.line_num  # type: ignore[attr-defined]  # csv readers have it
        if len(row) != width:
            if not row:
                continue
            if len(row) < width or any(cell.strip() for cell in row[width:]):
                raise DataError(
                    f"{source.at(line)}: {len(row)} cell{'s' if len(row) > 1 else ''} where the header has {width}; "
                    "correct the line, or quote cells that hold the delimiter"
                )
            del row[width:]
        rows.append(row)
        lines.append(line)
        taken += 1
        if len(rows) == BATCH_ROWS or counted.batch >= BATCH_CHARACTERS or taken == source.settings.limit:
            yield _batch(header, rows, lines)
            rows, lines, counted.batch = [], [], 0
            if taken == source.settings.limit:
                return
    if rows:
        _require_no_total(source, rows, lines[-1], taken)
        yield _batch(header, rows, lines)


def _require_no_total(source: Source, rows: list[list[str]], line: int, taken: int) -> None:
    """Refuse a last row that sums up the others, of which none says so."""
    said = next((cell for cell in rows[-1] if _is_total(cell)), None)
    if said is not None and len(rows) > 1 and not any(_is_total(cell) for row in rows[:-1] for cell in row):
        raise DataError(
            f"{source.at(line)}: the last row says {said.strip()!r} and looks like a sum of the others; delete it, or "
            f"pass --limit {taken - 1} to stop before it"
        )


def _is_total(cell: str) -> bool:
    return cell.strip(" :").lower() in TOTALS


def _batch(header: list[str], rows: list[list[str]], lines: list[int]) -> RowBatch:
    columns = zip(header, zip(*rows, strict=True), strict=True)
    return RowBatch(np.array(lines, dtype=np.int64), {name: cells for name, cells in columns if name})


DELIMITERS = ",;\t|"
MOST_LINES = 20
"""Lines that may stand above the names."""
LONGEST_TITLE = 1000
"""Characters of such a line."""
_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""The line by which Excel is told what separates cells."""


class HeaderLine(NamedTuple):
    """The first line that counts, and what is above it."""

    above: int
    """Lines above it."""
    text: str
    """The line."""
    delimiter: str
    """What separates cells."""
    below: Iterator[str]
    """All lines after it."""


def find_header(lines: Iterator[str], delimiter: str | None, *, has_names: bool) -> HeaderLine | None:
    """Return the line of names, or the first line where nothing says that it is a title; None without any line.

    Lines are a title where they hold one cell, and below them comes a line of several cells, none of them a number. In
    a file without names the first line counts, whatever it holds.
    """
    first = next(lines, None)
    if first is None:
        return None
    read = [first]
    told = _SEPARATOR.fullmatch(first.strip()) if has_names else None
    delimiter = told[1] if told is not None and delimiter is None else delimiter
    while has_names and (told is not None or _is_title(read[-1], delimiter)) and len(read) <= MOST_LINES:
        line = next(lines, None)
        if line is None:
            break
        read.append(line)
        told = None
    names = [cell for cell in _split(read[-1], delimiter) if cell]
    above = len(read) - 1 if len(names) > 1 and not any(map(is_number, names)) else 0
    text = read[above]
    return HeaderLine(above, text, _delimiter(text, delimiter), chain(read[above + 1 :], lines))


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_title(line: str, delimiter: str | None) -> bool:
    """Whether a line holds at most one cell, its first, and ends outside of quotes."""
    return line.count('"') % 2 == 0 and len(line) <= LONGEST_TITLE and not any(_split(line, delimiter)[1:])


def _split(line: str, delimiter: str | None) -> list[str]:
    """Return the cells of a line; none if a cell is too long."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=_delimiter(line, delimiter)), [])]
    except csv.Error:
        return []


def _delimiter(line: str, given: str | None) -> str:
    """Return what separates the cells of a line: what comes most often outside of quotes."""
    return given or max(DELIMITERS, key="".join(line.split('"')[::2]).count)


GROUPS = r"\d{1,3}([.'\u2019 \u00a0\u202f]\d{3})+"
"""Groups of three digits, between which stand points, apostrophes or spaces."""
COMMA = re.compile(rf"\s*[+-]?(\d+|{GROUPS})(,\d+)?\s*[$€£¥%]?\s*", re.ASCII)
"""A number whose decimal sign is a comma."""
SURELY_COMMA = re.compile(rf"\s*[+-]?({GROUPS},\d+|\d+,(\d{{1,2}}|\d{{4,}}))\s*[$€£¥%]?\s*", re.ASCII)
"""A number that cannot be read otherwise: 1.234,5 or 12,5."""
EITHER = re.compile(r"\s*[+-]?\d{1,3},\d{3}\s*[$€£¥%]?\s*", re.ASCII)
"""1,234: more than a thousand, or a little more than one."""
SURELY_POINT = re.compile(r"\s*[+-]?(\d*\.(\d{1,2}|\d{4,})|\d{1,3}(,\d{3})+\.\d+)([eE][+-]?\d+)?\s*[$€£¥%]?\s*")


def with_points(batches: Iterator[RowBatch], decimal: str | None, delimiter: str) -> Iterator[RowBatch]:
    """Yield batches of texts in which every number has a decimal point."""
    first = next(batches, None)
    if first is None:
        return
    found = decimal or _find_decimal([*first.columns.values()], delimiter)
    for batch in chain([first], batches):
        yield batch if found == "." else RowBatch(batch.lines, {n: _points(c) for n, c in batch.columns.items()})


def _find_decimal(columns: Sequence[Cells], delimiter: str) -> str:
    """Return the decimal sign that the cells have; where 1,234 is all there is, commas between cells decide."""
    texts = [cell for cells in columns for cell in cells if isinstance(cell, str)]
    with_comma = [text for text in texts if "," in text]
    if not with_comma or any(SURELY_POINT.fullmatch(text) for text in texts if "." in text):
        return "."
    if any(SURELY_COMMA.fullmatch(text) for text in with_comma):
        return ","
    return "," if delimiter != "," and any(EITHER.fullmatch(text) for text in with_comma) else "."


def _points(cells: Cells) -> Cells:
    return [_point(cell) if isinstance(cell, str) else cell for cell in cells]


def _point(text: str) -> str:
    """Return a number with a decimal point; any other text as it is.

    >>> _point("1.234,5"), _point("-12,50"), _point("01.02.2024"), _point("a, b")
    ('1234.5', '-12.50', '01.02.2024', 'a, b')
    """
    return text.replace(".", "").replace(",", ".") if COMMA.fullmatch(text) else text

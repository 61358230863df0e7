"""CSV: rows of texts, every one as wide as the header.

The names stand in the first line, or below a title, comments, or Excel's line `sep=;`. Numbers with a decimal comma
are found from the first rows and turned into points.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, repeat
from operator import contains
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from undrift.errors import DataError, UndriftError
from undrift.stream.cells import BATCH_CHARACTERS, BATCH_ROWS, MAX_COLUMNS, MAX_LINE_BYTES, Cells, RowBatch

if TYPE_CHECKING:
    from undrift.run.read.source import Source

TOTALS = ("total", "totals", "grand total", "subtotal", "sum", "summe", "gesamt")
"""What the first cell of a last row says that sums up the others, in lower case."""


def csv_batches(source: Source) -> Iterator[RowBatch]:
    """Yield the rows of a CSV file."""
    text = _Text(source.blocks())
    found = find_header(text, source.settings.delimiter, has_names=source.settings.header)
    if found is not None:
        text.put_back(found.below)
    if found is None or (not found.text.strip() and not any(line.strip() for line in text)):
        raise DataError(f"{source.name} is empty; it needs a header line and rows")
    source.notes = [_note_on_title(found.above)] if found.above else []
    text.put_back([found.text])
    lines = _BoundedLines(source, text, found.above)
    try:
        if source.settings.header:
            header = _header(source, found.above + 1, next(csv.reader(lines, delimiter=found.delimiter)))
        else:
            header = _number_columns(source, found)
        batches = _batches(source, header, _sections(source, lines, found.delimiter, len(header)))
        yield from with_points(batches, source.settings.decimal, found.delimiter)
    except csv.Error as error:
        if "new-line" in str(error):
            raise DataError(
                f"{source.name}: lines end in a bare carriage return; save it with ordinary line ends"
            ) from None
        raise DataError(f"{source.at(lines.number)}: not CSV ({error}); is there a quote that never closes?") from None


class _Text:
    """The lines of a text that comes in blocks of whole lines: one after the other, or the rest of a block at once."""

    def __init__(self, blocks: Iterator[str]) -> None:
        self._blocks, self._block, self._at = blocks, "", 0
        self.blocks_begun = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while self.block_ended:
            self._next_block(next(self._blocks))
        end = self._block.find("\n", self._at) + 1 or len(self._block)
        line, self._at = self._block[self._at : end], end
        return line

    @property
    def block_ended(self) -> bool:
        """Whether the next line is in another block."""
        return self._at == len(self._block)

    def _next_block(self, block: str) -> None:
        self._block, self._at = block, 0
        self.blocks_begun += 1

    def take_block(self) -> str:
        """Return all lines of a block that are left, "" at the end."""
        while self.block_ended:
            block = next(self._blocks, None)
            if block is None:
                return ""
            self._next_block(block)
        rest, self._at = self._block[self._at :], len(self._block)
        return rest

    def put_back(self, lines: Iterable[str]) -> None:
        """Let these lines come next."""
        self._block, self._at = "".join([*lines, self._block[self._at :]]), 0


class _BoundedLines:
    """Lines for CSV readers, which join lines inside quotes; a row that grows too long that way is refused."""

    def __init__(self, source: Source, text: _Text, above: int) -> None:
        self._source, self.text, self.number = source, text, above
        self.row = 0  # characters since the last row
        self.skipped = 0  # characters of lines without a cell since the last row that has some

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self.text)
        self.number += 1
        self.row += len(line)
        if self.row > MAX_LINE_BYTES:
            raise DataError(
                f"{self._source.at(self.number)}: a row of more than {MAX_LINE_BYTES >> 20} MiB over several lines; "
                "is there a quote that never closes?"
            )
        return line


def _note_on_title(above: int) -> str:
    lines = "the first line stands" if above == 1 else f"the first {above} lines stand"
    return f"{lines} above the names of the columns and {'was' if above == 1 else 'were'} left out"


def _header(source: Source, line: int, cells: Sequence[str]) -> list[str]:
    """Return the columns' names, or say what is wrong with them; "" for those without one."""
    _require_width(source, line, len(cells))
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
    _require_width(source, found.above + 1, width)
    return [f"c{place}" for place in range(1, width + 1)]


def _require_width(source: Source, line: int, width: int) -> None:
    if width > MAX_COLUMNS:
        raise DataError(f"{source.at(line)}: {width:,} columns, where {MAX_COLUMNS:,} are allowed; leave some out")


class _Section(NamedTuple):
    """Some rows, column by column."""

    columns: Sequence[Sequence[str]]
    """Cells."""
    lines: Sequence[int]
    """Where rows begin."""
    sizes: Sequence[int]
    """Characters of rows, lines without a cell before them included."""


def _sections(source: Source, lines: _BoundedLines, delimiter: str, width: int) -> Iterator[_Section]:
    """Yield rows as they come: whole blocks where each line is a row, otherwise row by row."""
    text = lines.text
    while block := text.take_block():
        section = _split_block(block, delimiter, width, lines)
        if section is not None:
            lines.number += len(section.lines)
            lines.row = lines.skipped = 0
            yield section
            continue
        text.put_back([block])
        rows: list[list[str]] = []
        numbers: list[int] = []
        sizes: list[int] = []
        refused = None
        try:
            for row, number, size in _read_rows(source, lines, delimiter, width):
                rows.append(row)
                numbers.append(number)
                sizes.append(size)
        except (UndriftError, csv.Error) as error:
            refused = error  # once the rows before it are in a batch
        if rows:
            yield _Section([*zip(*rows, strict=True)], numbers, sizes)
        if refused is not None:
            raise refused


def _read_rows(
    source: Source, lines: _BoundedLines, delimiter: str, width: int
) -> Iterator[tuple[list[str], int, int]]:
    """Yield rows with their line and size, up to the first one that ends where a block does or in another block."""
    first, begun = lines.number + 1, lines.text.blocks_begun
    for row in csv.reader(lines, delimiter=delimiter):
        lines.skipped += lines.row
        lines.row = 0
        if row or not width:
            if len(row) < width or any(cell.strip() for cell in row[width:]):
                raise DataError(
                    f"{source.at(first)}: {len(row)} cell{'s' if len(row) > 1 else ''} where the header has {width}; "
                    "correct the line, or quote cells that hold the delimiter"
                )
            del row[width:]
            yield row, first, lines.skipped
            lines.skipped = 0
        if lines.text.block_ended or lines.text.blocks_begun > begun:
            return
        first = lines.number + 1


def _split_block(block: str, delimiter: str, width: int, before: _BoundedLines) -> _Section | None:
    """Return the rows of whole lines, if each line is a row as wide as the header; None if some may be others."""
    lines = io.StringIO(block, newline="\n").readlines()
    sizes = [*map(len, lines)]
    sizes[0] += before.row + before.skipped
    if max(sizes) > csv.field_size_limit() or delimiter in '"\r\n':
        return None
    columns = _split_quoted(block, delimiter, width) if '"' in block else _split_plain(block, lines, delimiter, width)
    if columns is None:
        return None
    return _Section(columns, range(before.number + 1, before.number + 1 + len(lines)), sizes)


def _split_plain(block: str, lines: list[str], delimiter: str, width: int) -> list[list[str]] | None:
    """Return the columns of lines without quotes; None unless each holds as many cells as the header."""
    if "\r" in block:
        block = block.replace("\r\n", "\n")
    if "\r" in block or "\n" in lines or "\r\n" in lines:
        return None
    if width == 1:
        return None if delimiter in block else [block.removesuffix("\n").split("\n")]
    cells = block.removesuffix("\n").split(delimiter)
    inner = width - 1
    if len(cells) != len(lines) * inner + 1:
        return None
    # Lines are as wide as the header if every so many delimiters there is one line end, and no other: there a cell
    # holds the last one of a line, the line end, and the first one of the next line.
    seams = cells[inner:-1:inner]
    if not all(map(contains, seams, repeat("\n"))):
        return None
    ends = "\n".join([cells[0], *seams, cells[-1]]).split("\n")
    if len(ends) != 2 * len(lines):
        return None
    return [ends[0::2], *(cells[j::inner] for j in range(1, inner)), ends[1::2]]


def _split_quoted(block: str, delimiter: str, width: int) -> list[tuple[str, ...]] | None:
    """Return the columns of lines with quotes; None unless each holds as many cells as the header."""
    reader = csv.reader(io.StringIO(block, newline="\n"), delimiter=delimiter)
    try:
        rows = list(reader)
    except csv.Error:
        return None
    if len(rows) != reader.line_num or any(len(row) != width for row in rows) or any("\n" in c for c in rows[-1]):
        return None  # the last one: a quote that the block does not close
    return [*zip(*rows, strict=True)]


def _batches(source: Source, header: list[str], sections: Iterator[_Section]) -> Iterator[RowBatch]:
    """Yield rows in batches, smaller ones where rows are long, up to the limit."""
    limit, taken, size = source.settings.limit, 0, 0
    columns: list[list[str]] = [[] for _ in header]
    lines: list[int] = []
    for section in sections:
        a = 0
        while a < len(section.lines):
            b = min(len(section.lines), a + BATCH_ROWS - len(lines))
            b = b if limit is None else min(b, a + limit - taken)
            sizes = section.sizes[a:b]
            if size + sum(sizes) >= BATCH_CHARACTERS:
                totals = accumulate(sizes, initial=size)
                b = a + next(count for count, total in enumerate(totals) if count and total >= BATCH_CHARACTERS)
                sizes = section.sizes[a:b]
            for column, cells in zip(columns, section.columns, strict=True):
                column += cells[a:b]
            lines += section.lines[a:b]
            size += sum(sizes)
            taken += b - a
            a = b
            if len(lines) == BATCH_ROWS or size >= BATCH_CHARACTERS or taken == limit:
                yield _batch(header, columns, lines)
                columns, lines, size = [[] for _ in header], [], 0
                if taken == limit:
                    return
    if lines:
        _require_no_total(source, columns, lines[-1], taken)
        yield _batch(header, columns, lines)


def _require_no_total(source: Source, columns: list[list[str]], line: int, taken: int) -> None:
    """Refuse a last row that sums up the others, of which none says so."""
    said = next((column[-1] for column in columns if _is_total(column[-1])), None)
    if said is not None and len(columns[0]) > 1 and not any(_is_total(cell) for c in columns for cell in c[:-1]):
        raise DataError(
            f"{source.at(line)}: the last row says {said.strip()!r} and looks like a sum of the others; delete it, or "
            f"pass --limit {taken - 1} to stop before it"
        )


def _is_total(cell: str) -> bool:
    return cell.strip(" :").lower() in TOTALS


def _batch(header: list[str], columns: list[list[str]], lines: list[int]) -> RowBatch:
    named: dict[str, Cells] = {name: cells for name, cells in zip(header, columns, strict=True) if name}
    return RowBatch(np.array(lines, dtype=np.int64), named)


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
    below: list[str]
    """Lines after it that were read already."""


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
    return HeaderLine(above, text, _delimiter(text, delimiter), read[above + 1 :])


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

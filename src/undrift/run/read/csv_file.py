"""CSV: rows of texts, every one as wide as the header."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from undrift.errors import DataError
from undrift.run.read.decimal_commas import with_points
from undrift.run.read.rows import BATCH_CHARACTERS, BATCH_ROWS, MAX_COLUMNS, MAX_LINE_BYTES, RowBatch

if TYPE_CHECKING:
    from undrift.run.read.source import Source

DELIMITERS = ",;\t|"


def csv_batches(source: Source) -> Iterator[RowBatch]:
    """Yield the rows of a CSV file."""
    lines = source.lines()
    first = next(lines, None)
    if first is None or (not first.strip() and not any(line.strip() for line in lines)):
        raise DataError(f"{source.name} is empty; it needs a header line and rows")
    delimiter = source.settings.delimiter or max(DELIMITERS, key=_bare(first).count)
    counted = _BoundedLines(source, chain([first], lines))
    reader = csv.reader(counted.lines(), delimiter=delimiter)
    try:
        header = _header(source, next(reader)) if source.settings.header else _number_columns(source, first, delimiter)
        yield from with_points(_rows(source, reader, header, counted), source.settings.decimal, delimiter)
    except csv.Error as error:
        if "new-line" in str(error):
            raise DataError(
                f"{source.name}: lines end in a bare carriage return; save it with ordinary line ends"
            ) from None
        raise DataError(
            f"{source.at(reader.line_num)}: not CSV ({error}); is there a quote that never closes?"
        ) from None


class _BoundedLines:
    """Lines for the CSV reader, which joins lines inside quotes; a row that grows too long that way is refused."""

    def __init__(self, source: Source, lines: Iterator[str]) -> None:
        self._source, self._lines = source, lines
        self.row = self.batch = 0  # characters since the last row and the last batch

    def lines(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, start=1):
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


def _bare(line: str) -> str:
    """Return a line without what stands in quotes."""
    return "".join(line.split('"')[::2])


def _header(source: Source, cells: Sequence[str]) -> list[str]:
    """Return the columns' names, or say what is wrong with them; "" for those without one."""
    if len(cells) > MAX_COLUMNS:
        raise DataError(f"{source.at(1)}: {len(cells):,} columns, where {MAX_COLUMNS:,} are allowed; leave some out")
    names = [cell.strip() for cell in cells]
    if not any(names):
        raise DataError(f"{source.at(1)}: the header is empty; name the columns in the first line")
    if all(_is_number(name) for name in names if name):
        raise DataError(
            f"{source.at(1)}: there are numbers where names should be; add a header line above the data, "
            "or pass --no-header to call the columns c1, c2, ..."
        )
    where: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name and name in where:
            raise DataError(f"{source.at(1)}: columns {where[name]} and {place} are both called '{name}'; rename one")
        where[name] = place
    return names


def _number_columns(source: Source, first: str, delimiter: str) -> list[str]:
    """Return names for the columns of a file without a header: c1, c2, ..."""
    width = len(next(csv.reader([first], delimiter=delimiter)))
    if width > MAX_COLUMNS:
        raise DataError(f"{source.at(1)}: {width:,} columns, where {MAX_COLUMNS:,} are allowed; leave some out")
    return [f"c{place}" for place in range(1, width + 1)]


def _rows(source: Source, reader: Iterator[list[str]], header: list[str], counted: _BoundedLines) -> Iterator[RowBatch]:
    width, last = len(header), reader.line_num  # type: ignore[attr-defined]  # csv readers have it
    taken = 0
    rows: list[list[str]] = []
    lines: list[int] = []
    for row in reader:
        counted.end_row()
        if len(row) != width:
            if not row:
                last = reader.line_num  # type: ignore[attr-defined]  # csv readers have it
                continue
            raise DataError(
                f"{source.at(last + 1)}: {len(row)} cell{'s' if len(row) > 1 else ''} where the header has {width}; "
                "correct the line, or quote cells that hold the delimiter"
            )
        rows.append(row)
        lines.append(last + 1)
        last = reader.line_num  # type: ignore[attr-defined]  # csv readers have it
        taken += 1
        if len(rows) == BATCH_ROWS or counted.batch >= BATCH_CHARACTERS or taken == source.settings.limit:
            yield _batch(header, rows, lines)
            rows, lines, counted.batch = [], [], 0
            if taken == source.settings.limit:
                return
    if rows:
        yield _batch(header, rows, lines)


def _batch(header: list[str], rows: list[list[str]], lines: list[int]) -> RowBatch:
    columns = zip(header, zip(*rows, strict=True), strict=True)
    return RowBatch(np.array(lines, dtype=np.int64), {name: cells for name, cells in columns if name})


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

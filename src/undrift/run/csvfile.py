"""CSV: rows of texts, every one as wide as the header."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

import numpy as np

from undrift.errors import DataError
from undrift.run.source import BATCH, Batch, Source

DELIMITERS = ",;\t|"


def csv_batches(source: Source) -> Iterator[Batch]:
    """Yield the rows of a CSV file."""
    lines = source.lines()
    first = next(lines, None)
    if first is None or (not first.strip() and not any(line.strip() for line in lines)):
        raise DataError(f"{source.name} is empty; it needs a header line and rows")
    delimiter = source.settings.delimiter or max(DELIMITERS, key=_bare(first).count)
    reader = csv.reader(_again(first, lines), delimiter=delimiter)
    try:
        header = _header(source, next(reader))
        yield from _rows(source, reader, header)
    except csv.Error as error:
        if "new-line" in str(error):
            raise DataError(
                f"{source.name}: lines end in a bare carriage return; save it with ordinary line ends"
            ) from None
        raise DataError(
            f"{source.at(reader.line_num)}: not CSV ({error}); is there a quote that never closes?"
        ) from None


def _again(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines


def _bare(line: str) -> str:
    """Return a line without what stands in quotes."""
    return "".join(line.split('"')[::2])


def _header(source: Source, cells: Sequence[str]) -> list[str]:
    """Return the columns' names, or say what is wrong with them; "" for those without one."""
    names = [cell.strip() for cell in cells]
    if not any(names):
        raise DataError(f"{source.at(1)}: the header is empty; name the columns in the first line")
    if all(_is_number(name) for name in names if name):
        raise DataError(f"{source.at(1)}: there are numbers where names should be; add a header line above the data")
    where: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name and name in where:
            raise DataError(f"{source.at(1)}: columns {where[name]} and {place} are both called '{name}'; rename one")
        where[name] = place
    return names


def _rows(source: Source, reader: Iterator[list[str]], header: list[str]) -> Iterator[Batch]:
    width, last = len(header), reader.line_num  # type: ignore[attr-defined]  # csv readers have it
    rows: list[list[str]] = []
    lines: list[int] = []
    for row in reader:
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
        if len(rows) == BATCH:
            yield _batch(header, rows, lines)
            rows, lines = [], []
    if rows:
        yield _batch(header, rows, lines)


def _batch(header: list[str], rows: list[list[str]], lines: list[int]) -> Batch:
    columns = zip(header, zip(*rows, strict=True), strict=True)
    return Batch(np.array(lines, dtype=np.int64), {name: cells for name, cells in columns if name})


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

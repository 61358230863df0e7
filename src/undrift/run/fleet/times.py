"""Times as exact integers, so that no two of a stream's rows fall together: counts since 1970, to the nanosecond."""

from __future__ import annotations

import datetime as dt
import re
from typing import NamedTuple

import numpy as np

from undrift.errors import DataError
from undrift.fleet.keys_and_orders import EPOCH, MAX_EXACT_FLOAT, NANOSECONDS
from undrift.run.fleet.orders import Orders, parse_integer
from undrift.run.prepare.columns import find_time_format
from undrift.run.prepare.first_rows import FirstRows
from undrift.run.read.cells import is_missing, time_parser
from undrift.run.read.rows import Cells, Lines
from undrift.run.read.source import Source

_FRACTION = re.compile(r"^(.*[0-9])[.,]([0-9]+)(.*)$")


class TimeColumn(NamedTuple):
    """How the times of a column are written, and what they are counted in."""

    name: str
    """The column."""
    format: str
    """"iso", the letters of strptime, or "epoch": numbers since 1970."""
    unit: str
    """s, ms, us or ns."""

    def read(self, source: Source, lines: Lines, cells: Cells) -> Orders:
        """Return times as counts since 1970, None where missing."""
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
            counts = cells.astype(f"datetime64[{self.unit}]").astype(np.int64).tolist()
            return [None if gone else count for gone, count in zip(np.isnat(cells).tolist(), counts, strict=True)]
        values = cells.tolist() if isinstance(cells, np.ndarray) else cells
        na, out = frozenset(source.settings.na), list[object]()
        for line, cell in zip(lines.tolist(), values, strict=True):
            try:
                out.append(None if is_missing(cell, na) else self._count(cell))
            except (ValueError, AttributeError, OverflowError):
                raise DataError(
                    f"{source.at(line)}: {cell!r:.60} in '{self.name}' is not a time; pass --time-format"
                ) from None
            except _FinerThanUnit:
                raise DataError(
                    f"{source.at(line)}: {cell!r:.60} in '{self.name}' is finer than the first rows, which were taken "
                    f"as {self.unit}; write all times alike"
                ) from None
        return out

    def _count(self, cell: object) -> int:
        """Return the count that a cell spells."""
        if self.format == "epoch":
            return _exact_integer(parse_integer(cell))
        if not isinstance(cell, str):
            raise ValueError
        count, finer = divmod(parse_instant(cell.strip(), self.format), NANOSECONDS[self.unit])
        if finer:
            raise _FinerThanUnit
        return count


class _FinerThanUnit(Exception):
    """A time between two counts of the unit."""


def _exact_integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError
    if isinstance(value, float):
        if not value.is_integer():
            raise _FinerThanUnit
        if abs(value) > MAX_EXACT_FLOAT:
            raise OverflowError
    return int(value)


def parse_instant(text: str, time_format: str) -> int:
    """Return a time in nanoseconds since 1970, UTC where it names a zone.

    >>> parse_instant("1970-01-01T00:00:01.123456789Z", "iso")
    1123456789
    """
    finer, found = 0, _FRACTION.match(text) if time_format == "iso" else None
    if found is not None and len(found[2]) > 6:
        digits = found[2].rstrip("0")
        if len(digits) > 9:
            raise ValueError("finer than a nanosecond")
        finer = int(digits.ljust(9, "0")[6:])
        text = f"{found[1]}.{digits[:6].ljust(6, '0')}{found[3]}"
    return (time_parser(time_format)(text) - EPOCH) // dt.timedelta(microseconds=1) * 1000 + finer


def infer_time_column(first: FirstRows, name: str, notes: list[str]) -> TimeColumn:
    """Return how the times of a column are written, from the first rows; add what a user should know."""
    source, cells = first.source, first.columns[name]
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        return TimeColumn(name, "iso", np.datetime_data(cells.dtype)[0])  # type: ignore[arg-type]  # times, as just seen
    values = [(line, parse_integer(cell)) for line, cell in first.known_cells(name)]
    numeric = [value for _, value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if source.settings.time_format is None and numeric and 2 * len(numeric) > len(values):
        size = max(abs(value) for value in numeric)
        unit = "s" if size < 1e11 else "ms" if size < 1e14 else "us" if size < 1e17 else "ns"
        for line, value in values:
            if isinstance(value, float) and not value.is_integer():
                raise DataError(
                    f"{source.at(line)}: --time '{name}' counts {unit} since 1970 in floats such as {value!r}, which "
                    "do not tell near times apart; write integers in a finer unit, or ISO 8601"
                )
        return TimeColumn(name, "epoch", unit)
    exact = TimeColumn(name, find_time_format(first, name, notes), "ns")
    counts = exact.read(source, first.lines, cells)
    fine = any(isinstance(count, int) and count % 1000 for count in counts)
    return exact if fine else exact._replace(unit="us")

"""A row's place in its stream as an exact integer, and how long a row may come late.

Times are counts since 1970, to the nanosecond if need be, so that no two rows of a stream fall together.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

import numpy as np

from undrift.errors import DataError, InputError
from undrift.stream.cells import Cells, Lines, is_missing, time_parser
from undrift.stream.first_rows import FirstRows, RowOrigin
from undrift.stream.keyed.keys_and_orders import EPOCH, MAX_EXACT_FLOAT, MAX_ORDER, NANOSECONDS
from undrift.stream.schema import find_time_format

Orders = list[object]
"""Integers, None where missing, and the cells themselves where they are none."""
_LONGER_UNITS = {"m": 60 * 10**9, "h": 3600 * 10**9, "d": 24 * 3600 * 10**9}


def parse_integer(cell: object) -> object:
    """Return the integer that a cell spells; the cell itself if it spells none.

    >>> parse_integer("1800000000000000001"), parse_integer(" 12.0 "), parse_integer("1.5"), parse_integer("1_0")
    (1800000000000000001, 12, 1.5, '1_0')
    """
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if "_" in text or not text.isascii():  # an integer to Python only
        return cell
    try:
        return int(text)
    except ValueError:
        pass
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return cell
    if not exact.is_finite() or exact.adjusted() > 40:
        return cell
    return int(exact) if exact == exact.to_integral_value() else float(text)


def parse_integers(cells: Cells, na: frozenset[str]) -> Orders:
    """Return a column of integers."""
    values = cells.tolist() if isinstance(cells, np.ndarray) else cells
    return [cell if type(cell) is int else None if is_missing(cell, na) else parse_integer(cell) for cell in values]


def require_integer_column(first: FirstRows, name: str) -> None:
    """Refuse a column that is no integers, a few bad cells aside, which will be reported one by one."""
    values = zip(first.lines.tolist(), parse_integers(first.columns[name], first.na), strict=True)
    known = [(line, value) for line, value in values if value is not None]
    broken = [(line, value) for line, value in known if not _is_valid_order(value)]
    if 2 * len(broken) > len(known):
        line, value = broken[0]
        shown = f"{value:g}" if isinstance(value, float) else f"{value!s:.40}"
        raise DataError(
            f"{first.source.at(line)}: --order '{name}' must be a column of integers of at most 2^62 in size, got "
            f"{shown}; for times pass --time, or leave --order out to take rows as they come"
        )


def _is_valid_order(value: object) -> bool:
    if isinstance(value, float):
        return value.is_integer() and abs(value) <= MAX_EXACT_FLOAT
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_ORDER


def parse_wait(text: str, unit: str | None) -> int:
    """Return how long a record waits, in orders: a count, or a duration where orders are times in `unit`.

    >>> parse_wait("64", None), parse_wait("2h", "us"), parse_wait("0", "ns")
    (64, 7200000000, 0)
    """
    found = re.fullmatch(r"([0-9]{1,18})(ns|us|ms|s|m|h|d)?", text.strip())
    bare = found is not None and found[2] is None
    if found is None or ((unit is None) != bare and int(found[1])):
        orders, duration = "a whole number of orders, such as 64", "a duration with a unit, such as 90s, 15m, 2h or 1d"
        raise InputError(f"undrift fleet: --wait must be {orders if unit is None else duration}, got {text!r}")
    count = int(found[1])
    if unit is None or not count:
        return count
    whole, rest = divmod(count * {**NANOSECONDS, **_LONGER_UNITS}[found[2]], NANOSECONDS[unit])
    return whole + (rest > 0)


_FRACTION = re.compile(r"^(.*[0-9])[.,]([0-9]+)(.*)$")


class TimeColumn(NamedTuple):
    """How the times of a column are written, and what they are counted in."""

    name: str
    """The column."""
    format: str
    """"iso", the letters of strptime, or "epoch": numbers since 1970."""
    unit: str
    """s, ms, us or ns."""

    def read(self, source: RowOrigin, lines: Lines, cells: Cells) -> Orders:
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

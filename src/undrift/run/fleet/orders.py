"""A row's place in its stream, exactly: integers however they are written, or times to the nanosecond."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

import numpy as np

from undrift.errors import DataError, InputError
from undrift.fleet.keys_and_orders import EPOCH, MAX_EXACT_FLOAT, MAX_ORDER, NANOSECONDS
from undrift.run.read.cells import is_missing, time_parser
from undrift.run.read.rows import Cells, RowBatch
from undrift.run.read.source import Source

Orders = list[object]
"""Integers, None where missing, and the cells themselves where they are none."""
_LONGER = {"m": 60 * 10**9, "h": 3600 * 10**9, "d": 24 * 3600 * 10**9}
_FRACTION = re.compile(r"^(.*[0-9])[.,]([0-9]+)(.*)$")


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


def require_integer_column(source: Source, name: str, batches: Sequence[RowBatch], na: frozenset[str]) -> None:
    """Refuse a column that is no integers, a few bad cells aside, which will be reported one by one."""
    broken, known = [], 0
    for batch in batches:
        for line, value in zip(batch.lines.tolist(), parse_integers(batch.columns[name], na), strict=True):
            known += value is not None
            if value is not None and not _is_valid_order(value):
                broken.append((line, value))
    if 2 * len(broken) > known:
        line, value = broken[0]
        shown = f"{value:g}" if isinstance(value, float) else f"{value!s:.40}"
        raise DataError(
            f"{source.at(line)}: --order '{name}' must be a column of integers of at most 2^62 in size, got {shown}; "
            "for times pass --time, or leave --order out to take rows as they come"
        )


def _is_valid_order(value: object) -> bool:
    if isinstance(value, float):
        return value.is_integer() and abs(value) <= MAX_EXACT_FLOAT
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_ORDER


class TimeColumn(NamedTuple):
    """How the times of a column are written, and what they are counted in."""

    kind: str
    """"iso", the letters of strptime, or "epoch": numbers since 1970."""
    unit: str
    """s, ms, us or ns."""

    def read(self, source: Source, name: str, batch: RowBatch, na: frozenset[str]) -> Orders:
        """Return a column of times as counts since 1970, None where missing."""
        cells = batch.columns[name]
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
            counts = cells.astype(f"datetime64[{self.unit}]").astype(np.int64).tolist()
            return [None if gone else count for gone, count in zip(np.isnat(cells).tolist(), counts, strict=True)]
        values = cells.tolist() if isinstance(cells, np.ndarray) else cells
        out: Orders = []
        for line, cell in zip(batch.lines.tolist(), values, strict=True):
            try:
                out.append(None if is_missing(cell, na) else self._count(cell))
            except (ValueError, AttributeError, OverflowError):
                raise DataError(
                    f"{source.at(line)}: {cell!r:.60} in '{name}' is not a time; pass --time-format"
                ) from None
            except _TooFine:
                raise DataError(
                    f"{source.at(line)}: {cell!r:.60} in '{name}' is finer than the first rows, which were taken as "
                    f"{self.unit}; write all times alike"
                ) from None
        return out

    def _count(self, cell: object) -> int:
        if self.kind == "epoch":
            return self._number(parse_integer(cell))
        if not isinstance(cell, str):
            raise ValueError
        count, finer = divmod(parse_instant(cell.strip(), self.kind), NANOSECONDS[self.unit])
        if finer:
            raise _TooFine
        return count

    def _number(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError
        if isinstance(value, float):
            if not value.is_integer():
                raise _TooFine
            if abs(value) > MAX_EXACT_FLOAT:
                raise OverflowError
        return int(value)


class _TooFine(Exception):
    """A time between two counts of the unit."""


def parse_instant(text: str, kind: str) -> int:
    """Return a time in nanoseconds since 1970, UTC where it names a zone.

    >>> parse_instant("1970-01-01T00:00:01.123456789Z", "iso")
    1123456789
    """
    finer, found = 0, _FRACTION.match(text) if kind == "iso" else None
    if found is not None and len(found[2]) > 6:
        digits = found[2].rstrip("0")
        if len(digits) > 9:
            raise ValueError("finer than a nanosecond")
        finer = int(digits.ljust(9, "0")[6:])
        text = f"{found[1]}.{digits[:6].ljust(6, '0')}{found[3]}"
    return (time_parser(kind)(text) - EPOCH) // dt.timedelta(microseconds=1) * 1000 + finer


def infer_time_reader(source: Source, name: str, batches: Sequence[RowBatch], na: frozenset[str]) -> TimeColumn:
    """Return how the times of a column are written, from the first rows."""
    first = batches[0].columns[name]
    if isinstance(first, np.ndarray) and first.dtype.kind == "M":
        return TimeColumn("iso", np.datetime_data(first.dtype)[0])  # type: ignore[arg-type]  # times, as just seen
    known = [(line, cell) for batch in batches for line, cell in _known_cells(batch, name, na)]
    kind = source.settings.time_format or "iso"
    values = [parse_integer(cell) for _, cell in known]
    numeric = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if source.settings.time_format is None and numeric and 2 * len(numeric) > len(values):
        size = max(abs(value) for value in numeric)
        unit = "s" if size < 1e11 else "ms" if size < 1e14 else "us" if size < 1e17 else "ns"
        for (line, _), value in zip(known, values, strict=True):
            if isinstance(value, float) and not value.is_integer():
                raise DataError(
                    f"{source.at(line)}: --time '{name}' counts {unit} since 1970 in floats such as {value!r}, which "
                    "do not tell near times apart; write integers in a finer unit, or ISO 8601"
                )
        return TimeColumn("epoch", unit)
    exact = TimeColumn(kind, "ns")
    counts = [count for batch in batches for count in exact.read(source, name, batch, na)]
    fine = any(isinstance(count, int) and count % 1000 for count in counts)
    return exact if fine else TimeColumn(kind, "us")


def _known_cells(batch: RowBatch, name: str, na: frozenset[str]) -> list[tuple[int, object]]:
    cells = batch.columns[name]
    values = cells.tolist() if isinstance(cells, np.ndarray) else cells
    return [(line, cell) for line, cell in zip(batch.lines.tolist(), values, strict=True) if not is_missing(cell, na)]


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
    whole, rest = divmod(count * {**NANOSECONDS, **_LONGER}[found[2]], NANOSECONDS[unit])
    return whole + (rest > 0)

"""A row's place in its stream as an exact integer, and how long a row may come late."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

import numpy as np

from undrift.errors import DataError, InputError
from undrift.fleet.keys_and_orders import MAX_EXACT_FLOAT, MAX_ORDER, NANOSECONDS
from undrift.run.prepare.first_rows import FirstRows
from undrift.run.read.cells import is_missing
from undrift.run.read.rows import Cells

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

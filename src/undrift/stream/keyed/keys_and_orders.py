"""Parse the keys and orders of records exactly: no integer and no time passes through a float.

An order is a row's place in its stream: an integer, or a time as a count since 1970, to the nanosecond if need be, so
that no two rows of a stream fall together.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import uuid
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift.errors import DataError, InputError
from undrift.stream.cells import Cells, Lines, time_parser
from undrift.stream.cells import is_missing as is_missing_cell
from undrift.stream.first_rows import FirstRows, RowOrigin
from undrift.stream.keyed.outputs import ABSENT, Key
from undrift.stream.schema import find_time_format

MAX_ORDER = 2**62
"""Largest absolute order: the difference of two still fits 64 bits."""
MAX_EXACT_FLOAT = 2**53
"""Floats beyond it no longer tell neighbouring integers apart."""
MAX_KEY = 2**128
"""Integer keys are smaller than this in size."""
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
"""Units of times, in nanoseconds."""
EPOCH = dt.datetime(1970, 1, 1)
_TEXTS = (dt.date, dt.time, dt.timedelta, np.datetime64, Decimal, uuid.UUID)  # a datetime is a date


class UnusableRecord(Exception):
    """Why a record cannot be used."""


def is_missing(value: object) -> bool:
    """Whether a value stands for a missing one: None, NaN, and what data frames put in their place."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    return isinstance(value, np.datetime64) and bool(np.isnat(value))


def short_repr(value: object) -> str:
    """Return a value as a sentence shows it."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def parse_key(name: str, value: object) -> Key:
    """Return a key: texts and integers as they are, all else that names something as its text.

    >>> parse_key("k", 1800000000000000001), parse_key("k", "007"), parse_key("k", True), parse_key("k", 2.0)
    (1800000000000000001, '007', 'True', 2)
    """
    if is_missing(value):
        raise UnusableRecord(f"key '{name}' is missing")
    if isinstance(value, str):
        return _check_encodable(name, str(value))
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))  # as text, because a dictionary takes True for 1
    if isinstance(value, (float, np.floating)) and float(value).is_integer() and abs(float(value)) <= MAX_EXACT_FLOAT:
        return int(value)  # data frames turn integers into floats where some are missing
    if isinstance(value, (int, np.integer)) and abs(int(value)) < MAX_KEY:
        return int(value)
    if isinstance(value, _TEXTS):
        return str(value)
    raise UnusableRecord(f"key '{name}' must be text or an integer, got {short_repr(value)}")


def parse_keys(names: Sequence[str], values: Sequence[object]) -> Key:
    """Return the key of a row; of several columns their texts, joined.

    >>> parse_keys(["shop", "item"], ["north", 17]), parse_keys(["shop", "item"], ["a/b", "c"])
    ('north/17', 'a~/b/c')
    """
    parts = [parse_key(name, value) for name, value in zip(names, values, strict=True)]
    return parts[0] if len(parts) == 1 else join_key(parts)


def join_key(parts: Iterable[object]) -> str:
    """Return the texts of several key columns as one key; different parts never give the same one."""
    return "/".join(str(part).replace("~", "~~").replace("/", "~/") for part in parts)


def split_key(key: Key, count: int) -> list[str]:
    """Return the texts that `join_key` joined; none where there is no key.

    >>> split_key("a~/b/c", 2), split_key(None, 2)
    (['a/b', 'c'], ['', ''])
    """
    if key is None:
        return [""] * count
    parts = re.findall(r"((?:[^/~]|~.)*)(?:/|$)", str(key))[:count]
    return [re.sub(r"~(.)", r"\1", part) for part in parts]


def _check_encodable(name: str, text: str) -> str:
    """Return the text, or refuse one that cannot be written to a file."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnusableRecord(f"key '{name}' must be text that can be encoded, got {text!a:.40}") from None
    return text


def parse_order(name: str, value: object, unit: str = "us") -> int:
    """Return an order: an integer, or a time as a count of `unit` since 1970.

    >>> parse_order("n", 3.0), parse_order("at", dt.datetime(1970, 1, 1, 0, 0, 1))
    (3, 1000000)
    """
    if is_missing(value):
        raise UnusableRecord(f"'{name}' is missing")
    if isinstance(value, (dt.datetime, np.datetime64)):
        return _check_range(name, value, _count_time(name, value, unit))
    if isinstance(value, (float, np.floating)):
        if abs(float(value)) > MAX_EXACT_FLOAT:
            raise UnusableRecord(f"'{name}' is {value:g}, a float beyond 2^53, which does not tell integers apart")
        if float(value).is_integer():
            value = int(value)
    if isinstance(value, Decimal) and value.is_finite() and abs(value) <= MAX_ORDER and value == int(value):
        value = int(value)
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise UnusableRecord(f"'{name}' must be an integer, got {short_repr(value)}")
    return _check_range(name, value, int(value))


def _check_range(name: str, value: object, order: int) -> int:
    if abs(order) > MAX_ORDER:
        raise UnusableRecord(f"'{name}' must be at most 2^62 in size, got {short_repr(value)}")
    return order


def _count_time(name: str, value: dt.datetime | np.datetime64, unit: str) -> int:
    """Return a time as a count of `unit`; refuse one that is finer."""
    if isinstance(value, dt.datetime):
        plain = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        exact = (plain - EPOCH) // dt.timedelta(microseconds=1) * 1000 + getattr(value, "nanosecond", 0)
    else:
        kind, step = np.datetime_data(value.dtype)
        coarse = kind not in NANOSECONDS  # for example days
        exact = int(value.astype("datetime64[s]" if coarse else value.dtype).astype(np.int64))
        exact *= NANOSECONDS["s"] if coarse else step * NANOSECONDS[kind]
    order, finer = divmod(exact, NANOSECONDS[unit])
    if finer:
        raise UnusableRecord(f"'{name}' is finer than {unit}, got {short_repr(value)}; pass time_unit=\"ns\"")
    return order


def parse_order_column(column: Any, unit: str, *, needed: bool, bad: dict[int, str]) -> NDArray[np.int64]:
    """Return a column of a data frame as orders; add what is wrong with single cells to `bad`.

    A column that cannot be orders (texts, floats between the integers, times finer than the unit) is refused.
    """
    import narwhals as nw

    name = column.name
    if isinstance(column.dtype, (nw.Datetime, nw.Date)):
        return _frame_times(column, unit, needed, bad)
    if not column.dtype.is_numeric():
        raise InputError(f"Fleet: column '{name}' must be integers or times, got {column.dtype}; convert it first")
    out = np.full(len(column), ABSENT, np.int64)
    if column.dtype.is_integer() and not column.null_count():
        whole = column.to_numpy()
        fine = (whole >= -MAX_ORDER) & (whole <= MAX_ORDER)
        out[fine] = whole[fine]
        if fine.all():
            return out
    values = column.to_list()
    broken = []
    for i, value in enumerate(values):
        nothing = is_missing(value)
        if nothing and not needed:
            continue
        try:
            out[i] = parse_order(name, value, unit)
        except UnusableRecord as why:
            bad.setdefault(i, str(why))
            if not nothing:
                broken.append(i)
    if 2 * len(broken) > sum(not is_missing(value) for value in values):
        raise InputError(f"Fleet: column '{name}' must be integers or times: {bad[broken[0]]}; convert it first")
    return out


def _frame_times(column: Any, unit: str, needed: bool, bad: dict[int, str]) -> NDArray[np.int64]:
    """Return times as counts of `unit` since 1970."""
    import narwhals as nw

    name, out = column.name, np.full(len(column), ABSENT, np.int64)
    missing = column.is_null().to_numpy()
    known = column.filter(~column.is_null())  # some libraries give floats for columns with missing times
    own = getattr(known.dtype, "time_unit", "us")
    own = own if own == "ns" else "us"
    count = np.asarray((known if own == "ns" else known.cast(nw.Datetime("us"))).dt.timestamp(own).to_numpy(), np.int64)
    if own == "ns" and unit == "us":
        if (count % 1000).any():
            raise InputError(f"Fleet: column '{name}' has times finer than microseconds; pass time_unit=\"ns\"")
        count = count // 1000
    elif own != unit:
        if (np.abs(count) > MAX_ORDER // 1000).any():
            raise InputError(f"Fleet: column '{name}' has times before 1823 or after 2116; pass time_unit=\"us\"")
        count = count * 1000
    out[~missing] = count
    for i in np.flatnonzero(~missing & (np.abs(out) > MAX_ORDER)).tolist():
        out[i] = ABSENT
        bad.setdefault(i, f"'{name}' must be at most 2^62 {unit} from 1970")
    if needed:
        for i in np.flatnonzero(missing).tolist():
            bad.setdefault(i, f"'{name}' is missing")
    return out


def key_column_values(column: Any) -> list[Any]:
    """Return a column of a data frame as values for `parse_key`."""
    import narwhals as nw

    if isinstance(column.dtype, nw.Datetime):  # Python's own times would lose nanoseconds
        missing = column.is_null().to_list()
        return [None if gone else text for gone, text in zip(missing, column.cast(nw.String).to_list(), strict=True)]
    return list(column.to_list())


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
    return [
        cell if type(cell) is int else None if is_missing_cell(cell, na) else parse_integer(cell) for cell in values
    ]


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
                out.append(None if is_missing_cell(cell, na) else self._count(cell))
            except (ValueError, AttributeError, OverflowError):
                raise DataError(
                    f"{source.at(line)}: {cell!r:.60} in '{self.name}' is not a time; correct it, or say how times are "
                    "written with --time-format"
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

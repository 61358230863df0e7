"""Batches of rows, and their cells as numbers, texts and times.

What cannot be converted is named with the place it stands. Times are ISO 8601, or written in one of the ways people
write dates, which is found from the cells of a column.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Vector
from undrift.errors import MissingExtraError
from undrift.stream.extras import polars

BATCH_ROWS = 4096
"""Rows read at a time; part of what makes a resumed run the same, so fixed."""
MAX_LINE_BYTES = 1 << 22
"""Bytes of the longest line, and characters of the longest row: 4 MiB. More is a file of another kind, or a bomb."""
BATCH_CHARACTERS = 1 << 22
"""Characters of a batch, about: rows of more than a thousand come in smaller batches, so that memory stays bounded."""
MAX_COLUMNS = 10_000
"""Columns at most."""
FEW_CELLS = 64
"""Fewer cells than these are read one by one."""

Cells = Sequence[object] | NDArray[np.generic]
"""One column of a batch: texts or JSON values, None where missing; or an array of numbers or times."""
Lines = NDArray[np.int64]
"""Line numbers of a text file, row numbers of a Parquet file; from 1."""
Times = NDArray[np.datetime64]
"""Instants in microseconds, UTC where the source said so."""


class RowBatch(NamedTuple):
    """Some rows of a file."""

    lines: Lines
    """Where they stand."""
    columns: dict[str, Cells]
    """Their cells, by column."""


MISSING = frozenset(
    ("", "na", "n/a", "n.a.", "n/d", "<na>", "nan", "nat", "null", "(null)", "\\n", "none", "nil", "?", "-", "--", "."),
) | {"#n/a", "#value!", "#div/0!", "#ref!", "#num!", "#name?", "#null!", "k.a.", "k. a.", "n/v"}
"""Texts that mean missing, in lower case; those with # are what spreadsheets write, the last ones are German."""
LIMIT = 1e75
"""Larger numbers are as good as infinite: learners refuse them."""
FLAGS = {"true": 1.0, "false": 0.0}
EPOCH = dt.datetime(1970, 1, 1)


_DECORATED = re.compile(
    r"([+-]?)\s*[$€£¥]?\s*([0-9]{1,3}(?:([,'\u2019 \u00a0\u202f])[0-9]{3}(?:\3[0-9]{3})*)|[0-9]+)(\.[0-9]*)?\s*[$€£¥%]?"
)
"""Amounts of money, shares and large numbers as people write them: $1,234.50, -12%, 3 €, 1'234, 1 234."""


class UnreadableCell(Exception):
    """A cell that is not what its column is."""

    def __init__(self, row: int, cell: object) -> None:
        super().__init__(row, cell)
        self.row, self.cell = row, cell.item() if isinstance(cell, np.generic) else cell


def describe_kind(kind: str) -> str:
    """Return a kind of cells that cannot be learned from, for an error.

    >>> describe_kind("Duration(time_unit='us')")
    "lengths of time (Duration(time_unit='us')), which can be learned as numbers, such as seconds"
    """
    for names, what in ((("time", "Time"), "times of day"), (("timedelta", "Duration"), "lengths of time")):
        if kind.partition("(")[0] in names:
            return f"{what} ({kind}), which can be learned as numbers, such as seconds"
    return f"{kind}, no number, text or time"


def is_missing(cell: object, na: frozenset[str]) -> bool:
    """Whether a cell says nothing."""
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING or cell.strip() in na
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def parse_number(cell: object) -> float | None:
    """Return a cell as a number; None if it is none.

    Signs of money and percent are left out, and so are commas, apostrophes and spaces between groups of three digits.

    >>> parse_number("-$1,234.50"), parse_number("12%"), parse_number("(1 234)"), parse_number("1,23")
    (-1234.5, 12.0, -1234.0, None)
    """
    if isinstance(cell, str):
        text = cell.strip()
        if text[:1] == "(" and text[-1:] == ")":  # how accountants write what is below 0
            text = f"-{text[1:-1].strip()}"
        plain = _DECORATED.fullmatch(text)
        if plain is not None:
            return float(f"{plain[1]}{plain[2].replace(plain[3] or ',', '')}{plain[4] or ''}")
        if "_" in text or not text.isascii():
            return None
        flag = FLAGS.get(text.lower())
        if flag is not None:
            return flag
    elif not isinstance(cell, (bool, int, float)):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return math.inf if isinstance(cell, int) else None


def parse_numbers(cells: Cells, na: frozenset[str]) -> Vector:
    """Return a column as numbers, NaN where missing; raise `UnreadableCell` at the first cell that is none."""
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind == "M":
            known = np.flatnonzero(~np.isnat(cells))
            if len(known):
                raise UnreadableCell(int(known[0]), str(cells[known[0]]))
            return np.full(len(cells), math.nan)
        return cells.astype(np.float64, copy=False)
    out = _cast_texts(cells, na)
    if out is None:
        plain = _parse_plain_numbers(cells, na)
        if plain is not None:
            return plain
        out = np.full(len(cells), math.nan)
    read: dict[object, float | None] = {}
    for row in np.flatnonzero(np.isnan(out)).tolist():
        cell = cells[row]
        text = isinstance(cell, str)
        value = read.get(cell) if text else None
        if value is None:
            value = math.nan if is_missing(cell, na) else parse_number(cell)
            if value is None:
                raise UnreadableCell(row, cell)
            if text:
                read[cell] = value
        out[row] = value
    return out


def count_numbers(cells: Sequence[object], na: frozenset[str]) -> tuple[int, int]:
    """Return how many known cells of a column are numbers, and how many are known."""
    values = _cast_texts(cells, na)
    if values is None:
        known = [cell for cell in cells if not is_missing(cell, na)]
        return sum(parse_number(cell) is not None for cell in known), len(known)
    others = Counter(cells[row] for row in np.flatnonzero(np.isnan(values)).tolist())
    unread = {cell: count for cell, count in others.items() if not is_missing(cell, na)}
    numbers = len(cells) - sum(others.values())
    return numbers + sum(n for cell, n in unread.items() if parse_number(cell) is not None), numbers + sum(
        unread.values()
    )


def find_holes(cells: Sequence[object], na: frozenset[str]) -> NDArray[np.bool_]:
    """Return which cells of a column are missing."""
    values = _cast_texts(cells, na)
    if values is None:
        return np.array([is_missing(cell, na) for cell in cells])
    out = np.isnan(values)
    rows = np.flatnonzero(out).tolist()
    missing = {cell: is_missing(cell, na) for cell in {cells[row] for row in rows}}
    out[rows] = [missing[cells[row]] for row in rows]
    return np.asarray(out)


def _cast_texts(cells: Sequence[object], na: frozenset[str]) -> Vector | None:
    """Return many texts as numbers, NaN where one is missing or has to be read by itself; None unless all are texts.

    polars takes digits, a point, an exponent and signs, or "inf", and rounds to the nearest number, as Python does.
    """
    if len(cells) < FEW_CELLS or {*map(type, cells)} != {str}:
        return None
    try:
        pl = polars("a column of numbers")
        numbers = pl.Series(cells, dtype=pl.String).cast(pl.Float64, strict=False)
    except (MissingExtraError, UnicodeEncodeError):  # a lone surrogate
        return None
    out: Vector = numbers.to_numpy(writable=True)
    if na and not na.isdisjoint(cells):  # what is a number to polars has no spaces around it
        out[[cell in na for cell in cells]] = math.nan
    return out


def _parse_plain_numbers(cells: Sequence[object], na: frozenset[str]) -> Vector | None:
    """Return a column whose cells are plain numbers or empty; None if some are not."""
    if na:
        return None
    try:
        filled = [math.nan if cell == "" else cell for cell in cells] if "" in cells else cells
        values = list(map(float, filled))  # type: ignore[arg-type]  # fails right here
    except (TypeError, ValueError, OverflowError):
        return None
    try:
        text = "".join(cells)  # type: ignore[arg-type]  # texts, as a rule
    except TypeError:
        text = "".join(cell for cell in cells if isinstance(cell, str))
    if "_" in text or not text.isascii():  # a number to Python only
        return None
    return np.array(values)


def parse_texts(cells: Cells, na: frozenset[str]) -> list[str | None]:
    """Return a column as texts, None where missing."""
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind == "f":
            bits, places = np.unique(cells.astype(np.float64).view(np.int64), return_inverse=True)
            labels = [_text_or_none(cell, na) for cell in bits.view(np.float64).tolist()]
            return [labels[place] for place in places.tolist()]
        if cells.dtype.kind == "M":
            return [None if np.isnat(cell) else str(cell) for cell in cells]
        return [_text_or_none(float(cell), na) for cell in cells]
    if not {*map(type, cells)} <= {str, type(None)}:
        return [_text_or_none(cell, na) for cell in cells]
    texts = {cell: _text_or_none(cell, na) for cell in dict.fromkeys(cells)}
    return [texts[cell] for cell in cells]


def _text_or_none(cell: object, na: frozenset[str]) -> str | None:
    return None if is_missing(cell, na) else label_text(cell)


def label_text(cell: object) -> str:
    """Return a cell as a text; a number the shortest way, so that 1, 1.0 and "1" are one label.

    >>> label_text(1.0), label_text("1.00"), label_text(True), label_text(" yes "), label_text(1234567.0)
    ('1', '1', 'true', 'yes', '1234567')
    """
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, str):
        text = cell.strip()
        try:
            value = float(text)
        except ValueError:
            return text
        return f"{value:g}" if math.isfinite(value) and abs(value) < 1e6 and "_" not in text else text
    if isinstance(cell, (int, float)) and abs(cell) < 1e6:
        return f"{cell:g}"
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def time_parser(kind: str) -> Callable[[str], dt.datetime]:
    """Return what reads a text of this kind as a time: "iso", or the letters of strptime."""
    if kind == "iso":
        return _parse_iso
    return lambda text: _without_zone(dt.datetime.strptime(text, kind))


def parse_times(cells: Cells, kind: str, na: frozenset[str]) -> Times:
    """Return a column as times, NaT where missing; "epoch" counts seconds (or ms, us, ns) since 1970."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        return cells.astype("datetime64[us]")
    if kind == "epoch":
        return times_since_1970(parse_numbers(cells, na))
    whole = _plain_iso_times(cells, na) if kind == "iso" else None
    if whole is not None:
        return whole
    read = time_parser(kind)
    out = np.empty(len(cells), dtype="datetime64[us]")
    for row, cell in enumerate(cells):
        if is_missing(cell, na):
            out[row] = np.datetime64("NaT")
            continue
        try:
            out[row] = read(cell.strip())
        except (ValueError, AttributeError, OverflowError):
            raise UnreadableCell(row, cell) from None
    return out


def _plain_iso_times(cells: Cells, na: frozenset[str]) -> Times | None:
    """Return many times whose cells are ISO 8601 and nothing around it, or empty; None if some are not."""
    if len(cells) < FEW_CELLS:
        return None
    out = np.full(len(cells), np.datetime64("NaT"), dtype="datetime64[us]")
    known: list[Any] = [cell for cell in cells if cell != ""]
    try:
        times = [_without_zone(when) for when in map(dt.datetime.fromisoformat, known)]
        pl = polars("a column of times")  # which takes a quarter of NumPy's time
    except (MissingExtraError, TypeError, ValueError, OverflowError):
        return None
    if na and not na.isdisjoint(known):
        return None
    out[[cell != "" for cell in cells]] = pl.Series(times, dtype=pl.Datetime("us")).to_numpy()
    return out


def times_since_1970(seconds: Vector) -> Times:
    """Return instants from numbers since 1970, in the unit their size suggests."""
    size = float(np.nanmax(np.abs(seconds), initial=0.0))
    unit = 1e6 if size < 1e11 else 1e3 if size < 1e14 else 1.0 if size < 1e17 else 1e-3
    known = np.abs(seconds) * unit < 9e18
    out = np.full(len(seconds), np.datetime64("NaT"), dtype="datetime64[us]")
    out[known] = np.round(seconds[known] * unit).astype(np.int64).astype("datetime64[us]")
    return out


def _parse_iso(text: str) -> dt.datetime:
    return _without_zone(dt.datetime.fromisoformat(text.removesuffix(" UTC").removesuffix(" GMT")))


def _without_zone(when: dt.datetime) -> dt.datetime:
    """Return an instant in UTC without a zone."""
    return when if when.tzinfo is None else when.astimezone(dt.UTC).replace(tzinfo=None)


DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m", "%Y/%m",
    "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%m/%Y",
    "%m/%d/%y", "%d/%m/%y", "%d.%m.%y",
    "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b-%Y", "%b %Y", "%B %Y",
)  # fmt: skip
"""Dates as people write them, in the letters of strptime; leading zeros may be missing."""
HOURS = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p")
FORMATS = tuple(f"{date}{gap}{hour}" for date, hour in product(DATES, HOURS) for gap in ((" ", "T") if hour else ("",)))
LEAST_LENGTH, MOST_LENGTH = 6, 40
"""Characters of a text that may be a time."""
SAMPLE = 20
"""Cells that most formats are refused by."""


def reads(form: str, cells: Sequence[object]) -> list[bool]:
    """Return which of some cells are times written in this way."""
    parse = time_parser(form)
    known = {cell: _is_time(cell, parse) for cell in {cell for cell in cells if isinstance(cell, str)}}
    return [isinstance(cell, str) and known[cell] for cell in cells]


def _is_time(cell: object, parse: Callable[[str], dt.datetime]) -> bool:
    if not isinstance(cell, str) or not LEAST_LENGTH <= len(cell.strip()) <= MOST_LENGTH:
        return False
    try:
        parse(cell.strip())
    except (ValueError, OverflowError):
        return False
    return True


def find_formats(cells: Sequence[object], share: float) -> list[str]:
    """Return the ways in which at least this share of the cells can be read, those that keep their order best first.

    Nothing else is tried where ISO 8601 reads them.

    >>> find_formats(["01/30/2024", "01/31/2024", "02/01/2024"], 0.9)
    ['%m/%d/%Y']
    >>> find_formats(["1/2/2024 1:00 PM", "2/2/2024 1:00 PM", "3/2/2024 1:00 PM"], 0.9)
    ['%d/%m/%Y %I:%M %p', '%m/%d/%Y %I:%M %p']
    """
    if not cells:
        return []
    least = share * len(cells)
    if sum(reads("iso", cells)) >= least:
        return ["iso"]
    sample = cells[:: max(1, len(cells) // SAMPLE)]
    likely = [form for form in FORMATS if sum(reads(form, sample)) >= 0.5 * len(sample)]
    found = [form for form in likely if sum(reads(form, cells)) >= least]
    return sorted(found, key=lambda form: _roughness(form, cells))


def are_alike(first: str, second: str, cells: Sequence[object]) -> bool:
    """Whether two ways to read the cells are equally likely, and differ."""
    return _roughness(first, cells) == _roughness(second, cells) and _instants(first, cells) != _instants(second, cells)


def _instants(form: str, cells: Sequence[object]) -> list[dt.datetime]:
    parse = time_parser(form)
    return [parse(str(cell).strip()) for cell in cells if _is_time(cell, parse)]


def _roughness(form: str, cells: Sequence[object]) -> tuple[float, float]:
    """Return how unlike a clock the times are: how often they turn around, and how much their steps differ."""
    times = np.array(_instants(form, cells), dtype="datetime64[us]")
    steps = np.diff(times).astype(np.float64)
    if not len(steps):
        return 0.0, 0.0
    turns = float(min(np.count_nonzero(steps < 0.0), np.count_nonzero(steps > 0.0)))
    typical = float(np.median(np.abs(steps))) or 1.0
    return turns, float(np.mean(np.abs(np.abs(steps) - typical))) / typical

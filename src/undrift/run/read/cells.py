"""Cells into numbers, texts and times; what cannot be converted is named with the place it stands."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from undrift._typing import Vector
from undrift.run.read.rows import Cells, Times

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
        self.row, self.cell = row, cell


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
            raise UnreadableCell(0, str(cells[0]))
        return cells.astype(np.float64, copy=False)
    plain = _parse_plain_numbers(cells, na)
    if plain is not None:
        return plain
    out = np.empty(len(cells))
    for row, cell in enumerate(cells):
        if is_missing(cell, na):
            out[row] = math.nan
        else:
            value = parse_number(cell)
            if value is None:
                raise UnreadableCell(row, cell)
            out[row] = value
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
        return [None if is_missing(float(cell), na) else label_text(float(cell)) for cell in cells]
    return [None if is_missing(cell, na) else label_text(cell) for cell in cells]


def label_text(cell: object) -> str:
    """Return a cell as a text; a number the shortest way, so that 1, 1.0 and "1" are one label.

    >>> label_text(1.0), label_text("1.00"), label_text(True), label_text(" yes ")
    ('1', '1', 'true', 'yes')
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
    return f"{cell:g}" if isinstance(cell, (int, float)) and abs(cell) < 1e6 else str(cell)


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

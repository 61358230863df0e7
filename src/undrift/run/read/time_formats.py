"""How times are written: ISO 8601, or one of the ways people write dates, found from the cells of a column."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from undrift.run.read.cells import time_parser

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
    return [_is_time(cell, parse) for cell in cells]


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

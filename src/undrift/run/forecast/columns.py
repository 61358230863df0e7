"""The columns of a file of series: the target, columns known in advance, and forecasts of the user's own.

The target is the only column of numbers where none was named. Forecasts of the user's own are columns of two kinds:

- one column beside the target: its cell is a forecast *of the same row's value*. It counts as known `horizon` rows
  before, or with `COLUMN:6` six rows before, and is a forecast of that many steps. Rows after the last value hold
  those to come.
- `COLUMN_1`, `COLUMN_2`, ...: forecasts *made in their row*, of the values 1, 2, ... rows later. Steps may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift.errors import DataError, InputError
from undrift.forecast import align_candidate
from undrift.run.read.rows_in_order import read_first_rows
from undrift.run.read.source import Source
from undrift.stream.schema import column_kind, counts_rows, find_time_column
from undrift.stream.settings import ForecastSettings

Cube = NDArray[np.float64]


class ForecastSource(Source):
    """A file of series."""

    def __init__(self, path: str, settings: ForecastSettings) -> None:
        super().__init__(path, settings.reading())
        candidates = {name.rpartition(":")[0] or name for name in settings.candidate}
        self._options = dict.fromkeys(candidates, "--candidate") | dict.fromkeys(settings.known, "--known")

    def leave_out(self, name: str) -> str:
        """Return how a column is left out, for an error."""
        option = self._options.get(name) or self._options.get(name.rpartition("_")[0])
        return "take that column out of the file" if option is None else f"leave it out of {option}"


class CandidateColumns(NamedTuple):
    """The columns of one candidate."""

    columns: tuple[str, ...]
    """One beside the target, or one for each of `steps`."""
    ahead: int
    """Rows before its own that the column beside the target was known; 0 where there is a column for each step."""
    steps: tuple[int, ...]
    """Steps that have a column."""


def find_candidates(
    file: str, columns: Collection[str], candidates: Sequence[str], horizon: int
) -> tuple[CandidateColumns, ...]:
    """Return the columns of every candidate, or say what is missing."""
    return tuple(_find(file, columns, name, horizon) for name in candidates)


def _find(file: str, columns: Collection[str], name: str, horizon: int) -> CandidateColumns:
    if name in columns:
        return CandidateColumns((name,), horizon, ())
    column, _, number = name.rpartition(":")
    if column in columns and number.isdecimal() and int(number) > 0:
        return CandidateColumns((column,), min(int(number), horizon), ())
    steps = tuple(h for h in range(1, horizon + 1) if f"{name}_{h}" in columns)
    if not steps:
        raise DataError(
            f"{file}: no column '{name}', nor '{name}_1', '{name}_2', ... for --candidate; columns are "
            f"{', '.join(list(columns)[:20])}"
        )
    return CandidateColumns(tuple(f"{name}_{h}" for h in steps), 0, steps)


def make_own_forecasts(cells: Cube, found: Sequence[CandidateColumns], rows: int, horizon: int) -> Cube:
    """Return the own forecasts made after each row (rows, series, candidates, steps), NaN where there is none.

    Parameters
    ----------
    cells
        The candidates' columns, one after the other (rows and those to come, series, columns).
    found
        Which candidate they are of.
    rows
        Rows that have come.
    horizon
        Steps.
    """
    series = cells.shape[1]
    own = np.full((rows, series, len(found), horizon), np.nan)
    at = 0
    for k, one in enumerate(found):
        for s in range(series):
            if one.ahead:
                own[:, s, k] = align_candidate(cells[:, s, at], rows, horizon, ahead=one.ahead)
            else:
                own[:, s, k, np.array(one.steps) - 1] = cells[:rows, s, at : at + len(one.steps)]
        at += len(one.columns)
    return own


MOST_NAMED = 20
"""Columns named in an error."""


def settle_target(path: str, settings: ForecastSettings, log: Callable[[str], None]) -> ForecastSettings:
    """Return settings that name a target: the given one, or the only column of numbers (a note is printed)."""
    if settings.target:
        return settings
    if path == "-":
        raise InputError(
            "undrift forecast: name the column to forecast with --target; it is not looked for in the standard input"
        )
    source = ForecastSource(path, settings)
    first, _ = read_first_rows(source)
    taken = {*settings.known, settings.series, settings.key, settings.time}
    for one in find_candidates(source.name, first.columns, settings.candidate, settings.horizon):
        taken |= set(one.columns)
    left = [name for name in first.columns if name not in taken]
    if settings.time is None:
        time, _ = find_time_column(first, left, [])
        left = [name for name in left if name != time]
    found = [
        name
        for name in left
        if first.known_cells(name) and column_kind(first, name) == "number" and not counts_rows(first, name)
    ]
    if len(found) != 1:
        names = found or list(first.columns)
        what = "columns of numbers are" if found else "there is no column of numbers, columns are"
        more = ", ..." if len(names) > MOST_NAMED else ""
        raise InputError(
            f"undrift forecast: name the column to forecast with --target; {what} {', '.join(names[:MOST_NAMED])}{more}"
        )
    log(f"'{found[0]}' is forecast, the only column of numbers; --target names another")
    return settings.replace(target=(found[0],))

"""Which columns of a file hold forecasts of the user's own, and how they become forecasts of steps.

Two kinds of columns are taken:

- one column beside the target: its cell is a forecast *of the same row's value*. It counts as known `horizon` rows
  before, or with `COLUMN:6` six rows before, and is a forecast of that many steps. Rows after the last value hold
  those to come.
- `COLUMN_1`, `COLUMN_2`, ...: forecasts *made in their row*, of the values 1, 2, ... rows later. Steps may be missing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift.errors import DataError
from undrift.forecast import align_candidate

Cube = NDArray[np.float64]


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

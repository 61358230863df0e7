"""Forecasts of the user's own: candidates that come with the rows, made elsewhere from what was known then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check
from undrift._typing import Matrix
from undrift.errors import InputError

Cube = NDArray[np.float64]


def check_names(who: object, candidates: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of a forecaster's own candidates; none of them twice."""
    if candidates is None:
        return ()
    listed = list(candidates) if isinstance(candidates, (list, tuple)) else []
    named = all(isinstance(one, str) and one for one in listed)
    if not named or len(set(listed)) < len(listed) or (not listed and candidates not in ((), [])):
        raise InputError(
            f"{_check.name_of(who)}: candidates must be a list of different names, got {_check.describe(candidates)}"
        )
    return tuple(listed)


def read_own_forecasts(who: object, given: Any, shape: tuple[int, ...], *, flat: bool) -> Cube:
    """Return own forecasts in the shape (..., series, candidates, steps); NaN where there is none.

    Parameters
    ----------
    who
        Whose forecasts they are, for messages.
    given
        What the caller passed; None: nobody says anything.
    shape
        The shape that is wanted.
    flat
        Whether there is one series without an axis of its own; an axis of one candidate may always be left out.
    """
    if given is None:
        return np.full(shape, np.nan)
    if not shape[-2]:
        raise InputError("Forecaster: candidates were not named; begin with Forecaster(candidates=[...])")
    array = _check._real_array(who, "candidates", given)
    expected = shape[:-3] + shape[-2:] if flat else shape
    if array.shape not in ((expected, expected[:-2] + expected[-1:]) if shape[-2] == 1 else (expected,)):
        raise InputError(f"Forecaster: candidates must have shape {expected}, got {array.shape}")
    return _check.within_limit(who, "candidates", np.ascontiguousarray(array.reshape(shape)), nan=True)


def align_candidate(column: ArrayLike, rows: int, horizon: int, *, ahead: int | None = None) -> Matrix:
    """Return the own forecasts made after each row (rows, horizon), from a column that lies beside the values.

    Parameters
    ----------
    column
        Forecasts of the values in the same rows; it may go on after the last row with those still to come.
    rows
        How many rows have come.
    horizon
        Steps of the forecaster.
    ahead
        How many rows before its own each forecast was known: it speaks of the steps 1 to `ahead`. None: the whole
        horizon. A column of forecasts made one row before, for which more is claimed, would know the future.

    Examples
    --------
    >>> align_candidate([10.0, 20.0, 30.0, 40.0], rows=3, horizon=2)
    array([[20., 30.],
           [30., 40.],
           [40., nan]])
    >>> align_candidate([10.0, 20.0, 30.0, 40.0], rows=3, horizon=2, ahead=1)
    array([[20., nan],
           [30., nan],
           [40., nan]])
    """
    values = _check._real_array("align_candidate", "column", column)
    if values.ndim != 1:
        raise InputError(f"align_candidate: column must have one axis, got shape {values.shape}")
    known = horizon if ahead is None else min(_check.integer("align_candidate", "ahead", ahead, 1, 10**9), horizon)
    at = np.arange(rows)[:, None] + np.arange(1, horizon + 1)
    there = (at < len(values)) & (np.arange(1, horizon + 1) <= known)
    return np.where(there, values[np.minimum(at, len(values) - 1)] if len(values) else np.nan, np.nan)

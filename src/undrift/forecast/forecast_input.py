"""What a forecaster is given, checked at the door: parameters, rows, columns known in advance, and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.forecast.calendar import Seconds
from undrift.forecast.intervals import LEVELS

MOST_STEPS, MOST_SERIES, MOST_COLUMNS = 10_000, 10_000, 256
MOST_BYTES = 4e9
"""Bytes that the candidates' answers of the last origins may take."""
LONGEST_SEASON = 100_000


def require_memory(series: int, horizon: int, candidates: int) -> None:
    """Refuse what would keep more served forecasts than fit into memory."""
    needed = 8.0 * candidates * series * horizon * horizon
    if needed > MOST_BYTES:
        raise InputError(
            f"Forecaster: {series} series, {horizon} steps ahead, need {needed / 1e9:.1f} GB, more than "
            f"{MOST_BYTES / 1e9:.0f}; forecast fewer steps, or fewer series together"
        )


def read_row(who: object, y: ArrayLike) -> Vector:
    """Return one row of values."""
    array = _check._real_array(who, "y", y)
    if array.ndim > 1:
        raise InputError(
            f"Forecaster: observe takes one row, got an array of shape {array.shape}; use play for several"
        )
    return np.atleast_1d(array)


def read_matrix(who: object, array: NDArray[np.float64]) -> Matrix:
    """Return rows of several series."""
    if array.ndim != 2 or not 1 <= array.shape[1] <= MOST_SERIES:
        raise InputError(f"{_check.name_of(who)}: Y must have shape (rows,) or (rows, series), got {array.shape}")
    return array


def check_level(who: object, level: float) -> float:
    """Return a level that intervals can be given for."""
    at = _check.number(who, "level", level)
    if not LEVELS[0] <= at <= LEVELS[-1]:
        span = f"[{LEVELS[0]:g}, {LEVELS[-1]:g}]"
        raise InputError(f"Forecaster: level must be in {span}, got {level!r}{_check.percent_hint(level)}")
    return at


def check_seasons(who: object, season: int | Sequence[int] | None) -> tuple[int, ...] | None:
    """Return given seasons, shortest first; None if they are to be found."""
    if season is None:
        return None
    each = list(season) if isinstance(season, (list, tuple)) else [season]
    if each in ([0], []):
        return ()
    if len(each) > 4:
        raise InputError(f"Forecaster: season must be at most 4 numbers, got {len(each)}")
    return tuple(sorted({_check.integer(who, "season", one, 2, LONGEST_SEASON) for one in each}))


def known_ahead(who: object, known: ArrayLike | None, horizon: int) -> Matrix:
    """Return the known columns of this row and the next H."""
    if known is None:
        return np.zeros((horizon + 1, 0))
    array = _check._real_array(who, "known", known)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or len(array) != horizon + 1 or array.shape[1] > MOST_COLUMNS:
        raise InputError(f"Forecaster: known must have a row for this row and the next {horizon}, got {array.shape}")
    return _check.within_limit(who, "known", np.ascontiguousarray(array))


def known_windows(who: object, known: ArrayLike | None, rows: int, horizon: int) -> NDArray[np.float64]:
    """Return the known columns of each row and the next H; beyond what is given, the last row goes on."""
    if known is None:
        return np.zeros((rows, horizon + 1, 0))
    array = _check._real_array(who, "known", known)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or len(array) < rows or not len(array) or array.shape[1] > MOST_COLUMNS:
        raise InputError(f"Forecaster: known must have at least {rows} rows, one for each of Y, got {array.shape}")
    array = _check.within_limit(who, "known", np.ascontiguousarray(array))
    at = np.arange(rows)[:, None] + np.arange(horizon + 1)
    return np.asarray(array[np.minimum(at, len(array) - 1)])


def read_seconds(who: object, times: Any, count: int) -> Seconds:
    """Return times as whole seconds since 1970."""
    try:
        found = np.atleast_1d(np.asarray(times, dtype="datetime64[s]"))
    except (ValueError, TypeError, OverflowError):
        raise InputError(
            f"{_check.name_of(who)}: times must be dates and times, one for each row, got {_check.describe(times)}"
        ) from None
    if found.shape != (count,):
        raise InputError(f"Forecaster: times must have one for each of {count} rows, got shape {found.shape}")
    if np.isnat(found).any():
        raise InputError(f"Forecaster: times must not be missing, row {int(np.argmax(np.isnat(found)))} has none")
    return found.astype(np.int64)

"""What a forecaster is given, checked at the door: parameters, rows, frames, known columns, own forecasts and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.forecast.calendar import Seconds, count_steps, usual_spacing
from undrift.forecast.core import ForecastCore
from undrift.forecast.intervals import LEVELS

MOST_STEPS, MOST_SERIES, MOST_COLUMNS = 10_000, 10_000, 256
MOST_BYTES = 4e9
"""Bytes that the candidates' answers of the last origins may take."""
LONGEST_SEASON = 100_000
Cube = NDArray[np.float64]
COLUMNS = ("unique_id", "ds", "y")
"""Series, time and value, as other forecasting libraries call them."""
LONGEST_GAP = 100_000
"""Missing rows between two times that are filled in; more look like a mistake."""


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


def check_quantiles(who: object, quantiles: Sequence[float] | None) -> tuple[float, ...]:
    """Return the quantiles that are wanted: ends of intervals that can be given."""
    found = tuple(_check.number(who, "quantiles", one) for one in (() if quantiles is None else quantiles))
    low, high = (1.0 - LEVELS[-1]) / 2.0, (1.0 + LEVELS[-1]) / 2.0
    wrong = next((one for one in found if not low - 1e-12 <= one <= high), None)
    if wrong is not None:
        span = f"[{low:g}, {high:g}]"
        raise InputError(f"Forecaster: quantiles must be in {span}, got {wrong!r}{_check.percent_hint(wrong)}")
    return found


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
    """Return the known columns of each row and the next H; beyond what is given, the last row goes on.

    They may be given so already (rows, H + 1, columns), where what is known of a row changes until it comes.
    """
    if known is None:
        return np.zeros((rows, horizon + 1, 0))
    array = _check._real_array(who, "known", known)
    if array.shape[:2] == (rows, horizon + 1) and array.ndim == 3 and array.shape[2] <= MOST_COLUMNS:
        return _check.within_limit(who, "known", np.ascontiguousarray(array))
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


class LongRows(NamedTuple):
    """A frame in long format as rows of all series."""

    names: list[str]
    """The series, in order of appearance."""
    times: NDArray[np.datetime64]
    """Different times in order."""
    values: Matrix
    """(times, series), NaN where missing."""


def is_frame(value: object) -> bool:
    """Whether this is a frame of pandas, polars or Arrow, with the columns of a long one."""
    names = getattr(value, "columns", getattr(value, "column_names", None))
    return names is not None and not callable(names) and {"ds", "y"} <= {str(name) for name in names}


def refuse_times(value: object) -> None:
    """Refuse a frame whose columns are not all values: times among them would be forecast as numbers."""
    import narwhals as nw

    table = nw.from_native(value, eager_only=True, pass_through=True)
    if not isinstance(table, nw.DataFrame):
        return
    column = next((name for name, kind in table.schema.items() if kind.is_temporal()), None)
    if column is not None:
        raise InputError(
            f"Forecaster: column '{column}' holds times, not values; pass the values as Y and the times as times=, "
            "or name the columns ds and y"
        )


def read_long_frame(frame: Any, names: list[str] | None) -> LongRows:
    """Return the rows of a frame with the columns unique_id (not needed for one series), ds and y.

    Parameters
    ----------
    frame
        Of any library that narwhals knows.
    names
        The series of earlier frames; None: this is the first.
    """
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    which = [str(one) for one in table["unique_id"].to_list()] if "unique_id" in table.columns else ["y"] * len(table)
    times = np.asarray(table["ds"].to_numpy()).astype("datetime64[s]")
    values = table["y"].cast(nw.Float64).to_numpy()
    if np.isnat(times).any():
        raise InputError(f"Forecaster: ds must not be missing, row {int(np.argmax(np.isnat(times)))} has none")
    known = list(dict.fromkeys(which)) if names is None else names
    index = {name: i for i, name in enumerate(known)}
    strange = next((name for name in which if name not in index), None)
    if strange is not None:
        raise InputError(f"Forecaster: series {strange!r:.60} was not there before; begin a new forecaster")
    grid, place = np.unique(times, return_inverse=True)
    out = np.full((len(grid), len(known)), np.nan)
    columns = np.array([index[name] for name in which], dtype=np.int64)
    if len(np.unique(place * len(known) + columns)) < len(which):
        raise InputError("Forecaster: a series has two rows of one time; drop one of them")
    out[place, columns] = values
    return LongRows(known, grid, out)


def find_gaps(core: ForecastCore, times: Seconds, given: int | None) -> tuple[int, NDArray[np.int64]]:
    """Return the seconds from row to row, and how many rows are missing before each of these times.

    Parameters
    ----------
    core
        With the rows that came before.
    times
        Of new rows.
    given
        Seconds from row to row; None: those of earlier rows, or else the usual ones here.
    """
    seen = core.rows.total > 0
    before = [int(core.rows.seconds[-1])] if seen else []
    all_times = np.array([*before, *times], np.int64)
    if (np.diff(all_times) <= 0).any():
        at = int(np.argmax(np.diff(all_times) <= 0))
        raise InputError(
            f"Forecaster: times must go forward, got {_text(all_times[at + 1])} after {_text(all_times[at])}; sort "
            "the rows and drop those that come twice"
        )
    every = core.spacing or given or usual_spacing(all_times)
    if not every or not len(times):
        return 0, np.zeros(len(times), np.int64)
    steps, fits = count_steps(int(all_times[0]), all_times, every)
    if not fits.all():
        at = int(np.argmin(fits))
        raise InputError(
            f"Forecaster: rows must be a multiple of {every} seconds apart, which {_text(all_times[at])} is not; "
            "round the times, or pass every="
        )
    skipped = np.diff(steps) - 1
    if len(skipped) and skipped.max() > LONGEST_GAP:
        raise InputError(
            f"Forecaster: {skipped.max()} rows are missing in one place, more than {LONGEST_GAP}; leave out what "
            "is before the gap, or pass every="
        )
    if len(skipped) and skipped.min() < 0:
        raise InputError(f"Forecaster: two rows fall into one step of {every} seconds; drop one, or pass every=")
    return every, skipped if seen else np.concatenate(([0], skipped))


def _text(seconds: int) -> str:
    return str(np.int64(seconds).astype("datetime64[s]"))

"""Rows that are missing between the times of those that came."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undrift.errors import InputError
from undrift.forecast.calendar import Seconds, count_steps, usual_spacing
from undrift.forecast.core import ForecastCore

LONGEST_GAP = 100_000
"""Missing rows between two times that are filled in; more look like a mistake."""


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

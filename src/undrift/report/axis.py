"""Where points stand: the round, and the time when the source has one for every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from undrift.run import RunData
from undrift.run.data import Times

Axis = dict[str, list[int] | list[str] | None]
"""The same points by round and by time."""


@dataclass(frozen=True)
class Clock:
    """Rounds and, where every one has a time and none goes back, times."""

    time: Times | None
    """Times of all rounds, or None."""
    seconds: float | None
    """Typical distance of two rounds in time."""
    doubt: str | None
    """Why times are not used although there are some."""

    def axis(self, rounds: NDArray[np.int64]) -> Axis:
        """Return points after these rounds, counted from 1."""
        return {"round": [int(t) for t in rounds], "time": None if self.time is None else texts(self.time[rounds - 1])}

    def moment(self, rounds: int) -> str:
        """Return one moment in words."""
        text = f"row {rounds:,}"
        return text if self.time is None else f"{text} ({texts(self.time[rounds - 1 : rounds])[0][:10]})"


def clock(data: RunData) -> Clock:
    """Return the clock of a run."""
    time = data.time
    if time is None or not len(time):
        return Clock(None, None, None)
    missing = int(np.count_nonzero(np.isnat(time)))
    if missing:
        return Clock(None, None, f"{missing:,} rows have no time, so the figures count rows instead")
    steps = np.diff(time).astype(np.int64)
    if (steps < 0).any():
        at = int(np.argmax(steps < 0)) + 1
        return Clock(None, None, f"time goes back at line {data.line[at]:,}, so the figures count rows instead")
    return Clock(time, _pace(steps), None)


def _pace(steps: NDArray[np.int64]) -> float | None:
    """Return the mean distance of two rounds in seconds, where a gap counts as at most 100 ordinary steps."""
    forward = steps[steps > 0]
    if not len(forward):
        return None
    return float(np.mean(np.minimum(steps, 100.0 * np.median(forward)))) / 1e6


def texts(time: Times) -> list[str]:
    """Return times in ISO form, no finer than they need."""
    whole = time == time.astype("datetime64[s]")
    return [str(t) for t in np.datetime_as_string(time, unit="s" if whole.all() else "us")]

"""The horizontal axis of a run: its rounds, and their times when the source has a usable time for every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from undrift.run import RunData
from undrift.run.read.rows import Times

Axis = dict[str, list[int] | list[str] | None]
"""The same points by round and by time."""


@dataclass(frozen=True)
class Timeline:
    """The rounds of a run and, where every one has a time and none goes back, their times."""

    time: Times | None
    """Times of all rounds, or None."""
    spacing: float | None = None
    """Typical distance between two rounds in seconds."""
    warning: str | None = None
    """Why times are not used although the source has some."""

    def axis(self, rounds: NDArray[np.int64]) -> Axis:
        """Return the points after these rounds, counted from 1."""
        return {"round": rounds.tolist(), "time": None if self.time is None else iso_times(self.time[rounds - 1])}

    def round_text(self, rounds: int) -> str:
        """Return a round by its row number and its date."""
        text = f"row {rounds:,}"
        return text if self.time is None else f"{text} ({iso_times(self.time[rounds - 1 : rounds])[0][:10]})"


def make_timeline(data: RunData) -> Timeline:
    """Return the timeline of a run."""
    time = data.time
    if time is None or not len(time):
        return Timeline(None)
    missing = int(np.count_nonzero(np.isnat(time)))
    if missing:
        return Timeline(None, warning=f"{missing:,} rows have no time, so the figures count rows instead")
    steps = np.diff(time).astype(np.int64)
    if (steps < 0).any():
        line = data.line[int(np.argmax(steps < 0)) + 1]
        return Timeline(None, warning=f"time goes back at line {line:,}, so the figures count rows instead")
    return Timeline(time, _mean_spacing(steps))


def _mean_spacing(steps: NDArray[np.int64]) -> float | None:
    """Return the mean of steps (microseconds) in seconds, where a gap counts as at most 100 median steps."""
    forward = steps[steps > 0]
    if not len(forward):
        return None
    return float(np.mean(np.minimum(steps, 100.0 * np.median(forward)))) / 1e6


def iso_times(time: Times) -> list[str]:
    """Return times in ISO form, with fractions of seconds only where one has some."""
    whole = time == time.astype("datetime64[s]")
    return [str(t) for t in np.datetime_as_string(time, unit="s" if whole.all() else "us")]

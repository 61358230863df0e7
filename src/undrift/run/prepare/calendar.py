"""Features of the calendar: where in the day, the week and the year a row is, as sines and cosines."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undrift._typing import Matrix
from undrift.run.read.rows import Times

HOURS_A_DAY, DAYS_A_WEEK, DAYS_A_YEAR = 24.0, 7.0, 365.2425


class Calendar(NamedTuple):
    """Which parts of the calendar tell rows apart."""

    hours: bool
    """Whether times have hours."""
    days: bool = True
    """Whether rows are less than a week apart, so that days of the week say something."""

    def cycles(self) -> dict[str, list[str]]:
        """Return the names of the features, in order, by the cycle they tell of."""
        names = [*(["hour", "half day"] if self.hours else []), *(["weekday"] if self.days else []), "year"]
        found = {cycle: [f"{cycle} sin", f"{cycle} cos"] for cycle in names}
        return found | ({"weekend": ["weekend"]} if self.days else {})

    def names(self) -> list[str]:
        """Return the names of the features."""
        return [name for names in self.cycles().values() for name in names]


def find_calendar(times: Times) -> Calendar:
    """Return which parts of the calendar tell these rows apart, whatever their order."""
    known = np.unique(times[~np.isnat(times)])
    steps = np.diff(known)
    days = not len(steps) or bool(np.median(steps.astype(np.int64)) < np.timedelta64(7, "D") / np.timedelta64(1, "us"))
    return Calendar(bool((known != known.astype("datetime64[D]")).any()), days)


def fill_calendar(times: Times, out: Matrix, calendar: Calendar) -> None:
    """Write the features of each row into `out`; NaN where its time is missing."""
    days = times.astype("datetime64[D]")
    hour = (times - days) / np.timedelta64(1, "h")
    weekday = (days.astype(np.int64) + 3) % 7  # 1970 began on a Thursday
    year = (days - times.astype("datetime64[Y]").astype("datetime64[D]")) / np.timedelta64(1, "D")
    turns = [hour / HOURS_A_DAY, 2.0 * hour / HOURS_A_DAY] if calendar.hours else []
    turns += [(weekday + hour / HOURS_A_DAY) / DAYS_A_WEEK] if calendar.days else []
    turns += [year / DAYS_A_YEAR]
    for k, turn in enumerate(turns):
        out[:, 2 * k], out[:, 2 * k + 1] = np.sin(2.0 * math.pi * turn), np.cos(2.0 * math.pi * turn)
    if calendar.days:
        out[:, -1] = weekday >= 5
    out[np.isnat(times)] = math.nan

"""Features of the calendar: where in the day, the week and the year a row is, as sines and cosines."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.stream.cells import Times

HOURS_A_DAY, DAYS_A_WEEK, DAYS_A_YEAR = 24.0, 7.0, 365.2425
DAY = 86_400.0
"""Seconds."""
REGULAR = 0.9
"""Part of the steps between rows that must be alike for rows to have a season."""
LONGEST_SEASON = 20_000
"""Rows of the longest season that is looked at: a week of minutes has half of that."""


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


def find_seasons(steps: Vector) -> tuple[int, ...]:
    """Return how many rows a day and a week have, and a year of months, from the seconds between rows.

    None where rows are not regular: nine in ten of the steps must be as long as the usual one.

    >>> find_seasons(np.full(50, 1800.0)), find_seasons(np.full(50, 86400.0)), find_seasons(np.arange(50.0))
    ((48, 336), (7,), ())
    """
    usual = float(np.median(steps)) if len(steps) else 0.0
    months = (steps >= 28 * DAY) & (steps <= 31 * DAY)
    if len(steps) and float(np.mean(months)) >= REGULAR:
        return (12,)
    if usual <= 0.0 or float(np.mean(steps == usual)) < REGULAR:
        return ()
    return tuple(
        int(span / usual)
        for span in (DAY, DAYS_A_WEEK * DAY)
        if span % usual == 0.0 and 1 < span / usual <= LONGEST_SEASON
    )


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

"""Where in the day, the week and the year an origin is, and the times of the steps that follow it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector

HOUR, DAY, YEAR = 3600, 86400, 365.2425 * 86400
MONTH = 28 * DAY
"""Rows at least this far apart are counted in calendar months."""
LONGEST_USUAL = 300
"""Rows of a season that is taken for granted before it was seen."""
LONGEST_CALENDAR = 1100
"""Rows of a season of the calendar that candidates may have: more than a week of quarters of an hour."""
THURSDAY = 4 * DAY
"""1970 began on a Thursday; weeks begin on Mondays."""

Seconds = NDArray[np.int64]


def calendar_columns(times: Vector | None, at: NDArray[np.int64], spacing: int) -> Matrix:
    """Return sines and cosines of the cycles that rows so far apart can follow (rows, waves); none without times."""
    if times is None or spacing <= 0:
        return np.empty((len(at), 0))
    now = times[at]
    turns = [(now % YEAR) / YEAR] if spacing < YEAR / 2 else []
    if spacing <= DAY:
        turns.append(((now - THURSDAY) % (7 * DAY)) / (7 * DAY))
    if spacing <= 6 * HOUR:
        turns.extend([(now % DAY) / DAY, 2.0 * (now % DAY) / DAY])
    angles = 2.0 * math.pi * np.array(turns).reshape(len(turns), len(at)).T
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def calendar_seasons(spacing: int) -> tuple[int, ...]:
    """Return the seasons that rows so far apart often have: a day and a week of them, a week, or a year.

    >>> calendar_seasons(HOUR), calendar_seasons(DAY), calendar_seasons(30 * DAY)
    ((24, 168), (7,), (12,))
    """
    for span, least in ((DAY, 4), (7 * DAY, 7), (YEAR, 4)):
        rows = round(span / spacing) if spacing > 0 else 0
        if least <= rows <= LONGEST_CALENDAR:
            return (rows, 7 * rows) if span == DAY and 7 * rows <= LONGEST_CALENDAR else (rows,)
    return ()


def usual_season(spacing: int) -> int:
    """Return the season that is taken for granted before it was seen; 0 where none is usual."""
    return next((rows for rows in calendar_seasons(spacing)[:1] if rows <= LONGEST_USUAL), 0)


def usual_spacing(times: Seconds) -> int:
    """Return the commonest distance of sorted times in seconds, the smallest of equals; 0 for fewer than two."""
    gaps = np.diff(np.unique(times))
    if not len(gaps):
        return 0
    found, counts = np.unique(gaps, return_counts=True)
    return int(found[np.argmax(counts)])


def count_steps(start: int, times: Seconds, spacing: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return how many steps after `start` each time is, and whether it is on the grid at all."""
    if spacing >= MONTH:
        months = times.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
        begin = int(np.array(start).astype("datetime64[s]").astype("datetime64[M]").astype(np.int64))
        every = max(1, round(spacing / (YEAR / 12.0)))
        return (months - begin) // every, (months - begin) % every == 0
    return (times - start) // spacing, (times - start) % spacing == 0


def later_times(last: int, steps: NDArray[np.int64], spacing: int) -> Seconds:
    """Return the times so many steps after `last`; months keep the day of the month where it exists."""
    if spacing < MONTH:
        return np.asarray(last + steps * spacing)
    every = max(1, round(spacing / (YEAR / 12.0)))
    now = np.array(last).astype("datetime64[s]")
    month = now.astype("datetime64[M]")
    ahead = month + steps * every
    length = (ahead + 1).astype("datetime64[D]") - ahead.astype("datetime64[D]")
    into = now - month.astype("datetime64[s]")
    own_length = (month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")
    at_end = into >= (own_length - np.timedelta64(1, "D")).astype("timedelta64[s]")
    most = (length - np.timedelta64(1, "D")).astype("timedelta64[s]")
    shift = most if at_end else np.minimum(into.astype("timedelta64[s]"), most)
    return np.asarray((ahead.astype("datetime64[s]") + shift).astype(np.int64))

"""Features of the calendar: where in the day, the week and the year a row is, as sines and cosines."""

from __future__ import annotations

import math

import numpy as np

from undrift._typing import Matrix
from undrift.run.read.rows import Times

HOURS_A_DAY, DAYS_A_WEEK, DAYS_A_YEAR = 24.0, 7.0, 365.2425


def calendar_names(*, hours: bool) -> list[str]:
    """Return the names of the features; without hours, those of the day are left out."""
    cycles = (*(["hour", "half day"] if hours else []), "weekday", "year")
    return [*(f"{cycle} {wave}" for cycle in cycles for wave in ("sin", "cos")), "weekend"]


def fill_calendar(times: Times, out: Matrix, *, hours: bool) -> None:
    """Write the features of each row into `out`; NaN where its time is missing."""
    days = times.astype("datetime64[D]")
    hour = (times - days) / np.timedelta64(1, "h")
    weekday = (days.astype(np.int64) + 3) % 7  # 1970 began on a Thursday
    year = (days - times.astype("datetime64[Y]").astype("datetime64[D]")) / np.timedelta64(1, "D")
    turns = [hour / HOURS_A_DAY, 2.0 * hour / HOURS_A_DAY] if hours else []
    turns += [(weekday + hour / HOURS_A_DAY) / DAYS_A_WEEK, year / DAYS_A_YEAR]
    for k, turn in enumerate(turns):
        out[:, 2 * k], out[:, 2 * k + 1] = np.sin(2.0 * math.pi * turn), np.cos(2.0 * math.pi * turn)
    out[:, -1] = weekday >= 5
    out[np.isnat(times)] = math.nan

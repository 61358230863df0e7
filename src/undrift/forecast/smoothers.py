"""Smoothers of level, trend and season: banks of them, in the units of a series and in logarithms.

A smoother takes over a part of every error into its level, its trend and the value at this place of its seasons. A bank
holds many of them, which differ in these parts and in the seasons they have (`season_sets`), and weighs them by their
losses at the steps themselves: those that are good one row ahead are often not the ones that are good a day ahead. One
bank follows the series, and a second one its logarithms, as long as all values are positive.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.forecast.calendar import LONGEST_CALENDAR
from undrift.kernels.definitions import INPUT_LIMIT

LEVELS = (0.02, 0.1, 0.3, 0.7)
"""Parts of an error that levels take over; with a season longer than 25 rows the least is less, half a season's one."""
SEASONS = (0.0, 0.1, 0.3)
TRENDS = ((0.0, 0.0), (0.95, 0.1), (1.0, 0.01))
"""What is left of a trend after a row, and the part of the level's correction that it takes over."""
DAYS = (24, 48, 96, 144)
"""Rows of a season that look like a day; the week may be a season then, even if it was not found."""
OUTPUTS = 2
"""Forecasts of a bank: by weights of the step and its neighbours, and by weights of all steps together."""
NAMES = ("smoothers", "smoothers, all steps", "smoothers of logarithms", "smoothers of logarithms, all steps")
UNSEEN, POSITIVE, REFUSED = range(3)
"""Before any value; while all are positive; after one that was not."""

Cube = NDArray[np.float64]


def season_sets(found: tuple[int, ...], calendar: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the seasons that smoothers may have, none, one or two at a time: those found, and the calendar's.

    Longer ones than the calendar's longest are left to the other candidates: every smoother holds a whole season.

    >>> season_sets((24,), ())
    [(), (24,), (24, 168)]
    >>> season_sets((), (7,))
    [(), (7,)]
    """
    found = tuple(season for season in found if season <= LONGEST_CALENDAR)
    week = (found[0], 7 * found[0]) if len(found) == 1 and found[0] in DAYS else ()
    each = [(), found[:1], found[:2], calendar[:2], calendar[:1], calendar[1:2], found[1:2], week]
    return list(dict.fromkeys(each))


class SmootherBanks:
    """Two banks for each of several series.

    Parameters
    ----------
    series
        How many series.
    sets
        The seasons of the smoothers.
    horizon
        Steps ahead.
    """

    def __init__(self, series: int, sets: list[tuple[int, ...]], horizon: int) -> None:
        gains, periods = [], []
        for one in sets:
            slow = min(LEVELS[0], 0.5 / max(one)) if one and max(one) > 25 else LEVELS[0]
            for level, season, trend in product((slow, *LEVELS[1:]), SEASONS if one else (0.0,), TRENDS):
                gains.append((level, season, *trend))
                periods.append((*one, 0, 0)[:2])
        self.gains, self.periods = np.array(gains), np.array(periods, np.int64)
        self.reach: Matrix = np.cumsum(self.gains[:, 2:3] ** np.arange(1.0, horizon + 1.0), axis=1)
        size = kernels.smoothers_size(self.periods, horizon)
        self.state = np.zeros((series, 2, size))
        self.logs = np.zeros((series, 3))
        """What is known of logarithms: UNSEEN, POSITIVE or REFUSED, the least one and the largest."""
        self.outputs = np.zeros((series, 2 * OUTPUTS, horizon))
        """The forecasts after the newest row."""

    def play(self, first: int, values: Matrix) -> Cube:
        """Take in rows (rows, series), NaN where missing, and return the forecasts after each (rows, series, 4, steps).

        `first` is the number of the first of these rows.
        """
        out = np.empty((len(values), *self.outputs.shape))
        one = np.empty((len(values), OUTPUTS, self.reach.shape[1]))
        for s, y in enumerate(np.ascontiguousarray(values.T)):
            self._play_bank(self.state[s, 0], first, y, one)
            out[:, s, :OUTPUTS] = out[:, s, OUTPUTS:] = one
            self._play_logs(s, first, y, out[:, s, OUTPUTS:])
        self.outputs[...] = out[-1]
        return out

    def _play_bank(self, state: NDArray[np.float64], first: int, y: Vector, out: Cube) -> None:
        status = kernels.smoothers_play(state, self.gains, self.periods, self.reach, first, y, out)
        _check.raise_on_status("Forecaster", status, 1)

    def _play_logs(self, s: int, first: int, y: Vector, out: Cube) -> None:
        """Fill the forecasts of the bank of logarithms, as far as values have one.

        They stay within the range so far and once more of it on each side, and below the largest value there may be.
        """
        if self.logs[s, 0] == REFUSED:
            return
        refused = np.flatnonzero(y <= 0.0)
        y = y[: refused[0]] if len(refused) else y
        if len(y):
            x, one = np.log(y), np.empty((len(y), *out.shape[1:]))
            self._play_bank(self.state[s, 1], first, x, one)
            before = self.logs[s, 1:] if self.logs[s, 0] == POSITIVE else (np.inf, -np.inf)
            low = np.fmin.accumulate(np.concatenate((before[:1], x)))[1:]
            high = np.fmax.accumulate(np.concatenate((before[1:], x)))[1:]
            known = np.isfinite(low)
            low, high = low[known, None, None], high[known, None, None]
            room = high - low + 1.0
            out[: len(y)][known] = np.exp(np.clip(one[known], low - room, np.minimum(high + room, np.log(INPUT_LIMIT))))
            if len(low):
                self.logs[s] = POSITIVE, low[-1, 0, 0], high[-1, 0, 0]
        if len(refused):
            self.logs[s] = REFUSED, 0.0, 0.0

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays by name, the very objects."""
        return {"smoothers": self.state, "logs": self.logs, "smoothed": self.outputs}

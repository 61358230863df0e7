"""How good the forecasts of one series were, step by step, judged as the values come: a state that can be saved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.forecast import Forecast

PARTS = ("squares", "sizes", "counts", "inside", "pinball", "buffer", "rows")
YHAT, LAST, SEASON, LOWER, UPPER = range(5)


class StepScores:
    """Sums of errors of the forecasts served and of both naive ones, over the same values.

    "Same as last season" is by the season known when the forecast was made.

    Parameters
    ----------
    horizon
        Steps.
    level
        Of the intervals.
    """

    def __init__(self, horizon: int, level: float) -> None:
        self.horizon, self.level = horizon, level
        self.squares, self.sizes = np.zeros((3, horizon)), np.zeros((3, horizon))
        self.counts, self.inside, self.pinball = np.zeros((3, horizon))
        self.buffer = np.full((horizon, 5, horizon), np.nan)
        """What was said at the last origins, at the place `origin % horizon`."""
        self.rows = np.zeros(1)

    def observe(self, value: float, said: Forecast | None, naive: Matrix | None) -> None:
        """Judge what was said of a value, NaN where it is missing, and remember what is said after it."""
        t, h = int(self.rows[0]), np.arange(1, self.horizon + 1)
        there = self.buffer[(t - h) % self.horizon, :, h - 1].T
        judged = ~np.isnan(there[YHAT]) & ~np.isnan(value)
        if judged.any():
            off = np.where(judged, there[:LOWER] - value, 0.0)
            self.squares += off * off
            self.sizes += np.abs(off)
            self.counts += judged
            self.inside += judged & (there[LOWER] <= value) & (value <= there[UPPER])
            self.pinball += np.where(judged & np.isfinite(there[UPPER]), self._lose(value, there), 0.0)
        place = t % self.horizon
        self.buffer[place] = np.nan
        if said is not None and naive is not None:
            self.buffer[place] = np.stack([said.yhat, *naive, said.lower, said.upper])
        self.rows[0] += 1.0

    def _lose(self, value: float, there: Matrix) -> Vector:
        """Return the pinball loss of both ends, their mean."""
        low, high = (1.0 - self.level) / 2.0, (1.0 + self.level) / 2.0
        below, above = value - there[LOWER], value - there[UPPER]
        with np.errstate(invalid="ignore"):
            both = np.maximum(low * below, (low - 1.0) * below) + np.maximum(high * above, (high - 1.0) * above)
        return np.asarray(both / 2.0)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays by name, the very objects."""
        return {name: getattr(self, name) for name in PARTS}

    def load(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        """Take over saved arrays."""
        for name, own in self.arrays().items():
            own[...] = arrays[name]

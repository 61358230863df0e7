"""OnlineRegressor: predict numbers on a drifting stream, with nothing to tune."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from undrift import _thread_lock
from undrift._typing import Matrix, Vector
from undrift.ensemble.squared import SelfConfident
from undrift.learners.base import Arrays
from undrift.online.base import WAVES, OnlineLearner
from undrift.online.design import REFITS
from undrift.online.intervals import Coverage, Interval, Intervals
from undrift.online.regression import RegressionCore
from undrift.online.rows import Rows
from undrift.streams import Despiker
from undrift.trace import Trace


class OnlineRegressor(OnlineLearner):
    r"""Regression on a drifting stream without parameters: scaling, holes, memory length and bends are learned.

    Eight memories of linear regression, each answered with two hints, are mixed into a family, and (unless
    `speed="fast"`) two memories over 48 random waves into another; a second level of discounted VAW follows the best
    drifting combination of the families, the last label and the last error; the last, self-confident mixer chooses
    among level 2, the families and the naive baselines.

    Parameters
    ----------
    speed
        "best", or "fast": without the waves, about 4 times faster.
    indicators
        Add for every feature another one that is 1 where its value was missing.
    seed
        Of the random waves.
    half_life
        One memory length in rounds for every stage, in place of learned ones.

    Notes
    -----
    Losses exceed those of every candidate, "same as last time" and the running mean among them, by at most `cost()`,
    a number known for every run. Labels scaled by s scale predictions by s. A label far beyond all jumps so far is
    predicted and scored as it is, but learned from, by the last mixer too, only up to 8 mean jumps, unless it lasts.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(600, 3))
    >>> y = Z @ [1.0, -2.0, 0.0] + np.where(np.arange(600) < 300, 0.0, 5.0)          # the level shifts
    >>> model = OnlineRegressor(speed="fast")
    >>> trace = model.play(Z, y)
    >>> bool(np.abs(trace.yhat - y)[350:].mean() < 0.2)
    True
    >>> interval = model.predict_interval(Z[0], level=0.9)
    >>> bool(interval.low < model.predict(Z[0]) < interval.high)
    True
    """

    baselines = ("last value", "running mean")
    _level: float | None = None
    _widths: list[Vector] | None = None

    @_thread_lock.hold_shared
    def predict_interval(self, z: Rows, level: float = 0.9) -> Interval:
        """Return an interval for the label of each row; in the long run the share `level` of labels lies inside."""
        yhat, half = self.predict(z), self.half_width(level)
        return Interval(yhat - half, yhat + half)

    @_thread_lock.hold_shared
    def half_width(self, level: float = 0.9) -> float:
        """Return how far the interval for the coming round reaches to either side, whatever its row."""
        return (self._intervals if self.dim is not None else Intervals()).half_width(self, level)

    @_thread_lock.hold_exclusive
    def play(self, Z: Rows, y: ArrayLike, *, delay: int = 0, interval: float | None = None) -> Trace:
        """Close a block of rounds, as every learner does.

        With `interval`, a level such as 0.9, the trace keeps for every row the interval `predict_interval` would have
        given before its label was seen.
        """
        if interval is None or self._waits(delay):
            return super().play(Z, y, delay=delay)
        Intervals().half_width(self, interval)  # refuses a level before anything is learned
        widths: list[Vector] = []
        self._level, self._widths = interval, widths
        try:
            trace = super().play(Z, y)
        finally:
            self._level = self._widths = None
        half = np.concatenate(widths) if widths else np.empty(0)
        return replace(trace, lower=trace.yhat - half, upper=trace.yhat + half)

    @_thread_lock.hold_shared
    def coverage(self) -> list[Coverage]:
        """Return how often labels lay inside the intervals predicted for them, level by level."""
        return (self._intervals if self.dim is not None else Intervals()).coverage()

    def _core(self, dim: int) -> RegressionCore:
        return RegressionCore(dim, WAVES[self.speed], self.seed, self._betas)

    def _last_mixer(self) -> SelfConfident:
        return SelfConfident()

    def _begin(self, dim: int) -> None:
        super()._begin(dim)
        self._despiker, self._intervals = Despiker(), Intervals()

    def _baseline_start(self) -> Vector:
        return np.zeros(3)  # last label, sum, count

    def _baseline_peek(self, rows: int) -> Matrix:
        last, total, count = self._baseline
        return np.tile([last, total / max(count, 1.0)], (rows, 1))

    def _baseline_play(self, y: Vector) -> Matrix:
        _, total, count = self._baseline
        sums = np.add.accumulate(np.concatenate(([total], y)))
        said = np.empty((len(y), 2))
        said[0, 0], said[1:, 0] = self._baseline[0], y[:-1]
        np.divide(sums[:-1], np.maximum(count + np.arange(len(y)), 1.0), out=said[:, 1])
        self._baseline[...] = y[-1], sums[-1], count + len(y)
        return said

    def _softened(self, y: Vector, first: int) -> Vector:
        return self._despiker.apply(y, first) if first >= REFITS[0] else y

    def _refitted(self, y: Vector) -> Vector:
        return self._despiker.fit(y)

    def _learned(self, y: Vector) -> Vector:
        fitted = max((count for count in REFITS if count <= len(y)), default=0)
        if not fitted:
            return y
        despiker = Despiker()
        return np.concatenate((despiker.fit(y[:fitted]), despiker.apply(y[fitted:], fitted)))

    def _closed(self, yhat: Vector, y: Vector) -> None:
        residual = np.abs(y - yhat)
        if self._level is None or self._widths is None:
            self._intervals.play(residual)
        else:
            self._widths.append(self._intervals.followed(self, residual, self._level))

    def _skip(self, Z: Matrix, rounds: int) -> Vector:
        if self._level is not None and self._widths is not None:
            self._widths.append(np.full(len(Z), self._intervals.half_width(self, self._level)))
        return super()._skip(Z, rounds)

    def _arrays(self) -> Arrays:
        return {**super()._arrays(), "despiker": self._despiker.state, "intervals": self._intervals.state}

"""OnlineRegressor: predict numbers on a drifting stream, with nothing to tune."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from undrift import _thread_lock
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import RecordPart
from undrift.learners.base import Prediction
from undrift.learners.served import ServedPrediction
from undrift.online.base import OnlineLearner
from undrift.online.intervals import LEVELS, Coverage, Interval, check_level, half_widths, measured_coverage
from undrift.online.rows import Rows
from undrift.trace import Trace


class OnlineRegressor(OnlineLearner):
    r"""Regression on a drifting stream without parameters: scaling, holes, memory length and bends are learned.

    Families of memories look at a row in several ways: linear in its features; in context, beside the last labels and
    each feature's distance from its running means; and, unless `speed="fast"`, through random waves, hinges and
    products of pairs. Each family mixes its memories; a second level of discounted VAW follows the best drifting
    combination of families, memories, last label and last errors; the last, self-confident mixer chooses among level 2,
    the families and the naive baselines.

    Parameters
    ----------
    speed
        "best"; "max": two boosted forests more, refitted on a schedule, 5 to 10 times slower, not for fleets; "fast":
        linear and in context alone, 3 to 4 times faster; or "light": linear and the last labels alone, by far the
        smallest, for many keys.
    indicators
        Add for every feature another one that is 1 where its value was missing.
    seed
        Of the random waves and of the pairs that are multiplied.
    half_life
        One memory length in rounds for every stage, in place of learned ones.
    candidates
        Columns that hold predictions made elsewhere (a foundation model, yesterday's batch model), in label units:
        names, or column numbers for arrays. They are never features: level 2 and the last mixer hear them, and `cost()`
        covers them. A missing one says nothing in that row, and counts as the mixture's own answer there.

    Notes
    -----
    Losses exceed those of every candidate, "same as last time" and the running mean among them, by at most `cost()`,
    a number known for every run, late labels included. Labels a + s y give predictions a + s yhat; with forests for
    s > 0. Before the first label `predict` gives 0.0 and `Trace.known` is False; such rows are not scored. A label far
    beyond all jumps so far is predicted and scored as it is, but learned from, by the last mixer too, only up to 8 mean
    jumps, unless it lasts.

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

    def predict(self, z: Rows) -> Prediction:
        """Return the prediction for the coming round, a vector for several candidate rows; nothing changes.

        Rows are arrays (d,) or (n, d), mappings of names to numbers, lists of those, or data frames. NaN is missing;
        a name that a mapping lacks is 0, an unknown one is ignored until it is learned. An unknown name in a row that
        lacks a known one which it resembles is refused as a slip.
        """
        return self._score(z)

    @_thread_lock.hold_shared
    def predict_interval(self, z: Rows, level: float = 0.9) -> Interval:
        """Return an interval for the label of each row; in the long run the share `level` of labels lies inside.

        Until two different labels were learned and a prediction was found wrong, there is none: it is infinite.
        """
        at = check_level(self, level)
        Z, single = self._rows_to_predict(z)
        low, high = self._interval_at(self._predictor(Z)._ends(Z), at)
        return Interval(float(low[0]), float(high[0])) if single else Interval(low, high)

    def _ends(self, Z: Matrix) -> Matrix:
        """Return the interval ends of all tracked levels for rows that might come next, infinite without intervals."""
        kernel = self._plan.kernel
        record, ends = np.zeros(kernel.record_size), np.empty((len(Z), 2 * self._plan.levels))
        for t, z in enumerate(self._add_answers(Z)):
            kernel.serve(self._state, z, record, False)
            ends[t] = (
                record[kernel.ends_at :] if record[RecordPart.BOUNDED] else np.tile([-np.inf, np.inf], len(LEVELS))
            )
        return ends

    @_thread_lock.hold_shared
    def half_width(self, level: float = 0.9) -> float:
        """Return how far the interval for the coming round reaches to either side, whatever its row."""
        at = check_level(self, level)
        if self.dim is None:
            return np.inf
        return float(half_widths(self._ends(np.zeros((1, self.dim + len(self._given)))), at)[0])

    def play(self, Z: Rows, y: ArrayLike, *, delay: int = 0, interval: float | None = None) -> Trace:
        """Close a block of rounds, as every learner does.

        With `delay`, a label is learned after that many further rows were served; the last rows wait for the next call.
        With `interval`, a level such as 0.9, the trace keeps the interval that was served with every row.
        """
        level = None if interval is None else check_level(self, interval)
        return self._play_block(Z, y, delay, level)

    @_thread_lock.hold_shared
    def coverage(self) -> list[Coverage]:
        """Return how often labels lay inside the intervals served for them, level by level."""
        if self.dim is None:
            return [Coverage(float(level), 0.0, 0) for level in LEVELS]
        return measured_coverage(self.part("intervals"))

    def _interval_at(self, ends: Matrix, level: float) -> tuple[Vector, Vector]:
        tracked = np.flatnonzero(level == LEVELS)
        if len(tracked):
            k = 2 * int(tracked[0])
            return ends[:, k].copy(), ends[:, k + 1].copy()
        half, bounded = half_widths(ends, level), np.isfinite(ends[:, 0])
        middle = np.where(bounded, (np.where(bounded, ends[:, 0], 0.0) + np.where(bounded, ends[:, 1], 0.0)) / 2.0, 0.0)
        return middle - half, middle + half

    def _make_served(self, serial: int, record: Vector) -> ServedPrediction:
        ends = record[-2 * len(LEVELS) :].reshape(-1, 2)
        pairs = ends.tolist() if record[RecordPart.BOUNDED] else [(-np.inf, np.inf)] * len(LEVELS)
        intervals = dict(zip(LEVELS.tolist(), map(Interval._make, pairs), strict=True))
        known = bool(record[RecordPart.KNOWN])
        return ServedPrediction(
            float(record[RecordPart.YHAT]), known, serial, record.copy(), self._fingerprint, intervals
        )

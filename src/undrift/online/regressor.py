"""OnlineRegressor: predict numbers on a drifting stream, with nothing to tune."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._internal import thread_lock
from undrift._internal.rows import Rows
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.learners.base import Prediction
from undrift.learners.intervals import (
    LEVELS,
    Coverage,
    Interval,
    Limits,
    check_level,
    check_limits,
    check_quantile_levels,
    interval_levels,
    measured_coverage,
    quantiles_at,
)
from undrift.learners.row_context import WEIGHT_AND_TIME, Delay
from undrift.online.core import Core
from undrift.online.estimator import OnlineEstimator
from undrift.online.labels import plain_number
from undrift.trace import Trace


class OnlineRegressor(OnlineEstimator):
    r"""Regression on a drifting stream without parameters: scaling, holes, memory length and bends are learned.

    Families of memories look at a row in several ways: linear in its features; in context, beside the last labels and
    each feature's distance from its running means; and, unless `speed="fast"`, through random waves, hinges and
    products of pairs. Each family mixes its memories; a second level of discounted VAW follows the best drifting
    combination of families, memories, last label and last errors; the last, self-confident mixer chooses among level 2,
    the families and the naive baselines.

    All of this is done by two arms: the raw one learns labels as they are, the robust one, which has the families of
    `speed="fast"`, limits how far a label may jump. A gate weighs them row by row, by how far they disagree (`arms()`).

    Parameters
    ----------
    speed
        "best"; "max": a second boosted forest, and both refitted more often, 3 to 5 times slower, not for fleets;
        "fast": linear and in context alone, 3 to 7 times faster; or "light": linear and the last labels alone, by far
        the smallest, for many keys.
    indicators
        Add for every feature another one that is 1 where its value was missing.
    seed
        Of the random waves and of the pairs that are multiplied.
    half_life
        One memory length in rounds for every stage, in place of learned ones.
    candidates
        Columns that hold predictions made elsewhere (a foundation model, yesterday's batch model), in label units:
        names, or column numbers for arrays. They are never features: level 2 and the last mixer use them, and in the
        end they are combined with the own prediction, their mean and their median, so as to be as good as the best
        convex combination of these. `cost()` covers them. A missing one counts as the prediction itself in that row.
    loss
        By which they are combined in the end: "squared"; "absolute"; or a level in (0, 1) for the pinball loss, where
        candidates are quantiles of that level. With the last two `candidates`, `losses` and `cost()` are those of this
        combination.
    trees
        Whether "best" and "max" grow boosted trees beside all else, whose predictions are one more candidate: over the
        row and the last label, refitted at 256, 384, 576, ... labelled rows, each time on the last 32,768 rows at
        most (2^19 numbers). At "best" they are not grown for rows of more than 40 features, nor at any speed before 256
        labelled rows. False saves up to 5 MB of memory and model file, and half the time. Fleets never grow trees.
    limits
        The least and the largest label there can be, such as (0, None) for counts: intervals and quantiles are cut
        there. The prediction is as it was.

    Notes
    -----
    Losses exceed those of every candidate, "same as last time" and the running mean among them, by at most `cost()`,
    a number known for every run, late labels included. Labels a + s y give predictions a + s yhat; with trees for
    s > 0. Before the first label `predict` gives 0.0 and `Trace.known` is False; such rows are not scored. The robust
    arm learns a label only up to 8 mean jumps from the one before, unless it lasts; trees learn the ten largest and
    smallest labels, and one in 1,000 more, as the next ones.

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

    supports = WEIGHT_AND_TIME | {"quantiles"}

    def __init__(
        self,
        *,
        speed: str = "best",
        indicators: bool = False,
        seed: int = 0,
        half_life: float | None = None,
        candidates: Sequence[str] | Sequence[int] | None = None,
        loss: str | float = "squared",
        trees: bool = True,
        limits: Limits | None = None,
    ) -> None:
        self._limits = check_limits(self, limits)
        level = self._check_loss(loss, candidates)
        super().__init__(
            speed=speed,
            indicators=indicators,
            seed=seed,
            half_life=half_life,
            candidates=candidates,
            trees=trees,
            loss=level,
        )
        if level is not None:
            self.parameters["loss"] = loss
        if limits is not None:
            self.parameters["limits"] = list(self._limits)  # type: ignore[assignment]  # which JSON holds too

    def _check_loss(self, loss: object, candidates: object) -> float | None:
        """Return the level of the pinball loss, None for squared loss."""
        if isinstance(loss, str) and loss == "squared":
            return None
        if candidates is None:
            raise InputError(f"{_check.name_of(self)}: loss says how candidates are combined; name candidates too")
        if isinstance(loss, str) and loss == "absolute":
            return 0.5
        level = float(loss) if isinstance(loss, (int, float)) and not isinstance(loss, bool) else math.nan
        if not 0.0 < level < 1.0:
            raise InputError(
                f'{_check.name_of(self)}: loss must be "squared", "absolute" or a level in (0, 1), got '
                f"{_check.describe(loss)}"
            )
        return level

    def predict(self, z: Rows, *, elapsed: float | None = None) -> Prediction:
        """Return the prediction for the coming round, a vector for several candidate rows; nothing changes.

        Rows are arrays (d,) or (n, d), mappings of names to numbers, lists of those, or data frames. NaN is missing;
        a name that a mapping lacks is 0, an unknown one is ignored until it is learned. An unknown name in a row that
        lacks a known one which it resembles is refused as a slip. `elapsed` is the time since the row before, 1 by
        default.
        """
        return self._score(z, elapsed)

    @thread_lock.hold_shared
    def predict_interval(self, z: Rows, level: float = 0.9, *, elapsed: float | None = None) -> Interval:
        """Return an interval for the label of each row; in the long run the share `level` of labels lies inside.

        Until two different labels were learned and a prediction was found wrong, there is none: it is infinite.
        `elapsed` is the time since the row before, 1 by default.
        """
        return self.predict_all(z, level, elapsed=elapsed)[1]

    @thread_lock.hold_shared
    def predict_quantiles(
        self, z: Rows, levels: Sequence[float] = (0.1, 0.5, 0.9), *, elapsed: float | None = None
    ) -> Matrix | Vector:
        """Return quantiles of the label of each row, (levels,) for one row, (n, levels) for several.

        In the long run the share `level` of labels lies below its quantile. Levels reach from 0.005 to 0.995. Without
        an interval (see `predict_interval`) quantiles are infinite, and the median is the prediction.
        """
        return self.predict_all(z, levels=levels, elapsed=elapsed)[2]

    @thread_lock.hold_shared
    def predict_all(
        self, z: Rows, level: float = 0.9, levels: Sequence[float] = (), *, elapsed: float | None = None
    ) -> tuple[Prediction, Interval, Matrix | Vector]:
        """Return what `predict`, `predict_interval` and `predict_quantiles` would, in the time of one of them."""
        inner, others = interval_levels(check_level(self, level)), check_quantile_levels(self, levels)
        Z, _, single = self._columns.read(z, self.dim, learned=False)
        core = self._predictor(Z)._core
        assert isinstance(core, Core)
        yhat, tracked = core.predict_quantiles(Z, self._time(elapsed))
        ends, quantiles = (quantiles_at(tracked, wanted, self._limits) for wanted in (inner, others))
        if single:
            return float(yhat[0]), Interval(*ends[0].tolist()), quantiles[0]
        return yhat, Interval(*ends.T), quantiles

    def play(
        self,
        Z: Rows,
        y: ArrayLike,
        *,
        delay: Delay = 0,
        interval: float | None = None,
        quantiles: Sequence[float] | None = None,
        weight: ArrayLike | None = None,
        elapsed: ArrayLike | None = None,
    ) -> Trace:
        """Close a block of rounds, as every learner does.

        With `delay`, a label is learned after that many further rows were served; the last rows wait for the next call.
        It is one number, or one for each row: `23 - hour` where the labels of a day become known together, at its end.
        With `interval`, a level such as 0.9, the trace keeps the interval that was served with every row, and with
        `quantiles`, levels such as (0.1, 0.5, 0.9), those. A row counts `weight` times in the memories, and once in
        mixers and intervals; it comes the time `elapsed` after the one before.
        """
        ends = np.empty(0) if interval is None else interval_levels(check_level(self, interval))
        others = np.empty(0) if quantiles is None else check_quantile_levels(self, quantiles)
        levels = None if interval is None and quantiles is None else np.concatenate([ends, others])
        trace = self._play_block(Z, y, delay=delay, weight=weight, elapsed=elapsed, levels=levels)
        if trace.quantiles is None:
            return trace
        both, rest = np.split(trace.quantiles, [len(ends)], axis=1)
        lower, upper = both.T if interval is not None else (None, None)
        return replace(trace, lower=lower, upper=upper, quantiles=None if quantiles is None else rest)

    @thread_lock.hold_shared
    def coverage(self) -> list[Coverage]:
        """Return how often labels lay inside the intervals served for them, level by level."""
        if self.dim is None:
            return [Coverage(float(level), 0.0, 0) for level in LEVELS]
        return measured_coverage(self.part("intervals"))

    def _plain_label(self, y: object) -> float | None:
        if type(y) is float:
            return y
        number = plain_number(y)
        return None if number is None else float(number)

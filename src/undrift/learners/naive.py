"""The learners that ignore the features: nothing at all, how often a label came, the same as last time."""

from __future__ import annotations

import numpy as np

from undrift import _check
from undrift._internal.discount import Discount, make_discount
from undrift._typing import Arrays, Matrix, Vector
from undrift.baselines import base_rate_log_odds, no_change_log_odds
from undrift.learners.base import Columns, Learner
from undrift.learners.row_context import WEIGHT_AND_TIME, RowContext
from undrift.losses import logistic, squared


class Zero(Learner):
    """Predict 0 (for two classes: even odds), always.

    Parameters
    ----------
    binary
        Whether labels are two classes.

    Notes
    -----
    Guarantee: its regret against anything is at most its own loss, which is the `stability` column; `potential` is 0.

    Examples
    --------
    >>> Zero().predict([1.0, 2.0])
    0.0
    """

    least_dim = 0
    supports = WEIGHT_AND_TIME

    def __init__(self, *, binary: bool = False) -> None:
        self.binary = _check.flag(self, "binary", binary)
        super().__init__(binary=self.binary)

    @property
    def discount(self) -> Discount:
        """No memory: beta = 0."""
        return Discount(0.0, 1.0)

    @property
    def beta(self) -> float:
        """Discount factor."""
        return 0.0

    @property
    def half_life(self) -> float:
        """Rounds after which a row counts half."""
        return 0.0

    def _begin(self, dim: int) -> None:
        """Nothing is kept."""

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        return np.zeros(len(Z))

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        yhat = np.zeros(len(y))
        lost = (logistic if self.binary else squared).value(yhat, y)
        return Columns(yhat, context.weights(len(y)) * lost, np.zeros(len(y)))

    def _arrays(self) -> Arrays:
        return {}


class BaseRate(Learner):
    r"""Predict the log-odds of the label +1 from smoothed, discounted counts.

    Parameters
    ----------
    beta, half_life
        Discount of the counts, by default none (`beta` = 1).
    reg
        Smoothing $\lambda > 0$, in labels of each class.

    Notes
    -----
    No guarantee of its own. O(1) time and memory per round. Features are ignored.

    Examples
    --------
    >>> model = BaseRate()
    >>> trace = model.play([[]] * 4, [True, True, True, False])
    >>> round(model.predict([]), 3)          # ln(4 / 2)
    0.693
    """

    least_dim = 0
    binary = True
    supports = WEIGHT_AND_TIME

    def __init__(self, *, beta: float | None = None, half_life: float | None = None, reg: float = 1.0) -> None:
        if beta is None and half_life is None:
            beta = 1.0
        self._discount = make_discount(self, beta, half_life)
        self.reg = _check.interval(self, "reg", reg, "[1e-140, 1e140]")
        super().__init__(beta=beta, half_life=half_life, reg=reg)
        self._counts = np.zeros(2)  # labels -1, labels +1

    def _begin(self, dim: int) -> None:
        """Nothing depends on the features."""

    def _prediction(self) -> float:
        return float(base_rate_log_odds(self._counts[0], self._counts[1], self.reg))

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        return np.full(len(Z), self._prediction())

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        yhat, beta, weight = np.empty_like(y), context.discounts(self._discount, len(y)), context.weights(len(y))
        for t, label in enumerate(y):
            yhat[t] = self._prediction()
            self._counts *= beta[t]
            self._counts[int(label > 0.0)] += weight[t]
        return Columns(yhat)

    def _arrays(self) -> Arrays:
        return {"counts": self._counts}


class Persistence(Learner):
    r"""Predict the last label; for two classes, the odds of "same as last time" so far.

    Parameters
    ----------
    binary
        Two classes: predictions are log-odds, $\pm\ln\frac{S + \lambda}{C + \lambda}$ with $S$ and $C$ the discounted
        counts of labels that stayed and that changed, signed by the last label.
    beta, half_life
        Discount of the counts, by default none (`beta` = 1); not used for regression.
    reg
        Smoothing $\lambda > 0$, in labels: at most this sure after nothing.

    Notes
    -----
    No guarantee of its own. O(1) time and memory per round. Features are ignored.

    Examples
    --------
    >>> model = Persistence()
    >>> model.learn([], 4.0)
    >>> model.predict([])
    4.0
    >>> weather = Persistence(binary=True)
    >>> trace = weather.play([[]] * 5, [1, 1, 1, 0, 0])
    >>> round(weather.predict([]), 3)          # last 0; three stayed, one changed
    -0.693
    """

    least_dim = 0
    supports = WEIGHT_AND_TIME

    def __init__(
        self,
        *,
        binary: bool = False,
        beta: float | None = None,
        half_life: float | None = None,
        reg: float = 1.0,
    ) -> None:
        if beta is None and half_life is None:
            beta = 1.0
        self._discount = make_discount(self, beta, half_life)
        self.reg = _check.interval(self, "reg", reg, "[1e-140, 1e140]")
        self.binary = _check.flag(self, "binary", binary)
        super().__init__(binary=self.binary, beta=beta, half_life=half_life, reg=reg)
        self._state = np.zeros(3)  # last label (0: none yet), stayed, changed

    def _begin(self, dim: int) -> None:
        """Nothing depends on the features."""

    def _prediction(self) -> float:
        last, stayed, changed = self._state[:, None]
        return float((no_change_log_odds(last, stayed, changed, self.reg) if self.binary else last)[0])

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        return np.full(len(Z), self._prediction())

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        if not self.binary:
            yhat = np.concatenate((self._state[:1], y[:-1]))
            self._state[0] = y[-1]
            return Columns(yhat)
        yhat, beta, weight = np.empty_like(y), context.discounts(self._discount, len(y)), context.weights(len(y))
        for t, label in enumerate(y):
            yhat[t] = self._prediction()
            if self._state[0]:
                self._state[1:] *= beta[t]
                self._state[1 if label == self._state[0] else 2] += weight[t]
            self._state[0] = label
        return Columns(yhat)

    def _arrays(self) -> Arrays:
        return {"state": self._state}

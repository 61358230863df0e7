"""Base rate: how often the label was +1, whatever the features say."""

from __future__ import annotations

import numpy as np

from undrift import _check
from undrift._internal.discount import make_discount
from undrift._typing import Arrays, Matrix, Vector
from undrift.baselines import base_rate_log_odds
from undrift.learners.base import Columns, Learner
from undrift.learners.row_context import WEIGHT_AND_TIME, RowContext


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

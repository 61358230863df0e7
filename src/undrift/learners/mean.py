"""Discounted running mean: the baseline every forecaster must beat."""

from __future__ import annotations

import numpy as np

from undrift import kernels
from undrift._typing import Arrays, Matrix, Vector
from undrift.errors import ConditionError
from undrift.learners.base import Columns, DiscountedLearner
from undrift.learners.row_context import ORDINARY, RowContext
from undrift.template import Template


class DiscountedMean(DiscountedLearner):
    r"""Predict the mean of past labels, a label of age $k$ counting $\beta^k$.

    Parameters
    ----------
    beta
        Discount factor in (0, 1], 0.99 if neither it nor `half_life` is given; 1 never forgets.
    half_life
        In place of `beta`: rounds after which a label counts half.
    reg
        Pull towards zero, $\lambda > 0$, in labels: 1 acts like one extra label of 0.

    Notes
    -----
    Guarantee `vaw`, with one constant feature. O(1) time and memory per round. Features are ignored.

    Examples
    --------
    >>> model = DiscountedMean(beta=0.5)
    >>> for y in [4.0, 4.0, 8.0]:
    ...     model.learn([], y)
    >>> round(model.predict([]), 2)
    2.84
    """

    least_dim = 0

    def __init__(self, *, beta: float | None = None, half_life: float | None = None, reg: float = 1.0) -> None:
        super().__init__(beta=beta, half_life=half_life, reg=reg)
        self._state = np.array([self.reg, 0.0])

    def template(self, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> Template:
        """Return the promise that covers a run over these labels; the rows must be one constant feature."""
        if Z.shape[1] != 1 or (Z != 1.0).any():
            raise ConditionError("certify: DiscountedMean is certified on one constant feature; pass Z = ones (T, 1)")
        return super().template(Z, y, context)

    def _begin(self, dim: int) -> None:
        """Nothing depends on the features."""

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        A, b = self._state
        return np.full(len(Z), self.beta * b / (self.beta * A + 1.0))

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        yhat, stability = np.empty_like(y), np.empty_like(y)
        kernels.mean_play(self._state, y, self.beta, yhat, stability)
        # The kernel has the paper's price, y^2 / (2 A_t); the exact one is less by yhat^2 / (2 beta A_{t-1}).
        t = np.arange(self.rounds, self.rounds + len(y), dtype=np.float64)
        forgets = self._discount.one_minus_beta > 0.0
        seen = -np.expm1(-self._discount.rate * t) / self._discount.one_minus_beta if forgets else t
        stability -= 0.5 * yhat * yhat / (self.beta * (self.reg * self._discount.power(t) + seen))
        return Columns(yhat, stability, self._discount.potential(self.reg, self.rounds, len(y)))

    def _arrays(self) -> Arrays:
        return {"mean": self._state}

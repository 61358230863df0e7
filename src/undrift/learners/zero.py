"""Zero: the learner with no memory at all, the discount-0 end of the grid."""

from __future__ import annotations

import numpy as np

from undrift import _check
from undrift._internal.discount import Discount
from undrift._typing import Arrays, Matrix, Vector
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

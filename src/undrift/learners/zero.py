"""Zero: the learner with no memory at all, the discount-0 end of the grid."""

from __future__ import annotations

import numpy as np

from undrift import _check
from undrift._internal.discount import Discount
from undrift._typing import Arrays, Matrix, Vector
from undrift.learners.base import Columns, Learner
from undrift.learners.row_weights import RowWeights
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

    def _predict(self, Z: Matrix) -> Vector:
        return np.zeros(len(Z))

    def _play(self, Z: Matrix, y: Vector) -> Columns:
        yhat = np.zeros(len(y))
        return Columns(yhat, (logistic if self.binary else squared).value(yhat, y), np.zeros(len(y)))

    def _predict_after(self, Z: Matrix, elapsed: float) -> Vector:
        return self._predict(Z)

    def _play_weighted(self, Z: Matrix, y: Vector, rows: RowWeights) -> Columns:
        columns = self._play(Z, y)
        return Columns(columns.yhat, rows.weight * np.asarray(columns.stability), columns.potential)

    def _arrays(self) -> Arrays:
        return {}

"""A member of any kind, advanced by its own methods."""

from __future__ import annotations

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.ensemble.stack import MemberPredictions, Stack
from undrift.learners import Learner, Zero
from undrift.learners.base import Arrays
from undrift.learners.row_weights import RowWeights


class SingleMember(Stack):
    """A member that is advanced by its own methods."""

    def __init__(self, learner: Learner, dim: int) -> None:
        self.learner = learner
        self.predicts_zero = type(learner) is Zero
        learner._begin(dim)
        learner.dim = dim

    def predict(self, Z: Matrix, first: int, elapsed: float = 1.0) -> Matrix:
        """Return predictions (rows, 1)."""
        return self.learner._predict_at(Z, elapsed)[:, None]

    def play(self, Z: Matrix, y: Vector, first: int, rows: RowWeights | None = None) -> MemberPredictions:
        """Close rounds."""
        columns = self.learner._play_rows_with(Z, y, rows)
        self.learner.rounds += len(y)
        self.learner._grow_older(rows)
        stability = np.zeros(len(y)) if columns.stability is None else columns.stability
        return MemberPredictions(columns.yhat[:, None], stability[:, None])

    def arrays(self) -> Arrays:
        """Return the member's arrays."""
        return self.learner._arrays()

    def load_arrays(self, arrays: Arrays, first: int, extra_age: float = 0.0) -> None:
        """Take over saved arrays."""
        self.learner._load_arrays(arrays)
        self.learner.rounds, self.learner._extra_age = first, extra_age

    def members(self, first: int) -> list[Learner]:
        """Return the member, as a copy of its own."""
        one = self.learner.copy()
        one.rounds = first
        return [one]

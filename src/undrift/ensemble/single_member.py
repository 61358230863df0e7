"""A member of any kind, advanced by its own methods."""

from __future__ import annotations

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.ensemble.stack import MemberPredictions, Stack
from undrift.learners import Learner, Zero
from undrift.learners.base import Arrays


class SingleMember(Stack):
    """A member that is advanced by its own methods."""

    def __init__(self, learner: Learner, dim: int) -> None:
        self.learner = learner
        self.predicts_zero = type(learner) is Zero
        learner._begin(dim)
        learner.dim = dim

    def predict(self, Z: Matrix, first: int) -> Matrix:
        """Return predictions (rows, 1)."""
        return self.learner._predict(Z)[:, None]

    def play(self, Z: Matrix, y: Vector, first: int) -> MemberPredictions:
        """Close rounds."""
        columns = self.learner._play(Z, y)
        self.learner.rounds += len(y)
        stability = np.zeros(len(y)) if columns.stability is None else columns.stability
        return MemberPredictions(columns.yhat[:, None], stability[:, None])

    def arrays(self) -> Arrays:
        """Return the member's arrays."""
        return self.learner._arrays()

    def load_arrays(self, arrays: Arrays, first: int) -> None:
        """Take over saved arrays."""
        self.learner._load_arrays(arrays)
        self.learner.rounds = first

    def members(self, first: int) -> list[Learner]:
        """Return the member, as a copy of its own."""
        one = self.learner.copy()
        one.rounds = first
        return [one]

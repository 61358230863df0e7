"""What every stack is: members of one kind, advanced together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.kernels.arguments import MixerArguments
from undrift.learners import Learner
from undrift.learners.base import Arrays
from undrift.learners.row_weights import RowWeights

Indices = NDArray[np.int64]


class MemberPredictions(NamedTuple):
    """Predictions of members in a block of rounds."""

    yhat: Matrix
    """Predictions (rounds, members)."""
    stability: Matrix
    """Stability of the rounds (rounds, members)."""


class Stack(ABC):
    """Members of one kind with their common state."""

    predicts_zero = False

    @abstractmethod
    def predict(self, Z: Matrix, first: int, elapsed: float = 1.0) -> Matrix:
        """Return predictions (rows, members) of rows that might come after `first` rounds and this time."""

    @abstractmethod
    def play(self, Z: Matrix, y: Vector, first: int, rows: RowWeights | None = None) -> MemberPredictions:
        """Close rounds after `first` earlier ones, with the weights of rows and the times between them, if any."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Return the state by name."""

    @abstractmethod
    def members(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, with the states they have now."""

    def load_arrays(self, arrays: Arrays, first: int, extra_age: float = 0.0) -> None:
        """Take over the arrays saved after `first` rounds, which took that much longer than one unit of time each."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]

    def play_late(self, Z: Matrix, y: Vector, first: int, rows: RowWeights | None = None) -> MemberPredictions:
        """Close rounds whose labels came after those of later rows: "last" hints go on repeating the newest label."""
        last = self.arrays().get("last")
        if last is None:
            return self.play(Z, y, first, rows)
        newest = last.copy()
        played = self.play(Z, y, first, rows)
        last[...] = newest
        return played

    def kernel(
        self, members: Indices, stability: Vector, mixer: MixerArguments, lock: kernels.Lock
    ) -> kernels.EnsembleKernel | None:
        """Return whole rounds, mixture included, in one call, or None where this kind has none.

        `members` are the indices of this stack's members in the ensemble.
        """
        return None

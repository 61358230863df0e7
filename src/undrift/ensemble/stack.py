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
    def predict(self, Z: Matrix, first: int) -> Matrix:
        """Return predictions (rows, members) of rows that might come after `first` rounds."""

    @abstractmethod
    def play(self, Z: Matrix, y: Vector, first: int) -> MemberPredictions:
        """Close rounds after `first` earlier ones."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Return the state by name."""

    @abstractmethod
    def members(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, with the states they have now."""

    def load_arrays(self, arrays: Arrays, first: int) -> None:
        """Take over saved arrays."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]

    def play_late(self, Z: Matrix, y: Vector, first: int) -> MemberPredictions:
        """Close rounds whose labels came after those of later rows: "last" hints go on repeating the newest label."""
        last = self.arrays().get("last")
        if last is None:
            return self.play(Z, y, first)
        newest = last.copy()
        played = self.play(Z, y, first)
        last[...] = newest
        return played

    def kernel(
        self, members: Indices, stability: Vector, mixer: MixerArguments, lock: kernels.Lock
    ) -> kernels.EnsembleKernel | None:
        """Return whole rounds, mixture included, in one call, or None where this kind has none.

        `members` are the indices of this stack's members in the ensemble.
        """
        return None

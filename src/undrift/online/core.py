"""What an online estimator expects of its core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from undrift._typing import Matrix, Vector
from undrift.learners import Learner
from undrift.learners.base import Arrays
from undrift.online.memories import Memories


class Members(Protocol):
    """A family: memories over one set of rows, mixed."""

    def members(self) -> list[Learner]:
        """Return every answer the mixture hears as a fresh learner of its own."""


class Core(Protocol):
    """Candidates that say something about every row: level 2 first, then the families."""

    names: list[str]

    @property
    def families(self) -> Mapping[str, Members]:
        """Memories over one set of rows each."""

    def inputs(self, X: Matrix) -> list[Matrix]:
        """Return the rows of each family."""

    def fit_scale(self, y: Vector) -> None:
        """Take the label scale from labels so far."""

    def predict(self, X: Matrix, first: int) -> Matrix:
        """Return what candidates would say."""

    def play(self, X: Matrix, y: Vector, first: int) -> Matrix:
        """Close rounds; return what candidates said."""

    def memories(self) -> list[Memories]:
        """Return the memories of the linear families."""

    def grow(self, count: int, rounds: int) -> None:
        """Add features that were 0 so far."""

    def restart(self) -> None:
        """Forget every round."""

    def arrays(self) -> Arrays:
        """Return the state."""

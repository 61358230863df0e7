"""Members that are `DriftVAW`, advanced together by one kernel call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.stack import MemberPredictions, Stack
from undrift.kernels.definitions import DriftCount
from undrift.learners import DriftVAW, Learner
from undrift.learners.base import Arrays
from undrift.learners.drift import answer, hints, prices
from undrift.learners.row_weights import RowWeights


class DriftStack(Stack):
    """Members that are `DriftVAW`, each with its own price of movement."""

    def __init__(self, learners: Sequence[DriftVAW], dim: int) -> None:
        self.learners, self.dim = list(learners), dim
        self._reg = np.array([one.reg for one in learners])
        self._step = np.array([0.5 / one.tau for one in learners])
        self._factor = np.eye(dim)[None, :, :] / np.sqrt(self._reg)[:, None, None]
        self._leader = np.zeros((len(learners), dim))
        self._counts = np.zeros((len(learners), len(DriftCount)))
        self._last = np.zeros(1)

    def predict(self, Z: Matrix, first: int, elapsed: float = 1.0) -> Matrix:
        """Return predictions (rows, members)."""
        m, h = np.empty((len(Z), len(self._reg))), np.empty((len(Z), len(self._reg)))
        status = kernels.drift_predict(self._factor, self._leader, self._reg, self._step, first, Z, m, h, elapsed)
        _check.raise_on_status(self, status, self.dim)
        return answer(m, h, self._guesses(m, self._last))

    def play(self, Z: Matrix, y: Vector, first: int, rows: RowWeights | None = None) -> MemberPredictions:
        """Close rounds."""
        m, h, event = (np.empty((len(y), len(self._reg))) for _ in range(3))
        weight, elapsed = (None, None) if rows is None else rows
        state = (self._factor, self._leader, self._counts, self._reg, self._step)
        status = kernels.drift_play(*state, first, Z, y, m, h, event, weight, elapsed)
        _check.raise_on_status(self, status, self.dim)
        guess = self._guesses(m, np.concatenate((self._last, y[:-1])))
        yhat = answer(m, h, guess)
        self._last[0] = y[-1]
        return MemberPredictions(yhat, prices(m, h, guess, event, yhat, y, weight))

    def _guesses(self, m: Matrix, last: Vector) -> Matrix:
        columns = [hints(one.hint, m[:, i : i + 1], last) for i, one in enumerate(self.learners)]
        return np.concatenate(columns, axis=1)

    def arrays(self) -> Arrays:
        """Return the state."""
        return {
            "factor": self._factor,
            "leader": self._leader,
            "counts": self._counts,
            "last": self._last,
        }

    def members(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, with the state they have now."""
        return [self._member(one.clone(), i, first) for i, one in enumerate(self.learners)]

    def _member(self, one: DriftVAW, at: int, first: int) -> Learner:
        one._begin(self.dim)
        one.dim, one.rounds = self.dim, first
        for name, array in one._arrays().items():
            mine = self.arrays()[name]
            array[...] = mine if name == "last" else mine[at : at + 1]
        return one

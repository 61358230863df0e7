"""Members that are discounted AIOLI, advanced together by one kernel call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.stack import Indices, MemberPredictions, Stack
from undrift.kernels import layout
from undrift.kernels.arguments import MixerArguments
from undrift.learners import DiscountedAIOLI, Learner
from undrift.learners.base import Arrays
from undrift.learners.row_weights import RowWeights


class AIOLIStack(Stack):
    """Members that are discounted AIOLI, each with its own discount and curvature."""

    def __init__(self, learners: Sequence[DiscountedAIOLI], dim: int) -> None:
        self.learners, self.dim = list(learners), dim
        self._beta = np.array([one.beta for one in learners])
        self._inverse_curvature = np.array([1.0 / one.curvature for one in learners])
        self._state = layout.fresh(dim, np.array([one.reg for one in learners]))

    def kernel(
        self, members: Indices, stability: Vector, mixer: MixerArguments, lock: kernels.Lock
    ) -> kernels.EnsembleKernel:
        """Return whole rounds in one call."""
        leader = np.full(len(stability), -1, dtype=np.int64)
        leader[members] = np.arange(len(members))
        return kernels.EnsembleKernel(
            binary=True,
            state=self._state,
            beta=self._beta,
            inverse_curvature=self._inverse_curvature,
            leader=leader,
            hint=np.zeros(len(stability), dtype=np.int64),
            last_label=np.zeros(1),
            stability=stability,
            mixer=mixer,
            lock=lock,
        )

    def predict(self, Z: Matrix, first: int, elapsed: float = 1.0) -> Matrix:
        """Return log-odds (rows, members)."""
        yhat = np.empty((len(Z), len(self._beta)))
        status = kernels.aioli_predict(self._state, self._beta, first, Z, yhat, elapsed=elapsed)
        _check.raise_on_status(self, status, self.dim)
        return yhat

    def play(self, Z: Matrix, y: Vector, first: int, rows: RowWeights | None = None) -> MemberPredictions:
        """Close rounds."""
        yhat, stability, h, point = (np.empty((len(y), len(self._beta))) for _ in range(4))
        more = () if rows is None else (*rows, h, point)
        state = (self._state, self._beta, self._inverse_curvature, first)
        _check.raise_on_status(self, kernels.aioli_play(*state, Z, y, yhat, stability, 1, *more), self.dim)
        if rows is not None:
            for i, one in enumerate(self.learners):
                own = one._weighted_stability(yhat[:, i], h[:, i], point[:, i], y, rows.weight)
                stability[:, i] = np.where(rows.weight == 1.0, stability[:, i], own)
        return MemberPredictions(yhat, stability)

    def arrays(self) -> Arrays:
        """Return the state."""
        return {"information": self._state}

    def members(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, with the states they have now."""
        return [one.clone_with_state(self._state, i, self.dim, first) for i, one in enumerate(self.learners)]

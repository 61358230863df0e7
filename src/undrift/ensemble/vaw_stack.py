"""Members that are discounted VAW, advanced together by one kernel call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.stack import Indices, MemberPredictions, Stack
from undrift.kernels import layout
from undrift.kernels.arguments import MixerArguments
from undrift.kernels.definitions import Hint
from undrift.learners import DiscountedVAW, Learner
from undrift.learners.base import Arrays
from undrift.learners.row_weights import RowWeights
from undrift.learners.vaw import HINTS, exact_stability


class DiscountedLeaders:
    """Discounted least squares at several discounts over one stream of rows: the leader's m and the leverage h of each.

    Discounted VAW with any hint follows from these two; see `kernels.hinted_predictions`.
    """

    def __init__(self, beta: Vector, reg: Vector, dim: int) -> None:
        self.beta, self.reg, self.dim = beta, reg, dim
        self.state = layout.fresh(dim, reg)

    def restart(self) -> None:
        """Forget every round."""
        layout.restart(self.state, self.dim, self.reg)

    def predict(self, Z: Matrix, first: int, elapsed: float = 1.0) -> tuple[Matrix, Matrix]:
        """Return the leaders' predictions m and leverages h, (rows, discounts), of rows that might come next."""
        m, h = np.empty((len(Z), len(self.beta))), np.empty((len(Z), len(self.beta)))
        status = kernels.vaw_predict(self.state, self.beta, first, Z, m, h, elapsed=elapsed)
        _check.raise_on_status(self, status, self.dim)
        return m, h

    def play(self, Z: Matrix, y: Vector, first: int, rows: RowWeights | None = None) -> tuple[Matrix, Matrix]:
        """Close rounds; return m and h of each."""
        m, h = np.empty((len(Z), len(self.beta))), np.empty((len(Z), len(self.beta)))
        weight, elapsed = (None, None) if rows is None else rows
        status = kernels.vaw_play(self.state, self.beta, first, Z, y, m, h, 1, weight, elapsed)
        _check.raise_on_status(self, status, self.dim)
        return m, h


class VAWStack(Stack):
    """Members that are discounted VAW. Those that differ in their hint alone follow one leader."""

    def __init__(self, learners: Sequence[DiscountedVAW], dim: int) -> None:
        self.learners, self.dim = list(learners), dim
        leaders = list(dict.fromkeys((one.beta, one.reg) for one in learners))
        self._leader = np.array([leaders.index((one.beta, one.reg)) for one in learners], dtype=np.int64)
        self._leaders = DiscountedLeaders(
            np.array([beta for beta, _ in leaders]), np.array([reg for _, reg in leaders]), dim
        )
        self._last = np.zeros(1)
        self._hint = np.array([HINTS.index(one.hint) for one in learners], dtype=np.int64)

    def kernel(
        self, members: Indices, stability: Vector, mixer: MixerArguments, lock: kernels.Lock
    ) -> kernels.EnsembleKernel:
        """Return whole rounds in one call."""
        leader, hint = np.full(len(stability), -1, dtype=np.int64), np.zeros(len(stability), dtype=np.int64)
        leader[members], hint[members] = self._leader, self._hint
        return kernels.EnsembleKernel(
            binary=False,
            state=self._leaders.state,
            beta=self._leaders.beta,
            inverse_curvature=np.empty(0),
            leader=leader,
            hint=hint,
            last_label=self._last,
            stability=stability,
            mixer=mixer,
            lock=lock,
        )

    def predict(self, Z: Matrix, first: int, elapsed: float = 1.0) -> Matrix:
        """Return predictions (rows, members)."""
        m, h = self._leaders.predict(Z, first, elapsed)
        return self._apply_hints(m, h, np.broadcast_to(self._last, len(Z)), np.zeros(len(Z))).yhat

    def play(self, Z: Matrix, y: Vector, first: int, rows: RowWeights | None = None) -> MemberPredictions:
        """Close rounds."""
        m, h = self._leaders.play(Z, y, first, rows)
        last = np.concatenate((self._last, y[:-1]))
        self._last[0] = y[-1]
        return self._apply_hints(m, h, last, y, None if rows is None else rows.weight[:, None])

    def _apply_hints(
        self, m: Matrix, h: Matrix, last: Vector, y: Vector, weight: Matrix | None = None
    ) -> MemberPredictions:
        """Return the members' predictions and stability from their leaders' m and h, by their hints."""
        m, h = m.take(self._leader, axis=1), h.take(self._leader, axis=1)
        hints = np.zeros_like(m)
        hints[:, self._hint == Hint.LAST] = last[:, None]
        hints[:, self._hint == Hint.RIDGE] = m[:, self._hint == Hint.RIDGE]
        yhat, stability = np.empty_like(m), np.empty_like(m)
        kernels.hinted_predictions(m, h, hints, y, yhat, stability)
        if weight is not None:
            stability = np.where(weight == 1.0, stability, exact_stability(m, h, hints, y[:, None], weight))
        return MemberPredictions(yhat, stability)

    def arrays(self) -> Arrays:
        """Return the state."""
        return {"information": self._leaders.state, "last": self._last}

    def members(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, with the states they have now."""
        found: list[Learner] = []
        for learner, leader in zip(self.learners, self._leader, strict=True):
            one = learner.clone_with_state(self._leaders.state, int(leader), self.dim, first)
            one._last[...] = self._last
            found.append(one)
        return found

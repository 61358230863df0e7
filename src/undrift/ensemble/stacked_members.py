"""The members of an ensemble in their order, in as few stacks as their kinds allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.aioli_stack import AIOLIStack
from undrift.ensemble.drift_stack import DriftStack
from undrift.ensemble.single_member import SingleMember
from undrift.ensemble.stack import MemberPredictions, Stack
from undrift.ensemble.vaw_stack import VAWStack
from undrift.kernels.arguments import MixerArguments
from undrift.learners import DiscountedAIOLI, DiscountedVAW, DriftVAW, Learner
from undrift.learners.base import Arrays
from undrift.learners.row_weights import RowWeights

BLOCK = 1024
"""Rounds advanced at a time, so that what the kernels hand on stays in cache."""


class StackedMembers:
    """Members in their order, in as few parts as their kinds allow."""

    def __init__(self, learners: Sequence[Learner], dim: int) -> None:
        kinds: dict[type[Learner], list[int]] = {}
        order: list[list[int]] = []
        for i, one in enumerate(learners):
            if type(one) in (DiscountedVAW, DiscountedAIOLI, DriftVAW):
                if type(one) not in kinds:
                    order.append(kinds.setdefault(type(one), []))
                kinds[type(one)].append(i)
            else:
                order.append([i])
        self.parts = [_make_stack([learners[i] for i in members], dim) for members in order]
        self._indices = [np.array(members) for members in order]
        self._order = np.concatenate(self._indices)
        self._sorted = bool(np.all(self._order == np.arange(len(learners))))

    def kernel(self, stability: Vector, mixer: MixerArguments, lock: kernels.Lock) -> kernels.EnsembleKernel | None:
        """Return whole rounds, mixture included, in one call, if the members are one stack and perhaps `Zero`."""
        rest = [both for both in zip(self.parts, self._indices, strict=True) if not both[0].predicts_zero]
        if len(rest) != 1:
            return None
        part, members = rest[0]
        return part.kernel(members, stability, mixer, lock)

    def predict(self, Z: Matrix, first: int, elapsed: float = 1.0) -> Matrix:
        """Return every member's predictions (rows, members)."""
        return self._in_order([part.predict(Z, first, elapsed) for part in self.parts])

    def play(self, Z: Matrix, y: Vector, first: int, rows: RowWeights | None = None) -> MemberPredictions:
        """Close rounds for every member."""
        return self._join([part.play(Z, y, first, rows) for part in self.parts])

    def play_late(self, Z: Matrix, y: Vector, first: int, rows: RowWeights | None = None) -> MemberPredictions:
        """Close rounds whose labels came after those of later rows."""
        return self._join([part.play_late(Z, y, first, rows) for part in self.parts])

    def learners(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, in order."""
        found = [one for part in self.parts for one in part.members(first)]
        return [found[i] for i in np.argsort(self._order)]

    def arrays(self) -> Arrays:
        """Return all arrays, named by part."""
        return {f"part{k}.{name}": a for k, part in enumerate(self.parts) for name, a in part.arrays().items()}

    def load_arrays(self, arrays: Arrays, first: int, extra_age: float = 0.0) -> Self:
        """Take over saved arrays."""
        for k, part in enumerate(self.parts):
            start = f"part{k}."
            own = {name[len(start) :]: a for name, a in arrays.items() if name.startswith(start)}
            part.load_arrays(own, first, extra_age)
        return self

    def _join(self, played: Sequence[MemberPredictions]) -> MemberPredictions:
        """Return the parts' predictions side by side."""
        yhat, stability = [one.yhat for one in played], [one.stability for one in played]
        return MemberPredictions(self._in_order(yhat), self._in_order(stability))

    def _in_order(self, blocks: list[Matrix]) -> Matrix:
        """Return the parts' columns side by side, in the order of the members."""
        if len(blocks) == 1:
            return blocks[0]
        E = np.concatenate(blocks, axis=1)
        if not self._sorted:
            E[:, self._order] = E.copy()
        return E


def _make_stack(learners: Sequence[Learner], dim: int) -> Stack:
    """Return the stack for members that are of one kind."""
    vaw = [one for one in learners if type(one) is DiscountedVAW]
    if vaw:
        return VAWStack(vaw, dim)
    aioli = [one for one in learners if type(one) is DiscountedAIOLI]
    if aioli:
        return AIOLIStack(aioli, dim)
    drift = [one for one in learners if type(one) is DriftVAW]
    return DriftStack(drift, dim) if drift else SingleMember(learners[0].clone(), dim)

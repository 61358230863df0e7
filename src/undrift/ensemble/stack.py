"""Stacks: members of one kind, advanced together by one kernel call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.drift_stack import DriftStack
from undrift.kernels import layout
from undrift.kernels.arguments import MixerArguments
from undrift.kernels.definitions import Hint
from undrift.learners import DiscountedAIOLI, DiscountedVAW, DriftVAW, Learner, Zero
from undrift.learners.base import Arrays
from undrift.learners.information import InformationLearner
from undrift.learners.vaw import HINTS

Indices = NDArray[np.int64]
BLOCK = 1024
"""Rounds advanced at a time, so that what the kernels hand on stays in cache."""


class MemberPredictions(NamedTuple):
    """Predictions of members in a block of rounds."""

    yhat: Matrix
    """Predictions (rounds, members)."""
    stability: Matrix
    """Stability of the rounds (rounds, members)."""


class SingleMember:
    """A member that is advanced by its own methods."""

    def __init__(self, learner: Learner, dim: int) -> None:
        self.learner = learner
        self.predicts_zero = type(learner) is Zero
        learner._begin(dim)
        learner.dim = dim

    def kernel(
        self, members: Indices, stability: Vector, mixer: MixerArguments, lock: kernels.Lock
    ) -> kernels.EnsembleKernel | None:
        """Return None: a learner of any kind has no rounds in one call."""
        return None

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

    def predict(self, Z: Matrix, first: int) -> tuple[Matrix, Matrix]:
        """Return the leaders' predictions m and leverages h, (rows, discounts), of rows that might come next."""
        m, h = np.empty((len(Z), len(self.beta))), np.empty((len(Z), len(self.beta)))
        _check.raise_on_status(self, kernels.vaw_predict(self.state, self.beta, first, Z, m, h), self.dim)
        return m, h

    def play(self, Z: Matrix, y: Vector, first: int) -> tuple[Matrix, Matrix]:
        """Close rounds; return m and h of each."""
        m, h = np.empty((len(Z), len(self.beta))), np.empty((len(Z), len(self.beta)))
        _check.raise_on_status(self, kernels.vaw_play(self.state, self.beta, first, Z, y, m, h), self.dim)
        return m, h


class VAWStack:
    """Members that are discounted VAW. Those that differ in their hint alone follow one leader."""

    predicts_zero = False

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
        """Return whole rounds in one call; `members` are the indices of this stack's members in the ensemble."""
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

    def predict(self, Z: Matrix, first: int) -> Matrix:
        """Return predictions (rows, members)."""
        m, h = self._leaders.predict(Z, first)
        return self._apply_hints(m, h, np.broadcast_to(self._last, len(Z)), np.zeros(len(Z))).yhat

    def play(self, Z: Matrix, y: Vector, first: int) -> MemberPredictions:
        """Close rounds."""
        m, h = self._leaders.play(Z, y, first)
        last = np.concatenate((self._last, y[:-1]))
        self._last[0] = y[-1]
        return self._apply_hints(m, h, last, y)

    @property
    def last_label(self) -> float:
        """The label that hints of the kind "last" repeat."""
        return float(self._last[0])

    @last_label.setter
    def last_label(self, y: float) -> None:
        self._last[0] = y

    def _apply_hints(self, m: Matrix, h: Matrix, last: Vector, y: Vector) -> MemberPredictions:
        """Return the members' predictions and stability from their leaders' m and h, by their hints."""
        m, h = m.take(self._leader, axis=1), h.take(self._leader, axis=1)
        hints = np.zeros_like(m)
        hints[:, self._hint == Hint.LAST] = last[:, None]
        hints[:, self._hint == Hint.RIDGE] = m[:, self._hint == Hint.RIDGE]
        yhat, stability = np.empty_like(m), np.empty_like(m)
        kernels.hinted_predictions(m, h, hints, y, yhat, stability)
        return MemberPredictions(yhat, stability)

    def arrays(self) -> Arrays:
        """Return the state."""
        return {"information": self._leaders.state, "last": self._last}

    def load_arrays(self, arrays: Arrays, first: int) -> None:
        """Take over saved arrays."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]

    def members(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, with the states they have now."""
        found: list[Learner] = []
        for learner, leader in zip(self.learners, self._leader, strict=True):
            one = learner_with_state(learner, self._leaders.state, int(leader), self.dim, first)
            one._last[...] = self._last
            found.append(one)
        return found


class AIOLIStack:
    """Members that are discounted AIOLI, each with its own discount and curvature."""

    predicts_zero = False

    def __init__(self, learners: Sequence[DiscountedAIOLI], dim: int) -> None:
        self.learners, self.dim = list(learners), dim
        self._beta = np.array([one.beta for one in learners])
        self._inverse_curvature = np.array([1.0 / one.curvature for one in learners])
        self._state = layout.fresh(dim, np.array([one.reg for one in learners]))

    def kernel(
        self, members: Indices, stability: Vector, mixer: MixerArguments, lock: kernels.Lock
    ) -> kernels.EnsembleKernel:
        """Return whole rounds in one call; see `VAWStack.kernel`."""
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

    def predict(self, Z: Matrix, first: int) -> Matrix:
        """Return log-odds (rows, members)."""
        yhat = np.empty((len(Z), len(self._beta)))
        _check.raise_on_status(self, kernels.aioli_predict(self._state, self._beta, first, Z, yhat), self.dim)
        return yhat

    def play(self, Z: Matrix, y: Vector, first: int) -> MemberPredictions:
        """Close rounds."""
        yhat, stability = np.empty((len(y), len(self._beta))), np.empty((len(y), len(self._beta)))
        status = kernels.aioli_play(self._state, self._beta, self._inverse_curvature, first, Z, y, yhat, stability)
        _check.raise_on_status(self, status, self.dim)
        return MemberPredictions(yhat, stability)

    def arrays(self) -> Arrays:
        """Return the state."""
        return {"information": self._state}

    def load_arrays(self, arrays: Arrays, first: int) -> None:
        """Take over saved arrays."""
        self._state[...] = arrays["information"]

    def members(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, with the states they have now."""
        return [learner_with_state(one, self._state, i, self.dim, first) for i, one in enumerate(self.learners)]


L = TypeVar("L", bound=InformationLearner)


def learner_with_state(learner: L, state: layout.State, i: int, dim: int, rounds: int) -> L:
    """Return a clone of a learner with the state of learner i of a stack after so many rounds."""
    one = learner.clone()
    one._begin(dim)
    one.dim, one.rounds = dim, rounds
    one._state[...] = layout.single_state(state, i, dim)
    return one


Part = SingleMember | VAWStack | AIOLIStack | DriftStack


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
        self.parts: list[Part] = [_part([learners[i] for i in members], dim) for members in order]
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

    def predict(self, Z: Matrix, first: int) -> Matrix:
        """Return every member's predictions (rows, members)."""
        return self._in_order([part.predict(Z, first) for part in self.parts])

    def play(self, Z: Matrix, y: Vector, first: int) -> MemberPredictions:
        """Close rounds for every member."""
        played = [MemberPredictions(*part.play(Z, y, first)) for part in self.parts]
        yhat, stability = [one.yhat for one in played], [one.stability for one in played]
        return MemberPredictions(self._in_order(yhat), self._in_order(stability))

    def settle(self, Z: Matrix, y: Vector, first: int, *, newest: bool) -> MemberPredictions:
        """Close a round whose label came late; its label is the last one only if it belongs to the `newest` row."""
        stacks = [part for part in self.parts if isinstance(part, (VAWStack, DriftStack))]
        before = [part.last_label for part in stacks]
        played = self.play(Z, y, first)
        if not newest:
            for part, last in zip(stacks, before, strict=True):
                part.last_label = last
        return played

    def learners(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, in order."""
        found = [one for part in self.parts for one in part.members(first)]
        return [found[i] for i in np.argsort(self._order)]

    def arrays(self) -> Arrays:
        """Return all arrays, named by part."""
        return {f"part{k}.{name}": a for k, part in enumerate(self.parts) for name, a in part.arrays().items()}

    def load_arrays(self, arrays: Arrays, first: int) -> Self:
        """Take over saved arrays."""
        for k, part in enumerate(self.parts):
            start = f"part{k}."
            part.load_arrays({name[len(start) :]: a for name, a in arrays.items() if name.startswith(start)}, first)
        return self

    def _in_order(self, blocks: list[Matrix]) -> Matrix:
        """Return the parts' columns side by side, in the order of the members."""
        if len(blocks) == 1:
            return blocks[0]
        E = np.concatenate(blocks, axis=1)
        if not self._sorted:
            E[:, self._order] = E.copy()
        return E


def _part(learners: Sequence[Learner], dim: int) -> Part:
    vaw = [one for one in learners if type(one) is DiscountedVAW]
    if vaw:
        return VAWStack(vaw, dim)
    aioli = [one for one in learners if type(one) is DiscountedAIOLI]
    if aioli:
        return AIOLIStack(aioli, dim)
    drift = [one for one in learners if type(one) is DriftVAW]
    return DriftStack(drift, dim) if drift else SingleMember(learners[0].clone(), dim)

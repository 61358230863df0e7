"""The members of an ensemble in their order, in as few stacks as their kinds allow.

A stack holds members of one kind, advanced together by one kernel call; a member of any other kind is advanced by its
own methods (`SingleMember`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from undrift import _check, kernels
from undrift._typing import Arrays, Matrix, Vector
from undrift.kernels import layout
from undrift.kernels.definitions import DriftCount, Hint
from undrift.kernels.layout import MixerArguments
from undrift.learners import DiscountedAIOLI, DiscountedVAW, DriftVAW, Learner, Zero
from undrift.learners.drift import answer, hints, prices
from undrift.learners.row_context import ORDINARY, RowContext
from undrift.learners.serializable import below_prefix, merge_parts
from undrift.learners.vaw import HINTS, exact_stability

Indices = NDArray[np.int64]
BLOCK = 1024
"""Rounds advanced at a time, so that what the kernels hand on stays in cache."""


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
    def play(self, Z: Matrix, y: Vector, first: int, context: RowContext = ORDINARY) -> MemberPredictions:
        """Close rounds after `first` earlier ones."""

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

    def play_late(self, Z: Matrix, y: Vector, first: int, context: RowContext = ORDINARY) -> MemberPredictions:
        """Close rounds whose labels came after those of later rows: "last" hints go on repeating the newest label."""
        last = self.arrays().get("last")
        if last is None:
            return self.play(Z, y, first, context)
        newest = last.copy()
        played = self.play(Z, y, first, context)
        last[...] = newest
        return played

    def kernel(
        self, members: Indices, stability: Vector, mixer: MixerArguments, lock: kernels.Lock
    ) -> kernels.EnsembleKernel | None:
        """Return whole rounds, mixture included, in one call, or None where this kind has none.

        `members` are the indices of this stack's members in the ensemble.
        """
        return None


class DiscountedLeaders:
    """Discounted least squares at several discounts over one stream of rows: the leader's m and the leverage h of each.

    Discounted VAW with any hint follows from these two; see `kernels.hinted_predictions`.
    """

    def __init__(self, beta: Vector, reg: Vector, dim: int) -> None:
        self.beta, self.dim = beta, dim
        self.state = layout.fresh(dim, reg)

    def predict(self, Z: Matrix, first: int, elapsed: float = 1.0) -> tuple[Matrix, Matrix]:
        """Return the leaders' predictions m and leverages h, (rows, discounts), of rows that might come next."""
        m, h = np.empty((len(Z), len(self.beta))), np.empty((len(Z), len(self.beta)))
        status = kernels.vaw_predict(self.state, self.beta, first, Z, m, h, elapsed=elapsed)
        _check.raise_on_status(self, status, self.dim)
        return m, h

    def play(self, Z: Matrix, y: Vector, first: int, context: RowContext = ORDINARY) -> tuple[Matrix, Matrix]:
        """Close rounds; return m and h of each."""
        m, h = np.empty((len(Z), len(self.beta))), np.empty((len(Z), len(self.beta)))
        status = kernels.vaw_play(self.state, self.beta, first, Z, y, m, h, 1, context.weight, context.elapsed)
        _check.raise_on_status(self, status, self.dim)
        return m, h


class HintedMembers:
    """Which leader each member that is discounted VAW follows, and its hint.

    Members that differ in their hint alone follow one leader, with its discount and ridge in `beta` and `reg`.
    """

    def __init__(self, learners: Sequence[DiscountedVAW]) -> None:
        leaders = list(dict.fromkeys((one.beta, one.reg) for one in learners))
        self.beta, self.reg = np.array(leaders).T.copy()
        self.leader = np.array([leaders.index((one.beta, one.reg)) for one in learners], dtype=np.int64)
        self.hint = np.array([HINTS.index(one.hint) for one in learners], dtype=np.int64)

    def answer(self, m: Matrix, h: Matrix, last: Vector, y: Vector, weight: Matrix | None = None) -> MemberPredictions:
        """Return the members' predictions and stability from their leaders' m and h, by their hints."""
        m, h = m.take(self.leader, axis=1), h.take(self.leader, axis=1)
        hints = np.zeros_like(m)
        hints[:, self.hint == Hint.LAST] = last[:, None]
        hints[:, self.hint == Hint.RIDGE] = m[:, self.hint == Hint.RIDGE]
        yhat, stability = np.empty_like(m), np.empty_like(m)
        kernels.hinted_predictions(m, h, hints, y, yhat, stability)
        if weight is not None:
            stability = np.where(weight == 1.0, stability, exact_stability(m, h, hints, y[:, None], weight))
        return MemberPredictions(yhat, stability)


class VAWStack(Stack):
    """Members that are discounted VAW."""

    def __init__(self, learners: Sequence[DiscountedVAW], dim: int) -> None:
        self.learners, self.dim, self._hinted = list(learners), dim, HintedMembers(learners)
        self._leaders = DiscountedLeaders(self._hinted.beta, self._hinted.reg, dim)
        self._last = np.zeros(1)

    def kernel(
        self, members: Indices, stability: Vector, mixer: MixerArguments, lock: kernels.Lock
    ) -> kernels.EnsembleKernel:
        """Return whole rounds in one call."""
        leader, hint = np.full(len(stability), -1, dtype=np.int64), np.zeros(len(stability), dtype=np.int64)
        leader[members], hint[members] = self._hinted.leader, self._hinted.hint
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
        return self._hinted.answer(m, h, np.broadcast_to(self._last, len(Z)), np.zeros(len(Z))).yhat

    def play(self, Z: Matrix, y: Vector, first: int, context: RowContext = ORDINARY) -> MemberPredictions:
        """Close rounds."""
        m, h = self._leaders.play(Z, y, first, context)
        last = np.concatenate((self._last, y[:-1]))
        self._last[0] = y[-1]
        return self._hinted.answer(m, h, last, y, None if context.weight is None else context.weight[:, None])

    def arrays(self) -> Arrays:
        """Return the state."""
        return {"information": self._leaders.state, "last": self._last}

    def members(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, with the states they have now."""
        found: list[Learner] = []
        for learner, leader in zip(self.learners, self._hinted.leader, strict=True):
            one = learner.clone_with_state(self._leaders.state, int(leader), self.dim, first)
            one._last[...] = self._last
            found.append(one)
        return found


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

    def play(self, Z: Matrix, y: Vector, first: int, context: RowContext = ORDINARY) -> MemberPredictions:
        """Close rounds."""
        yhat, stability, h, point = (np.empty((len(y), len(self._beta))) for _ in range(4))
        weight = context.weight
        more = () if weight is None else (weight, context.elapsed, h, point)
        state = (self._state, self._beta, self._inverse_curvature, first)
        _check.raise_on_status(self, kernels.aioli_play(*state, Z, y, yhat, stability, 1, *more), self.dim)
        if weight is not None:
            for i, one in enumerate(self.learners):
                own = one._weighted_stability(yhat[:, i], h[:, i], point[:, i], y, weight)
                stability[:, i] = np.where(weight == 1.0, stability[:, i], own)
        return MemberPredictions(yhat, stability)

    def arrays(self) -> Arrays:
        """Return the state."""
        return {"information": self._state}

    def members(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, with the states they have now."""
        return [one.clone_with_state(self._state, i, self.dim, first) for i, one in enumerate(self.learners)]


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

    def play(self, Z: Matrix, y: Vector, first: int, context: RowContext = ORDINARY) -> MemberPredictions:
        """Close rounds."""
        m, h, event = (np.empty((len(y), len(self._reg))) for _ in range(3))
        state = (self._factor, self._leader, self._counts, self._reg, self._step)
        status = kernels.drift_play(*state, first, Z, y, m, h, event, context.weight, context.elapsed)
        _check.raise_on_status(self, status, self.dim)
        guess = self._guesses(m, np.concatenate((self._last, y[:-1])))
        yhat = answer(m, h, guess)
        self._last[0] = y[-1]
        return MemberPredictions(yhat, prices(m, h, guess, event, yhat, y, context.weight))

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


class SingleMember(Stack):
    """A member that is advanced by its own methods."""

    def __init__(self, learner: Learner, dim: int) -> None:
        self.learner = learner
        self.predicts_zero = type(learner) is Zero
        learner._begin(dim)
        learner.dim = dim

    def predict(self, Z: Matrix, first: int, elapsed: float = 1.0) -> Matrix:
        """Return predictions (rows, 1)."""
        return self.learner._predict(Z, elapsed)[:, None]

    def play(self, Z: Matrix, y: Vector, first: int, context: RowContext = ORDINARY) -> MemberPredictions:
        """Close rounds."""
        columns = self.learner._advance(Z, y, context)
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

    def play(self, Z: Matrix, y: Vector, first: int, context: RowContext = ORDINARY) -> MemberPredictions:
        """Close rounds for every member."""
        return self._join([part.play(Z, y, first, context) for part in self.parts])

    def play_late(self, Z: Matrix, y: Vector, first: int, context: RowContext = ORDINARY) -> MemberPredictions:
        """Close rounds whose labels came after those of later rows."""
        return self._join([part.play_late(Z, y, first, context) for part in self.parts])

    def learners(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, in order."""
        found = [one for part in self.parts for one in part.members(first)]
        return [found[i] for i in np.argsort(self._order)]

    def arrays(self) -> Arrays:
        """Return all arrays, named by part."""
        return merge_parts("part", [part.arrays() for part in self.parts])

    def load_arrays(self, arrays: Arrays, first: int, extra_age: float = 0.0) -> Self:
        """Take over saved arrays."""
        for k, part in enumerate(self.parts):
            part.load_arrays(below_prefix(f"part{k}.", arrays), first, extra_age)
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

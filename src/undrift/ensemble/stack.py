"""Stacks: members of one kind, advanced together by one kernel call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.kernels import layout
from undrift.kernels.arguments import MixerArguments
from undrift.learners import DiscountedAIOLI, DiscountedVAW, Learner, Zero
from undrift.learners.base import Arrays
from undrift.learners.vaw import HINTS

BLOCK = 1024
"""Rounds advanced at a time, so that what the kernels hand on stays in cache."""


class MemberPredictions(NamedTuple):
    """What the members of a stack said in a block of rounds."""

    yhat: Matrix
    """Predictions (rounds, members)."""
    stability: Matrix
    """Prices of the rounds (rounds, members)."""


class SingleMember:
    """A member that is advanced by its own methods."""

    def __init__(self, learner: Learner, dim: int) -> None:
        self.learner = learner
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


class DiscountedLeaders:
    """Memories over one stream of rows: m and h of each, from which every hint's answer follows."""

    def __init__(self, beta: Vector, reg: Vector, dim: int) -> None:
        self.beta, self.reg, self.dim = beta, reg, dim
        self.state = layout.fresh(dim, reg)

    def restart(self) -> None:
        """Forget every round."""
        layout.restart(self.state, self.dim, self.reg)

    def predict(self, Z: Matrix, first: int) -> tuple[Matrix, Matrix]:
        """Return m and h (rows, memories) of rows that might come next."""
        m, h = np.empty((len(Z), len(self.beta))), np.empty((len(Z), len(self.beta)))
        _check.raise_if_refused(self, kernels.vaw_predict(self.state, self.beta, first, Z, m, h), self.dim)
        return m, h

    def play(self, Z: Matrix, y: Vector, first: int) -> tuple[Matrix, Matrix]:
        """Close rounds; return their m and h."""
        m, h = np.empty((len(Z), len(self.beta))), np.empty((len(Z), len(self.beta)))
        _check.raise_if_refused(self, kernels.vaw_play(self.state, self.beta, first, Z, y, m, h), self.dim)
        return m, h


class VAWStack:
    """Members that are discounted VAW: one pass gives m and h of each memory, and those every hint's answer."""

    def __init__(self, learners: Sequence[DiscountedVAW], dim: int) -> None:
        self.learners, self.dim = list(learners), dim
        memories = list(dict.fromkeys((one.beta, one.reg) for one in learners))
        self._at = np.array([memories.index((one.beta, one.reg)) for one in learners])
        self._plain = len(memories) == len(learners)
        self._leaders = DiscountedLeaders(
            np.array([beta for beta, _ in memories]), np.array([reg for _, reg in memories]), dim
        )
        self._last = np.zeros(1)
        self._hints = [one.hint for one in learners]

    def round(self, at: Vector, stability: Vector, mixer: MixerArguments, lock: kernels.Lock) -> kernels.Round:
        """Return whole rounds in one call; `at` places this stack's members among the ensemble's, -1 a `Zero`."""
        memory, hint = np.full(len(at), -1.0), np.zeros(len(at))
        memory[at >= 0] = self._at
        hint[at >= 0] = [HINTS.index(one) for one in self._hints]
        state, beta, bend = self._leaders.state, self._leaders.beta, np.empty(0)
        return kernels.Round(False, state, beta, bend, memory, hint, self._last, stability, mixer, lock)

    def predict(self, Z: Matrix, first: int) -> Matrix:
        """Return predictions (rows, members)."""
        return self._answers(*self._leaders.predict(Z, first), self._last)[0]

    def play(self, Z: Matrix, y: Vector, first: int) -> MemberPredictions:
        """Close rounds."""
        m, h = self._leaders.play(Z, y, first)
        yhat, lever, guess = self._answers(m, h, np.concatenate((self._last, y[:-1])))
        self._last[0] = y[-1]
        guess -= y[:, None]
        guess *= guess
        guess *= lever
        guess *= 0.5
        return MemberPredictions(yhat, guess)

    @property
    def last_label(self) -> float:
        """The label that hints of the kind "last" repeat."""
        return float(self._last[0])

    @last_label.setter
    def last_label(self, y: float) -> None:
        self._last[0] = y

    def _answers(self, m: Matrix, h: Matrix, last: Vector) -> tuple[Matrix, Matrix, Matrix]:
        """Return yhat = (m + h hint) / (1 + h), the leverages h / (1 + h) and the hints, by member."""
        part = 1.0 / (1.0 + h)
        base, lever = m * part, h * part
        if not self._plain:
            m, base, lever = m[:, self._at], base[:, self._at], lever[:, self._at]
        guess = np.zeros_like(base)
        for i, hint in enumerate(self._hints):
            if hint == "last":
                guess[:, i] = last
            elif hint == "ridge":
                guess[:, i] = m[:, i]
        base += lever * guess
        return base, lever, guess

    def arrays(self) -> Arrays:
        """Return the state."""
        return {"information": self._leaders.state, "last": self._last}

    def load_arrays(self, arrays: Arrays, first: int) -> None:
        """Take over saved arrays."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]

    def members(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, with the memories they have now."""
        return [self._member(one.clone(), int(at), first) for one, at in zip(self.learners, self._at, strict=True)]

    def _member(self, one: DiscountedVAW, at: int, first: int) -> Learner:
        one._begin(self.dim)
        one.dim, one.rounds = self.dim, first
        one._state[...] = layout.single_state(self._leaders.state, at, self.dim)
        one._last[...] = self._last
        return one


class AIOLIStack:
    """Members that are discounted AIOLI, each with its own memory and curvature."""

    def __init__(self, learners: Sequence[DiscountedAIOLI], dim: int) -> None:
        self.learners, self.dim = list(learners), dim
        self._beta = np.array([one.beta for one in learners])
        self._inverse_curvature = np.array([1.0 / one.curvature for one in learners])
        self._state = layout.fresh(dim, np.array([one.reg for one in learners]))

    def round(self, at: Vector, stability: Vector, mixer: MixerArguments, lock: kernels.Lock) -> kernels.Round:
        """Return whole rounds in one call; see `VAWStack.round`."""
        none = np.zeros(len(at))
        return kernels.Round(
            True, self._state, self._beta, self._inverse_curvature, at, none, np.zeros(1), stability, mixer, lock
        )

    def predict(self, Z: Matrix, first: int) -> Matrix:
        """Return log-odds (rows, members)."""
        yhat = np.empty((len(Z), len(self._beta)))
        _check.raise_if_refused(self, kernels.aioli_predict(self._state, self._beta, first, Z, yhat), self.dim)
        return yhat

    def play(self, Z: Matrix, y: Vector, first: int) -> MemberPredictions:
        """Close rounds."""
        yhat, stability = np.empty((len(y), len(self._beta))), np.empty((len(y), len(self._beta)))
        status = kernels.aioli_play(self._state, self._beta, self._inverse_curvature, first, Z, y, yhat, stability)
        _check.raise_if_refused(self, status, self.dim)
        return MemberPredictions(yhat, stability)

    def arrays(self) -> Arrays:
        """Return the state."""
        return {"information": self._state}

    def load_arrays(self, arrays: Arrays, first: int) -> None:
        """Take over saved arrays."""
        self._state[...] = arrays["information"]

    def members(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, with the memories they have now."""
        return [self._member(one.clone(), i, first) for i, one in enumerate(self.learners)]

    def _member(self, one: DiscountedAIOLI, at: int, first: int) -> Learner:
        one._begin(self.dim)
        one.dim, one.rounds = self.dim, first
        one._state[...] = layout.single_state(self._state, at, self.dim)
        return one


Part = SingleMember | VAWStack | AIOLIStack


class StackedMembers:
    """Members in their order, in as few parts as their kinds allow."""

    def __init__(self, learners: Sequence[Learner], dim: int) -> None:
        kinds: dict[type[Learner], list[int]] = {}
        order: list[list[int]] = []
        for i, one in enumerate(learners):
            if type(one) in (DiscountedVAW, DiscountedAIOLI):
                if type(one) not in kinds:
                    order.append(kinds.setdefault(type(one), []))
                kinds[type(one)].append(i)
            else:
                order.append([i])
        self.parts: list[Part] = [_part([learners[i] for i in places], dim) for places in order]
        self._places = np.array([i for places in order for i in places])
        self._sorted = bool(np.all(self._places == np.arange(len(learners))))

    def round(self, stability: Vector, mixer: MixerArguments, lock: kernels.Lock) -> kernels.Round | None:
        """Return whole rounds, mixture included, in one call, if the members are one stack and perhaps `Zero`."""
        stacks = [part for part in self.parts if not isinstance(part, SingleMember)]
        rest = [part for part in self.parts if isinstance(part, SingleMember) and type(part.learner) is not Zero]
        if len(stacks) != 1 or rest:
            return None
        at, next_place = np.full(len(self._places), -1.0), 0
        for part in self.parts:
            count = 1 if isinstance(part, SingleMember) else len(part.learners)
            if not isinstance(part, SingleMember):
                at[self._places[next_place : next_place + count]] = np.arange(count)
            next_place += count
        return stacks[0].round(at, stability, mixer, lock)

    def predict(self, Z: Matrix, first: int) -> Matrix:
        """Return every member's predictions (rows, members)."""
        return self._placed([part.predict(Z, first) for part in self.parts])

    def play(self, Z: Matrix, y: Vector, first: int) -> MemberPredictions:
        """Close rounds for every member."""
        said = [part.play(Z, y, first) for part in self.parts]
        return MemberPredictions(
            self._placed([one.yhat for one in said]), self._placed([one.stability for one in said])
        )

    def settle(self, Z: Matrix, y: Vector, first: int, *, newest: bool) -> MemberPredictions:
        """Close a round whose label came late; its label is the last one only if it belongs to the `newest` row."""
        stacks = [part for part in self.parts if isinstance(part, VAWStack)]
        before = [part.last_label for part in stacks]
        said = self.play(Z, y, first)
        if not newest:
            for part, last in zip(stacks, before, strict=True):
                part.last_label = last
        return said

    def learners(self, first: int) -> list[Learner]:
        """Return the members as learners of their own, in order."""
        found = [one for part in self.parts for one in part.members(first)]
        return [found[i] for i in np.argsort(self._places)]

    def arrays(self) -> Arrays:
        """Return all arrays, named by part."""
        return {f"part{k}.{name}": a for k, part in enumerate(self.parts) for name, a in part.arrays().items()}

    def load_arrays(self, arrays: Arrays, first: int) -> Self:
        """Take over saved arrays."""
        for k, part in enumerate(self.parts):
            start = f"part{k}."
            part.load_arrays({name[len(start) :]: a for name, a in arrays.items() if name.startswith(start)}, first)
        return self

    def _placed(self, blocks: list[Matrix]) -> Matrix:
        if len(blocks) == 1:
            return blocks[0]
        E = np.concatenate(blocks, axis=1)
        if not self._sorted:
            E[:, self._places] = E.copy()
        return E


def _part(learners: Sequence[Learner], dim: int) -> Part:
    vaw = [one for one in learners if type(one) is DiscountedVAW]
    if vaw:
        return VAWStack(vaw, dim)
    aioli = [one for one in learners if type(one) is DiscountedAIOLI]
    return AIOLIStack(aioli, dim) if aioli else SingleMember(learners[0].clone(), dim)

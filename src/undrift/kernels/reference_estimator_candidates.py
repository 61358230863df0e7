"""NumPy twin of an online estimator's stages put together: what they answer to a row, and how they learn it."""

from __future__ import annotations

import math
from typing import NamedTuple, Unpack

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import CLIP, MOST_SCALES
from undrift.kernels.definitions import EstimatorNumber as N
from undrift.kernels.reference import sigmoid
from undrift.kernels.reference_estimator_stages import (
    MixerSettings,
    Parts,
    Stage,
    StageSettings,
    classification_features,
    hinted_answers,
    regression_features,
)
from undrift.kernels.reference_waves import waves as fill_waves


class Answers(NamedTuple):
    """What the stages answer to one row."""

    members: Vector
    """Every member of every family, then of level 2, in label units."""
    candidates: Vector
    """Level 2's mixture, each family's mixture, then the two baselines."""


class CandidateStages:
    """Families of memories over the row, level 2 over their mixtures, and the last mixer, which hears them all."""

    def __init__(
        self,
        *,
        binary: bool,
        indicators: bool,
        dim: int,
        began: int,
        waves: Matrix,
        up: Vector,
        down: Vector,
        blank: Vector,
        parts: Parts,
    ) -> None:
        self.binary, self.indicators, self.dim, self.began, self.waves = binary, indicators, dim, began, waves
        self.up, self.down, self.blank, self.parts = up, down, blank, parts
        self.families: list[Stage] = []

    def add_family(self, **settings: Unpack[StageSettings]) -> None:
        """Add memories over the row; the last family is the one with waves, if there are any."""
        self.families.append(Stage(self.binary, settings, settings))

    def set_level2(self, **settings: Unpack[StageSettings]) -> None:
        """Set the memories over the families' mixtures."""
        self.level2 = Stage(self.binary, settings, settings)

    def set_last(self, **settings: Unpack[MixerSettings]) -> None:
        """Set the mixer of the candidates."""
        self.last = Stage(self.binary, settings)

    def part(self, state: Vector, name: str) -> Vector:
        """Return a named part of a state, as a view."""
        begin, size = self.parts[name]
        return state[begin : begin + size]

    def answer(self, state: Vector, x: Vector, hint: float, error: float, *, first: int, skipped: int) -> Answers:
        """Return what all stages answer to a scaled row after `first` rounds, `skipped` of them unknown to level 2."""
        numbers = self.part(state, "numbers")
        center, scale = float(numbers[N.CENTER]), float(numbers[N.LABEL_SCALE]) or 1.0
        members, mixtures = [], np.empty(len(self.families))
        for f, family in enumerate(self.families):
            m, h = family.predict_memories(state, first, self.design(f, x))
            members.append(m if self.binary else hinted_answers(m, h, hint, center))
            mixtures[f] = family.mix(state, members[f])
        m, h = self.level2.predict_memories(state, first - skipped, self.features(state, mixtures, hint, error))
        # Level 2 predicts y - r in label scales, r the richest mixture; VAW with hint 0 is m / (1 + h).
        members.append(m if self.binary else mixtures[-1] + scale * (m / (1.0 + h)))
        level2 = self.level2.mix(state, members[-1])
        candidates = np.array([level2, *mixtures, *self.baselines(state)])
        return Answers(np.concatenate(members), candidates)

    def design(self, f: int, x: Vector) -> Vector:
        """Return a family's row: (1, x), and in the family with waves those after the features the core began with."""
        if not len(self.waves) or f + 1 < len(self.families):
            return np.concatenate([[1.0], x])
        began, out = self.began * (2 if self.indicators else 1), np.empty((1, len(self.waves)))
        fill_waves(self.waves, x[None], CLIP, out, 0)
        return np.concatenate([[1.0], x[:began], out[0], x[began:]])

    def features(self, state: Vector, mixtures: Vector, hint: float, error: float) -> Vector:
        """Return level 2's features, made of the families' mixtures, the hint and the last error."""
        if self.binary:
            return classification_features(mixtures, hint, error)
        numbers = self.part(state, "numbers")
        scale = float(numbers[N.LABEL_SCALE]) or 1.0
        return regression_features(mixtures, hint, error, float(numbers[N.CENTER]), scale)

    def baselines(self, state: Vector) -> tuple[float, float]:
        """Return the naive candidates: last label and mean label, or log-odds of the base rate and of no change.

        Log-odds of counts are ln((more + 1) / (less + 1)).
        """
        n = self.part(state, "numbers")
        if not self.binary:
            return float(n[N.LAST]), float(n[N.MEAN])
        base = math.log((n[N.POSITIVE] + 1.0) / (n[N.NEGATIVE] + 1.0))
        return base, float(n[N.LAST]) * math.log((n[N.STAYED] + 1.0) / (n[N.CHANGED] + 1.0))

    def hint(self, state: Vector) -> float:
        """Return the last label as learners saw it, or the log-odds of no change."""
        return self.baselines(state)[1] if self.binary else float(self.part(state, "numbers")[N.HINT])

    def learn(
        self,
        state: Vector,
        x: Vector,
        soft: float,
        hint: float,
        error: float,
        served: Answers | None,
        late: float,
        first: int,
        skipped: int,
    ) -> float:
        """Let families and level 2 learn a scaled row with the label `soft`; return the error of the richest family.

        Without answers the row was served before any label was known: only the families' memories learn it.
        """
        numbers = self.part(state, "numbers")
        target = soft if self.binary else soft - float(numbers[N.CENTER])
        at = 0
        for f, family in enumerate(self.families):
            family.learn_memories(state, first, self.design(f, x), target)
            if served is None:
                family.widen_range(state, soft)
            else:
                family.learn_mixer(state, served.members[at : at + family.members], soft, late)
            at += family.members
        if served is None:
            self.level2.widen_range(state, soft)
            return 0.0
        mixtures = served.candidates[1 : 1 + len(self.families)]
        richest = float(mixtures[-1])
        miss = (soft > 0.0) - sigmoid(richest) if self.binary else soft - richest
        if numbers[N.LABEL_SCALE] == 0.0:
            numbers[N.LABEL_SCALE] = abs(miss)  # labels were constant so far, and so was every mixture
        if self.binary:
            target = soft
        else:
            scale = float(numbers[N.LABEL_SCALE]) or 1.0
            target = min(max((soft - richest) / scale, -MOST_SCALES), MOST_SCALES)
        self.level2.learn_memories(state, first - skipped, self.features(state, mixtures, hint, error), target)
        self.level2.learn_mixer(state, served.members[at:], soft, late)
        return miss

"""NumPy twin of an online estimator's stages put together: what they answer to a row, and how they learn it."""

from __future__ import annotations

import math
from typing import NamedTuple, Unpack

import numpy as np

from tests.twins import mix as reference_mix
from tests.twins.constants import MOST_SCALES
from tests.twins.estimator_context import ScaledRow, expand
from tests.twins.estimator_stages import (
    Family,
    FamilySettings,
    GivenFamily,
    MixerSettings,
    Parts,
    Stage,
    StageSettings,
    classification_features,
    hinted_answers,
    regression_features,
)
from tests.twins.reference import sigmoid
from tests.twins.waves import waves as fill_waves
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import CLIP, MIX_LIMIT, FamilyDesign, MixerState
from undrift.kernels.definitions import EstimatorNumber as N


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
        despiked: bool,
        indicators: bool,
        dim: int,
        began: int,
        given: int,
        waves: Matrix,
        spans: Vector,
        tails: Vector,
        blank: Vector,
        parts: Parts,
    ) -> None:
        self.binary, self.indicators, self.dim, self.began, self.waves = binary, indicators, dim, began, waves
        self.spans, self.tails, self.blank, self.parts = spans, tails, blank, parts
        self.given, self.despiked = given, despiked
        self.families: list[Family | GivenFamily] = []

    @property
    def inputs(self) -> int:
        """How many scaled features, indicators included, the core began with."""
        return self.began * (2 if self.indicators else 1)

    @property
    def reference(self) -> int:
        """The family that level 2 corrects: the one with context."""
        return next(f for f, family in enumerate(self.families) if family.design == FamilyDesign.CONTEXT)

    @property
    def screening(self) -> int:
        """The linear family, the middle one of several, whose residuals choose products."""
        return sum(family.design == FamilyDesign.LINEAR for family in self.families) // 2

    def add_family(self, **settings: Unpack[FamilySettings]) -> None:
        """Add memories over the row."""
        self.families.append(Family(self.binary, settings))

    def add_given(self) -> None:
        """Add the answers that come with the rows, after the families with memories."""
        self.families += [GivenFamily()] * self.given

    @property
    def learned(self) -> list[Family]:
        """The families with memories."""
        return [family for family in self.families if isinstance(family, Family)]

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

    def answer(
        self,
        state: Vector,
        row: ScaledRow,
        hint: float,
        errors: Vector,
        *,
        first: int,
        skipped: int,
        longest: bool = False,
    ) -> Answers:
        """Return what all stages answer to a row after `first` rounds, `skipped` of them unknown to level 2.

        With `longest` each family answers by its longest memory, the last one, and not by its mixture.
        """
        scale = float(self.part(state, "numbers")[N.LABEL_SCALE]) or 1.0
        members, mixtures = [], np.empty(len(self.families))
        for f, family in enumerate(self.learned):
            members.append(self.family_answers(state, family, row, hint, first))
            mixtures[f] = members[f][-1] if longest else family.mix(state, members[f])
        mixtures[len(members) :] = np.where(np.isnan(row.given), mixtures[self.reference], row.given)
        features = self.features(state, np.concatenate(members), mixtures, hint, errors)
        m, h = self.level2.predict_memories(state, first - skipped, features, row.elapsed)
        if not self.binary:
            # Level 2 predicts y - r in label scales, r the reference; its hint is the mixture with the least loss.
            r = mixtures[self.reference]
            best = mixtures[int(np.argmin(self.part(state, "family_losses")))]
            m = r + scale * ((m + h * min(max((best - r) / scale, -MOST_SCALES), MOST_SCALES)) / (1.0 + h))
        members.append(m)
        level2 = self.level2.mix(state, members[-1])
        candidates = np.array([level2, *mixtures, *self.baselines(state)])
        return Answers(np.concatenate(members), self._fill_silent(state, candidates, row.given))

    def _fill_silent(self, state: Vector, candidates: Vector, given: Vector) -> Vector:
        """Return candidates in which a given one that says nothing is what the last mixer makes of all others.

        So its loss in that row is the mixture's own.
        """
        if not np.isnan(given).any():
            return candidates
        place = 1 + len(self.learned) + np.flatnonzero(np.isnan(given))
        trial = state.copy()
        self.last.view(trial, "log_weights")[place] = -MIX_LIMIT
        candidates[place] = self.last.mix(trial, candidates)
        return candidates

    def is_unjudged(self, state: Vector) -> bool:
        """Whether labels came late, and none yet of a row for which something was predicted: see `weigh_unserved`."""
        level2 = self.last.view(state, "log_weights")[0]
        return self.binary and self.last.view(state, "mixer")[0] == 0.0 and bool(level2 <= -MIX_LIMIT)

    def weigh_unserved(self, state: Vector, row: ScaledRow, label: float, first: int) -> None:
        """Let the last mixer of two classes judge what is answered now to a row served before any label was known.

        Where labels are D rows late, D rows are served before the first label, and D more before the first prediction
        is judged. The weights for these come from here: of the base rate, given candidates, and the longest memory of
        each family. Level 2 and "same as last time", which depend on how late labels are, have none. No losses are
        counted, as nothing was predicted, and judging begins with the weights of the start (`Estimator._judge`).
        """
        candidates = np.full(self.last.members, math.nan)  # NaN takes the weight
        for f, family in enumerate(self.learned):
            candidates[1 + f] = self.family_answers(state, family, row, 0.0, first)[-1]
        candidates[1 + len(self.learned) : -2] = row.given
        candidates[-2] = self.baselines(state)[0]
        candidates = self._fill_silent(state, candidates, row.given)
        losses, none = np.zeros(self.last.members), np.empty((0, self.last.members))
        reference_mix.mix_logistic(
            self.last.view(state, "log_weights"),
            self.last.log_prior,
            0.0,
            candidates[None],
            np.array([label]),
            np.empty(1),
            losses,
            none,
        )

    def family_answers(self, state: Vector, family: Family, row: ScaledRow, hint: float, first: int) -> Vector:
        """Return what the members of a family answer, in label units or as log-odds."""
        m, h = family.predict_memories(state, first, self.design(state, family, row), row.elapsed)
        center = float(self.part(state, "numbers")[N.CENTER])
        return m if self.binary else hinted_answers(m, h, hint, center, *self.label_range(state))

    def label_range(self, state: Vector) -> tuple[float, float]:
        """Return the smallest and the largest label so far, spikes cut."""
        mixer = self.last.view(state, "mixer")
        return float(mixer[MixerState.LABEL_MIN]), float(mixer[MixerState.LABEL_MAX])

    def design(self, state: Vector, family: Family, row: ScaledRow) -> Vector:
        """Return a family's row; features that were added after the warm-up come last, so that memories can grow."""
        began, late = np.split(row.x, [self.inputs])
        if family.design == FamilyDesign.LINEAR:
            middle = began
        elif family.design == FamilyDesign.WAVES:
            out = np.empty((1, len(self.waves)))
            fill_waves(self.waves, row.x[None], CLIP, out, 0)
            middle = np.concatenate([began, out[0]])
        elif family.design == FamilyDesign.CONTEXT:
            features = [began, row.differences[: family.spans * self.inputs]] if family.spans >= 0 else []
            middle = np.concatenate([row.labels, *features])
            late = late if family.spans >= 0 else late[:0]
        else:
            middle = expand(self.expanded_inputs(family, row), family.columns(state))
        return np.concatenate([[1.0], middle, late])

    def expanded_inputs(self, family: Family, row: ScaledRow) -> Vector:
        """Return what an expanded family makes hinges and products of."""
        return np.concatenate([row.x[: self.inputs], row.differences[: family.spans * self.inputs], row.labels[:1]])

    def features(self, state: Vector, members: Vector, mixtures: Vector, hint: float, errors: Vector) -> Vector:
        """Return level 2's features, made of the families' answers, the hint and the last errors."""
        singles, at = [np.empty(0)], 0
        for family in self.learned:
            if family.has_singles:  # without the last label as hint: these come second
                singles.append(members[at + family.members - len(family.beta) : at + family.members])
            at += family.members
        if self.binary:
            return classification_features(mixtures, np.concatenate(singles), hint, errors[self.reference])
        numbers, alone = self.part(state, "numbers"), np.concatenate(singles)
        center, scale = float(numbers[N.CENTER]), float(numbers[N.LABEL_SCALE]) or 1.0
        return regression_features(mixtures, self.reference, alone, hint, errors, center, scale)

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
        row: ScaledRow,
        soft: float,
        hint: float,
        errors: Vector,
        served: Answers | None,
        late: float,
        first: int,
        skipped: int,
    ) -> Vector:
        """Let families and level 2 learn a row with the label `soft`; return the errors of the families' mixtures.

        Without answers the row was served before any label was known: only the families' memories learn it.
        """
        numbers = self.part(state, "numbers")
        target = soft if self.binary else soft - float(numbers[N.CENTER])
        at = 0
        for family in self.learned:
            family.learn_memories(state, first, self.design(state, family, row), target, row)
            if served is None:
                family.widen_range(state, soft)
            else:
                family.learn_mixer(state, served.members[at : at + family.members], soft, late)
            at += family.members
        if served is None:
            self.level2.widen_range(state, soft)
            return np.zeros(len(self.families))
        mixtures = served.candidates[1 : 1 + len(self.families)].copy()
        mixtures[len(self.learned) :][np.isnan(row.given)] = mixtures[self.reference]
        misses = self.misses(mixtures, soft)
        if numbers[N.LABEL_SCALE] == 0.0:
            # Labels were constant so far, and so was every mixture.
            numbers[N.LABEL_SCALE] = abs(misses[self.reference])
        self.part(state, "family_losses")[...] += 0.5 * misses**2
        if self.binary:
            target = soft
        else:
            scale = float(numbers[N.LABEL_SCALE]) or 1.0
            target = min(max((soft - float(mixtures[self.reference])) / scale, -MOST_SCALES), MOST_SCALES)
        features = self.features(state, served.members, mixtures, hint, errors)
        self.level2.learn_memories(state, first - skipped, features, target, row)
        self.level2.learn_mixer(state, served.members[at:], soft, late, float(served.candidates[0]))
        return misses

    def misses(self, mixtures: Vector, soft: float) -> Vector:
        """Return label minus prediction, for two classes as probabilities of the positive one."""
        if self.binary:
            return np.array([(soft > 0.0) - sigmoid(one) for one in mixtures.tolist()])
        return np.asarray(soft - mixtures)

"""NumPy twin of an online estimator's stages: memories with their mixer, and level 2's features."""

from __future__ import annotations

import math
from typing import TypedDict

import numpy as np

from tests.twins import mix as reference_mix
from tests.twins import reference
from tests.twins.constants import MOST_SCALES, SURE
from tests.twins.estimator_context import ScaledRow
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import (
    FIRST_SHARE,
    GROWING_SHARE,
    LEAST_PROBABILITY,
    ExpandedColumn,
    FamilyDesign,
    MixerState,
)
from undrift.kernels.layout import State, estimator_lanes, length

Parts = dict[str, tuple[int, int]]
"""Begin and length of each named part of a state vector."""


class MixerSettings(TypedDict):
    """What a mixer is made of."""

    parts: Parts
    name: str
    log_prior: Vector
    share: float
    rule: int
    scale: float


class StageSettings(MixerSettings):
    """What memories and their mixer are made of."""

    dim: int
    beta: Vector
    inverse_curvature: Vector


class FamilySettings(StageSettings):
    """What a family is made of."""

    design: int
    """One of `FamilyDesign`."""
    spans: int
    """In a family with context or expansions: how many running means of the features it sees; -1: labels alone."""
    knots: int
    """In an expanded family: hinges of an input."""
    screened: int
    """In an expanded family: products that are chosen by the residuals of linear memories."""
    order: Vector
    """In an expanded family: its inputs in the order in which products pair them."""


class Stage:
    """Memories over one design and the mixture of their answers; the last mixer is a stage without memories."""

    def __init__(self, binary: bool, mixer: MixerSettings, memories: StageSettings | None = None) -> None:
        self.binary, self.parts, self.name = binary, mixer["parts"], mixer["name"]
        self.log_prior, self.members = mixer["log_prior"], len(mixer["log_prior"])
        self.share, self.rule, self.scale = mixer["share"], mixer["rule"], mixer["scale"]
        self.dim = memories["dim"] if memories else 0
        self.beta = memories["beta"] if memories else np.empty(0)
        self.inverse_curvature = memories["inverse_curvature"] if memories else np.empty(0)

    def view(self, state: Vector, part: str) -> Vector:
        """Return a part of the stage's state."""
        begin, size = self.parts[f"{self.name}.{part}"]
        return state[begin : begin + size]

    def predict_memories(self, state: Vector, first: int, z: Vector, elapsed: float) -> tuple[Vector, Vector]:
        """Return every memory's prediction for a row after `first` rounds and this time, and its leverage.

        Squared loss (discounted VAW): m = z.x, x the leader, and h = z'(beta A)^-1 z. Logistic loss (discounted
        AIOLI): the log-odds, and no leverage.
        """
        m, h = np.zeros((1, len(self.beta))), np.zeros((1, len(self.beta)))
        if self.binary:
            reference.aioli_predict(self._information(state), self.beta, first, z[None], m, elapsed=elapsed)
        else:
            reference.vaw_predict(self._information(state), self.beta, first, z[None], m, h, elapsed=elapsed)
        return m[0], h[0]

    def learn_memories(self, state: Vector, first: int, z: Vector, target: float, row: ScaledRow) -> None:
        """Close a round of every memory; `target` is the label as the memories count it.

        `row` says how often it counts, and the time before it.
        """
        one, two = np.zeros((1, len(self.beta))), np.zeros((1, len(self.beta)))
        information, y = self._information(state), np.array([target])
        both = 1, np.array([row.weight]), np.array([row.elapsed])
        if self.binary:
            reference.aioli_play(information, self.beta, self.inverse_curvature, first, z[None], y, one, two, *both)
        else:
            reference.vaw_play(information, self.beta, first, z[None], y, one, two, *both)

    def mix(self, state: Vector, answers: Vector) -> float:
        """Return the mixture of answers under the weights of now."""
        yhat, log_weights = np.empty(1), self.view(state, "log_weights")
        if self.binary:
            reference_mix.mix_logistic_predict(log_weights, answers[None], yhat)
        else:
            mixer = self.view(state, "mixer")
            reference_mix.mix_squared_predict(log_weights, mixer, self.rule, answers[None], yhat)
        return float(yhat[0])

    def learn_mixer(
        self, state: Vector, answers: Vector, label: float, late: float, served: float | None = None
    ) -> None:
        """Let the mixer judge answers by the label, which came `late` rows after they were served, 1 if promptly.

        The `late` rows served meanwhile could not know the label, so that their losses all come to bear before the
        first of them shows: the mixer learns more slowly, `served` being what it predicted then.
        """
        log_weights, losses = self.view(state, "log_weights"), self.view(state, "losses")
        E, y, yhat, none = answers[None], np.array([label]), np.empty(1), np.empty((0, self.members))
        mixer, late = self.view(state, "mixer"), max(late, 1.0)
        if self.binary:
            share = (FIRST_SHARE / (mixer[0] + 2.0) if self.share == GROWING_SHARE else self.share) / late
            reference_mix.mix_logistic(log_weights, self.log_prior, share, E, y, yhat, losses, none)
            mixer[0] += 1.0  # what the share may have cost is counted in rounds
        else:
            clipped, scale = self.view(state, "clipped_losses"), self.scale
            reference_mix.mix_squared(
                log_weights,
                self.log_prior,
                self.share,
                mixer,
                self.rule,
                scale,
                E,
                y,
                yhat,
                losses,
                clipped,
                none,
                late,
                None if served is None else np.array([served]),
            )

    def widen_range(self, state: Vector, label: float) -> None:
        """Take the label of a row for which nothing was predicted: the mixer only learns that labels reach that far."""
        if self.binary:
            return
        mixer = self.view(state, "mixer")
        first = mixer[MixerState.ROUNDS] == 0.0
        mixer[MixerState.LABEL_MIN] = label if first else min(mixer[MixerState.LABEL_MIN], label)
        mixer[MixerState.LABEL_MAX] = label if first else max(mixer[MixerState.LABEL_MAX], label)
        mixer[MixerState.ROUNDS] = max(mixer[MixerState.ROUNDS], 1.0)

    def restart(self, state: Vector, blank: Vector) -> None:
        """Make memories and mixer what they were before the first round."""
        for part in ("information", "log_weights", "losses", "clipped_losses", "mixer"):
            self.view(state, part)[...] = self.view(blank, part)

    def _information(self, state: Vector) -> State:
        return self.view(state, "information").reshape(-1, length(self.dim), estimator_lanes(len(self.beta)))


class Family(Stage):
    """Memories over rows of the design that the settings name."""

    def __init__(self, binary: bool, settings: FamilySettings) -> None:
        super().__init__(binary, settings, settings)
        self.design, self.spans = settings["design"], settings["spans"]
        self.knots, self.screened, self.order = settings["knots"], settings["screened"], settings["order"]

    @property
    def has_singles(self) -> bool:
        """Whether level 2 hears every memory by itself, beside their mixture."""
        return self.design >= FamilyDesign.CONTEXT

    def columns(self, state: Vector) -> Matrix:
        """Return the table of an expanded family's columns, as a view."""
        return self.view(state, "columns").reshape(-1, len(ExpandedColumn))


class GivenFamily:
    """An answer that comes with the row, made elsewhere: no memories, no mixer."""

    design, members = FamilyDesign.GIVEN, 0


def given_answers(values: Vector, binary: bool) -> Vector:
    """Return answers that came with a row as the stages count them: probabilities of two classes become log-odds."""
    if not binary:
        return values.copy()
    p = [min(max(one, LEAST_PROBABILITY), 1.0 - LEAST_PROBABILITY) for one in values.tolist()]
    return np.array(
        [math.nan if math.isnan(v) else math.log(q) - math.log1p(-q) for v, q in zip(values, p, strict=True)]
    )


def hinted_answers(m: Vector, h: Vector, hint: float, center: float, low: float, high: float) -> Vector:
    """Return what squared-loss memories answer in label units: each with the last label as hint, then each without.

    The memories learn labels minus `center`, so that with b = hint - center
    the first are center + (m + h b) / (1 + h), the others center + m. All are clipped to the range of the labels so
    far, widened by its width to both sides.
    """
    answers, width = np.concatenate([center + (m + h * (hint - center)) / (1.0 + h), center + m]), high - low
    return np.asarray(np.clip(answers, low - width, high + width))


def regression_features(
    mixtures: Vector, reference: int, singles: Vector, hint: float, errors: Vector, center: float, scale: float
) -> Vector:
    """Return level 2's features for numbers, in label scales.

    With r the mixture of the `reference` family, `singles` the memories heard by themselves and `errors` the last error
    of each mixture they are

        (r - center, other mixtures - r, singles - r, hint - r, each mixture + its error - r) / scale

    Differences, so that a constant added to all labels changes nothing. Level 2 learns (y - r) / scale.
    """
    r = mixtures[reference]
    others = np.delete(mixtures, reference) - r
    features = np.concatenate([[r - center], others, singles - r, [hint - r], (mixtures - r) + errors])
    return np.asarray(np.clip(features / scale, -MOST_SCALES, MOST_SCALES))


def classification_features(mixtures: Vector, singles: Vector, hint: float, error: float) -> Vector:
    """Return level 2's features for two classes: log-odds of families, memories and no change, twice the error, 1."""
    return np.asarray(np.clip([*mixtures, *singles, hint, 2.0 * error, 1.0], -SURE, SURE))

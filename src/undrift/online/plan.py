"""What an online estimator is made of, and where each part lies in its state vector; `kernels.Estimator` runs it."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.kernels import layout
from undrift.kernels.definitions import (
    CLIP,
    FIFTHS,
    GROWING_SHARE,
    MOST_COLUMNS,
    NEVER,
    SPREAD_PRIOR,
    WARMUP,
    Despiker,
    EstimatorNumber,
    FamilyDesign,
    IntervalState,
    LabelContext,
    MixerState,
    MixingRule,
    SpreadColumn,
)
from undrift.online.families import plan_families
from undrift.online.intervals import FIRST_CUTS, LEVELS, START, TAILS
from undrift.online.memories import BETAS
from undrift.online.refit_schedule import DEFAULT_TREES, MOST_TREES, ForestPlan
from undrift.streams import Waves

LEVEL2_CURVATURE = 0.5
FAMILY_SHARE, LOGISTIC_SHARE = 0.01, 1e-3
"""Weight that returns to the prior each round: families' mixers for numbers and for two classes; ..."""
LEVEL2_SHARE, LOGISTIC_LEVEL2_SHARE = 1e-3, 1e-4
"""... and level 2's."""
MOST_SPREAD_COLUMNS = 40
"""Columns of the spread model: where the features would make them more, it does without, since a round of it costs
their square."""
WARMUP_PARTS = ("labels", "hints", "label_contexts", "given", "row_weights", "buffer", "known")
"""The last parts of a state: what is kept of the rows of the warm-up."""


class Speed(NamedTuple):
    """What an estimator may spend."""

    waves: int
    """How many random waves; where there are any, there are hinges and products too."""
    columns: int
    """Most columns of a family that sees the features in context; 0: its context is the last labels alone."""
    forests: ForestPlan | None = None
    """The boosted forests that are grown beside the compiled state, if any; never in fleets."""


SPEEDS = {
    "light": Speed(0, 0),
    "fast": Speed(0, MOST_COLUMNS),
    "best": Speed(48, MOST_COLUMNS, DEFAULT_TREES),
    "max": Speed(48, MOST_COLUMNS, MOST_TREES),
}
LEVEL2_PRIOR = 0.9
"""Level 2's weight in the last mixer before the first round; the other candidates share the rest."""
LAST_SHARE = 1e-4
"""The same for the last mixer of numbers, which so comes back from a baseline that a shock made the best for a while;
that of two classes gives back a share that falls with time."""


class StateLayout:
    """Named parts of one float64 vector: where each begins and its shape."""

    def __init__(self) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.starts: dict[str, int] = {}
        self.size = 0

    def add(self, name: str, *shape: int) -> None:
        """Append a part, on a cache line where it is a stack of memories."""
        if len(shape) == 3:
            self.size = -(-self.size // 8) * 8
        self.starts[name], self.shapes[name] = self.size, shape
        self.size += int(np.prod(shape, dtype=np.int64))

    def view(self, state: Vector, name: str) -> Vector:
        """Return a part of a state, in its shape and without copying."""
        start, shape = self.starts[name], self.shapes[name]
        return state[start : start + int(np.prod(shape, dtype=np.int64))].reshape(shape)

    def arrays(self, state: Vector) -> dict[str, NDArray[np.float64]]:
        """Return a state as the arrays of a file: the rows of the warm-up by themselves, all else in one.

        The warm-up's are mostly zeros, which a fleet does not write.
        """
        arrays = {name: self.view(state, name) for name in WARMUP_PARTS if 0 not in self.shapes[name]}
        return {"state": state[: self.starts[WARMUP_PARTS[0]]], **arrays}

    def parts(self) -> dict[str, tuple[int, int]]:
        """Return begin and length of each part, as the kernels want them."""
        return {name: (self.starts[name], int(np.prod(shape, dtype=np.int64))) for name, shape in self.shapes.items()}


class EstimatorPlan:
    """The stages of one kind of estimator over `dim` features, `began` of them from the start."""

    derived_work: ClassVar[bool] = True
    """Whether a save point leaves it alone: it never changes."""

    def __init__(
        self,
        *,
        binary: bool,
        dim: int,
        began: int,
        waves: int,
        seed: int,
        indicators: bool,
        betas: Vector | None,
        expanded: bool = False,
        columns: int = MOST_COLUMNS,
        given: tuple[str, ...] = (),
    ) -> None:
        self.binary, self.dim, self.began, self.warmup = binary, dim, began, WARMUP
        self.quantiles, self.last_share = (0, GROWING_SHARE) if binary else (2 * len(LEVELS) + 1, LAST_SHARE)
        each = 2 if indicators else 1
        self.width, self.inputs = dim * each, began * each
        fits = len(SpreadColumn) + self.width <= min(columns, MOST_SPREAD_COLUMNS)
        self.spread_dim = 0 if binary else len(SpreadColumn) + (self.width if fits else 0)
        self.layout = StateLayout()
        self.waves: Matrix = Waves(self.inputs, waves, seed).table if waves else np.empty((0, 5))
        self.family_plans = plan_families(
            binary, self.width, self.inputs, len(self.waves), seed, betas, expanded=expanded, columns=columns
        )
        self.spans = self.family_plans["context"].span_lengths
        self.baselines = ["base rate", "same as last time"] if binary else ["last value", "running mean"]
        own = {"level 2", *self.family_plans, *self.baselines}
        self.given = [f"column '{name}'" if name in own else name for name in given]
        self.families = [*self.family_plans, *self.given]
        self.candidates = ["level 2", *self.families, *self.baselines]
        singles = sum(len(one.betas) for one in self.family_plans.values() if one.has_singles)
        self.level2_dim = singles + (len(self.families) + 3 if binary else 2 * len(self.families) + 1)
        self.level2_betas = BETAS if betas is None else betas
        self._lay_out()
        self.kernel = self._compile(indicators)

    @property
    def linear(self) -> list[str]:
        """The families that see the features alone."""
        return [name for name, one in self.family_plans.items() if one.design == FamilyDesign.LINEAR]

    def _memories(self, name: str) -> tuple[int, Vector]:
        """Return the columns and the discounts of a stage's memories."""
        if name == "level 2":
            return self.level2_dim, self.level2_betas
        return self.family_plans[name].dim, self.family_plans[name].betas

    @staticmethod
    def _fresh_memories(dim: int, beta: Vector) -> layout.State:
        return layout.fresh(dim, np.ones(len(beta)), layout.estimator_lanes(len(beta)))

    def _lay_out(self) -> None:
        add, d, wide, families = self.layout.add, self.dim, self.width, len(self.families)
        for name in (*self.family_plans, "level 2"):
            dim, beta = self._memories(name)
            add(f"{name}.information", *self._fresh_memories(dim, beta).shape)
        for name in (*self.family_plans, "level 2", "last"):
            for part in ("log_weights", "losses", "clipped_losses"):
                add(f"{name}.{part}", self.members(name))
            add(f"{name}.mixer", len(MixerState))
        for name, family in self.family_plans.items():
            if family.design == FamilyDesign.EXPANDED:
                add(f"{name}.columns", *family.columns.shape)
        add("numbers", len(EstimatorNumber))
        for name in ("value", "seen", "missing"):
            add(name, d)
        for name in ("center", "scale", "limit", "exceeded"):
            add(name, wide)
        add("label_context", len(LabelContext))
        add("means", len(self.spans), self.inputs)
        add("mean_rows", self.inputs)
        add("errors", families)
        add("family_losses", families)
        add("corrections", 2, len(self.candidates))
        add("despiker", len(Despiker))
        add("intervals", 0 if self.binary else len(IntervalState) + 3 * len(LEVELS))
        add("fifths", 0 if self.binary else 3 * FIFTHS - 1)
        add("spread.coefficients", self.spread_dim)
        add("spread.covariance", self.spread_dim, self.spread_dim)
        of_a_row = {"buffer": wide, "known": wide, "label_contexts": len(LabelContext), "given": 2 * len(self.given)}
        of_a_row["row_weights"] = 2  # how often it counts, and the time before it
        for name in WARMUP_PARTS:
            add(name, WARMUP, *([of_a_row[name]] if name in of_a_row else []))
        self.layout.size = -(-self.layout.size // 8) * 8

    def members(self, name: str) -> int:
        """Return how many answers the mixer of a stage hears."""
        if name == "last":
            return len(self.candidates)
        if name == "level 2":
            return len(self.level2_betas)
        if name not in self.family_plans:
            return 0  # an answer made elsewhere
        return len(self.family_plans[name].betas) * (1 if self.binary else 2)

    def prior(self, name: str) -> Vector:
        """Return the logarithms of a mixer's weights before the first round."""
        count = self.members(name)
        weights = np.ones(count)
        if name == "last":
            weights[0], weights[1:] = LEVEL2_PRIOR, (1.0 - LEVEL2_PRIOR) / (count - 1)
        return np.asarray(np.log(weights) - np.log(np.sum(weights)))

    def blank(self) -> Vector:
        """Return the state before the first round."""
        raw = np.zeros(self.layout.size + 8)
        skip = (-raw.ctypes.data // 8) % 8
        state = raw[skip : skip + self.layout.size]
        view = self.layout.view
        for name in (*self.family_plans, "level 2"):
            dim, beta = self._memories(name)
            view(state, f"{name}.information")[...] = self._fresh_memories(dim, beta)
        for name in (*self.family_plans, "level 2", "last"):
            view(state, f"{name}.log_weights")[...] = self.prior(name)
        for name, family in self.family_plans.items():
            if family.design == FamilyDesign.EXPANDED:
                view(state, f"{name}.columns")[...] = family.columns
        view(state, "limit")[...], view(state, "exceeded")[...] = CLIP, NEVER
        if not self.binary:
            view(state, "intervals")[len(IntervalState) : -len(LEVELS)] = np.tile(START, 2)
            view(state, "fifths")[: FIFTHS - 1] = FIRST_CUTS
            view(state, "spread.covariance")[...] = SPREAD_PRIOR * np.eye(self.spread_dim)
        return state

    def _compile(self, indicators: bool) -> kernels.Estimator:
        none, parts = np.empty(0), self.layout.parts()
        kernel = kernels.Estimator(
            binary=self.binary,
            indicators=indicators,
            dim=self.dim,
            began=self.began,
            given=len(self.given),
            waves=np.ascontiguousarray(self.waves),
            spans=self.spans,
            tails=none if self.binary else TAILS,
            blank=self.blank(),
            parts=parts,
        )
        share = LOGISTIC_SHARE if self.binary else FAMILY_SHARE
        for name, one in self.family_plans.items():
            curvature = np.full(len(one.betas), 1.0 / one.curvature) if self.binary else none
            kernel.add_family(
                parts=parts, name=name, dim=one.dim, beta=one.betas, inverse_curvature=curvature,
                log_prior=self.prior(name), share=share, rule=MixingRule.RESIDUAL_SCALE, scale=2.0,
                design=one.design, spans=one.spans, knots=one.knots, screened=one.screened, order=one.order,
            )  # fmt: skip
        kernel.add_given()
        curvature = np.full(len(self.level2_betas), 1.0 / LEVEL2_CURVATURE) if self.binary else none
        kernel.set_level2(
            parts=parts, name="level 2", dim=self.level2_dim, beta=self.level2_betas, inverse_curvature=curvature,
            log_prior=self.prior("level 2"), share=LOGISTIC_LEVEL2_SHARE if self.binary else LEVEL2_SHARE,
            rule=MixingRule.SELF_CONFIDENT, scale=1.0,
        )  # fmt: skip
        kernel.set_last(
            parts=parts, name="last", log_prior=self.prior("last"), share=self.last_share,
            rule=MixingRule.SELF_CONFIDENT, scale=1.0,
        )  # fmt: skip
        return kernel


@lru_cache(maxsize=256)
def make_plan(
    binary: bool,
    dim: int,
    began: int,
    speed: str,
    seed: int,
    indicators: bool,
    betas: tuple[float, ...] | None,
    given: tuple[str, ...] = (),
) -> EstimatorPlan:
    """Return the plan of such estimators; all of one kind share it."""
    return EstimatorPlan(
        binary=binary,
        dim=dim,
        began=began,
        waves=SPEEDS[speed].waves,
        seed=seed,
        indicators=indicators,
        betas=None if betas is None else np.array(betas),
        expanded=SPEEDS[speed].waves > 0,
        columns=SPEEDS[speed].columns,
        given=given,
    )

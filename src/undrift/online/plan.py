"""What an online estimator is made of, and where each part lies in its state vector; `kernels.Estimator` runs it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.kernels import layout
from undrift.kernels.definitions import (
    CLIP,
    GATE_BUCKETS,
    GATE_SHARE,
    GROWING_SHARE,
    MOST_COLUMNS,
    NEVER,
    WARMUP,
    Despiker,
    EstimatorNumber,
    FamilyDesign,
    GateBucket,
    GateNumber,
    GivenLoss,
    GivenMember,
    GivenNumber,
    LabelContext,
    MixerState,
    MixingRule,
    SpreadColumn,
)
from undrift.learners.intervals import LEVELS, TAILS, begin_intervals, interval_parts
from undrift.online.families import plan_families
from undrift.online.memories import BETAS
from undrift.streams import Waves
from undrift.trees.refit import DEFAULT_TREES, MOST_TREES, ForestPlan

LEVEL2_CURVATURE = 0.5
FAMILY_SHARE, ROBUST_SHARE, LOGISTIC_SHARE = 1e-3, 0.01, 1e-3
"""Weight that returns to the prior each round in the families' mixers: of numbers, in the robust arm, of two classes.
Members that forget know nothing of a feature that is rarely present: the more weight returns to them in between, the
worse are the rows in which it is."""
LEVEL2_SHARE, LOGISTIC_LEVEL2_SHARE = 1e-3, 1e-4
"""The same for level 2's mixer, of numbers and of two classes."""
MOST_SPREAD_COLUMNS = 41
"""Columns of the spread model: where the features would make them more, it does without, since a round of it costs
their square."""
WARMUP_PARTS = ("labels", "hints", "label_contexts", "given", "row_weights", "buffer", "known")
"""What is kept of the rows of the warm-up; the last parts of a state."""
SHARED_PARTS = ("labels", "row_weights", "buffer", "known")
"""Those that both arms of a regressor use."""
ROBUST = "robust"
"""Name of the arm that cuts labels which jump too far; names of its parts begin with it."""
GIVEN_MEAN, GIVEN_MEDIAN = "mean of the given", "median of the given"
"""Names of what is made of the predictions that come with a row."""


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
"""Level 2's weight in the prior of the last mixer; the other candidates share the rest."""
LEVEL2_START, BASE_RATE_START = 0.5, 0.4
"""Weights of level 2 and of the base rate before the first round of two classes, the other candidates sharing the rest:
how often a rare class came is hard to beat until level 2 has seen it some times. Later shares return to the prior."""
LAST_SHARE = 1e-4
"""The same for the last mixer of numbers, which so comes back from a baseline that a shock made the best for a while;
that of two classes gives back a share that falls with time."""


class StateLayout:
    """Named parts of one float64 vector: where each begins and its shape."""

    def __init__(self) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.starts: dict[str, int] = {}
        self.size = 0
        self._slices: dict[str, slice] = {}

    def add(self, name: str, *shape: int) -> None:
        """Append a part, on a cache line where it is a stack of memories."""
        if len(shape) == 3:
            self.size = -(-self.size // 8) * 8
        self.starts[name], self.shapes[name] = self.size, shape
        self.size += math.prod(shape)
        self._slices[name] = slice(self.starts[name], self.size)

    def view(self, state: Vector, name: str) -> Vector:
        """Return a part of a state, in its shape and without copying."""
        return state[self._slices[name]].reshape(self.shapes[name])

    def arrays(self, state: Vector) -> dict[str, NDArray[np.float64]]:
        """Return a state as the arrays of a file: the intervals and the rows of the warm-up by themselves, the rest in
        one.

        The warm-up's are mostly zeros, which a fleet does not write.
        """
        kept = [name for name in self.shapes if name.removeprefix(f"{ROBUST}.") in WARMUP_PARTS]
        arrays = {name: self.view(state, name) for name in kept if 0 not in self.shapes[name]}
        begin, end = self.starts["intervals"], self.starts[kept[0]]
        intervals = {"intervals": state[begin:end]} if begin < end else {}
        return {"state": state[:begin], **intervals, **arrays}

    def parts(self) -> dict[str, tuple[int, int]]:
        """Return begin and length of each part, as the kernels want them."""
        return {name: (self.starts[name], math.prod(shape)) for name, shape in self.shapes.items()}


class EstimatorPlan:
    """The stages of one kind of estimator over `dim` features, `began` of them from the start.

    A regressor has two arms: the one described here learns labels as they are; the `robust` one, a plan of its own over
    the same state vector, has the families of a faster estimator and cuts labels that jump too far. `offered` names
    predictions that come with a row and are combined with the own one in the end by `loss`; `given` other columns of
    answers, which are members only.
    """

    derived_work: ClassVar[bool] = True
    """Whether a save point leaves it alone: it never changes."""
    kernel: kernels.Estimator
    """The compiled round."""
    layout: StateLayout
    """Where the parts of the state are, those of both arms."""

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
        offered: tuple[str, ...] = (),
        given: tuple[str, ...] = (),
        loss: float | None = None,
        within: EstimatorPlan | None = None,
    ) -> None:
        self.binary, self.dim, self.began, self.warmup = binary, dim, began, WARMUP
        self.prefix = "" if within is None else f"{ROBUST}."
        has_intervals = not binary and within is None
        self.quantiles, self.last_share = 2 * len(LEVELS) + 1 if has_intervals else 0, LAST_SHARE
        if binary:
            self.last_share = GROWING_SHARE
        each = 2 if indicators else 1
        self.width, self.inputs = dim * each, began * each
        fits = len(SpreadColumn) + self.width <= min(columns, MOST_SPREAD_COLUMNS)
        self.spread_features = self.width if fits else 0
        self.layout = StateLayout() if within is None else within.layout
        self.waves: Matrix = Waves(self.inputs, waves, seed).table if waves else np.empty((0, 5))
        self.family_plans = plan_families(
            binary, self.width, self.inputs, len(self.waves), seed, betas, expanded=expanded, columns=columns
        )
        self.spans = self.family_plans["context"].span_lengths
        self.baselines = ["base rate", "same as last time"] if binary else ["last value", "running mean"]
        own = {"level 2", *self.family_plans, *self.baselines, ROBUST, GIVEN_MEAN, GIVEN_MEDIAN, *given}
        self.offered = [f"column '{name}'" if name in own else name for name in offered]
        self.given = [*self.offered, *given]
        self.loss = loss
        self.families = [*self.family_plans, *self.given]
        self.candidates = ["level 2", *self.families, *self.baselines]
        singles = sum(len(one.betas) for one in self.family_plans.values() if one.has_singles)
        self.level2_dim = singles + (len(self.families) + 3 if binary else 2 * len(self.families) + 1)
        self.level2_betas = BETAS if betas is None else betas
        self.robust: EstimatorPlan | None = None
        if has_intervals:
            self.robust = EstimatorPlan(
                binary=False,
                dim=dim,
                began=began,
                waves=0,
                seed=seed,
                indicators=indicators,
                betas=betas,
                columns=columns,
                within=self,
            )
        self._lay_out()
        if within is None:
            self._lay_out_warmup()
            self._complete(indicators)

    @property
    def arms(self) -> list[EstimatorPlan]:
        """Return this plan and that of the robust arm, if there is one."""
        return [self] if self.robust is None else [self, self.robust]

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
    def _fresh_memories(dim: int, beta: Vector) -> NDArray[np.float64]:
        return layout.fresh(dim, np.ones(len(beta)), layout.estimator_lanes(len(beta)))

    def _lay_out(self) -> None:
        d, wide, families = self.dim, self.width, len(self.families)

        def add(name: str, *shape: int) -> None:
            self.layout.add(self.prefix + name, *shape)

        for name in (*self.family_plans, "level 2"):
            dim, beta = self._memories(name)
            add(f"{name}.information", *self._fresh_memories(dim, beta).shape)
        gate = [] if self.robust is None else ["gate"]
        for name in (*self.family_plans, "level 2", "last", *gate):
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
        if self.prefix:
            add("despiker", len(Despiker))
        if self.robust is not None:
            add("gate.numbers", len(GateNumber))
            add("gate.buckets", GATE_BUCKETS, len(GateBucket))
        if self.offered:
            add("given.numbers", len(GivenNumber))
            add("given.members", len(self.offered) + 3, len(GivenMember))
        for name, shape in interval_parts(self.spread_features).items():
            add(name, *(shape if self.quantiles else (0,) * len(shape)))

    def _lay_out_warmup(self) -> None:
        """Append what is kept of the rows of the warm-up, once for what both arms use."""
        of_a_row = {"buffer": self.width, "known": self.width, "label_contexts": len(LabelContext)}
        of_a_row["row_weights"] = 2  # how often it counts, and the time before it
        for arm in self.arms:
            shapes = {**of_a_row, "given": 2 * len(arm.given)}
            for name in WARMUP_PARTS:
                if arm is self or name not in SHARED_PARTS:
                    self.layout.add(arm.prefix + name, WARMUP, *([shapes[name]] if name in shapes else []))
        self.layout.size = -(-self.layout.size // 8) * 8

    def parts(self) -> dict[str, tuple[int, int]]:
        """Return begin and length of each part of this arm, as the kernels want them."""
        every, robust = self.layout.parts(), f"{ROBUST}."
        own = {
            name.removeprefix(robust): where
            for name, where in every.items()
            if name.startswith(robust) == bool(self.prefix)
        }
        return own | {name: every[name] for name in SHARED_PARTS}

    def view(self, state: Vector, name: str) -> Vector:
        """Return a part of this arm in a state, in its shape and without copying."""
        return self.layout.view(state, name if name in SHARED_PARTS else self.prefix + name)

    def members(self, name: str) -> int:
        """Return how many answers the mixer of a stage has."""
        if name == "last":
            return len(self.candidates)
        if name == "gate":
            return 2
        if name == "level 2":
            return len(self.level2_betas)
        if name not in self.family_plans:
            return 0  # an answer made elsewhere
        return len(self.family_plans[name].betas) * (1 if self.binary else 2)

    def prior(self, name: str) -> Vector:
        """Return the logarithms of the weights that a mixer's shares return to."""
        count = self.members(name)
        weights = np.ones(count)
        if name == "last":
            weights[0], weights[1:] = LEVEL2_PRIOR, (1.0 - LEVEL2_PRIOR) / (count - 1)
        return np.asarray(np.log(weights) - np.log(np.sum(weights)))

    def start(self, name: str) -> Vector:
        """Return the logarithms of a mixer's weights before the first round."""
        if name != "last" or not self.binary:
            return self.prior(name)
        weights = np.full(len(self.candidates), 1.0 - LEVEL2_START - BASE_RATE_START) / (len(self.candidates) - 2)
        weights[[0, -2]] = LEVEL2_START, BASE_RATE_START
        return np.asarray(np.log(weights) - np.log(np.sum(weights)))

    def blank(self) -> Vector:
        """Return the state before the first round."""
        raw = np.zeros(self.layout.size + 8)
        skip = (-raw.ctypes.data // 8) % 8
        state = raw[skip : skip + self.layout.size]
        for arm in self.arms:
            arm._fill_blank(state)
        return state

    def _fill_blank(self, state: Vector) -> None:
        def view(name: str) -> Vector:
            return self.view(state, name)

        for name in (*self.family_plans, "level 2"):
            dim, beta = self._memories(name)
            view(f"{name}.information")[...] = self._fresh_memories(dim, beta)
        for name in (*self.family_plans, "level 2", "last", *([] if self.robust is None else ["gate"])):
            view(f"{name}.log_weights")[...] = self.start(name)
        for name, family in self.family_plans.items():
            if family.design == FamilyDesign.EXPANDED:
                view(f"{name}.columns")[...] = family.columns
        view("limit")[...], view("exceeded")[...] = CLIP, NEVER
        if self.quantiles:
            begin_intervals(view)

    def _complete(self, indicators: bool) -> None:
        """Compile the arms, once all of the state is laid out."""
        blank = self.blank()
        for arm in self.arms:
            arm.kernel = arm._compile(indicators, blank)
        parts = self.parts()
        if self.robust is not None:
            self.kernel.set_robust(
                self.robust.kernel, parts=parts, log_prior=self.prior("gate"), share=GATE_SHARE,
                rule=MixingRule.SELF_CONFIDENT, scale=1.0,
            )  # fmt: skip
        if self.offered:
            loss = GivenLoss.LOGISTIC if self.binary else GivenLoss.SQUARED if self.loss is None else GivenLoss.PINBALL
            self.kernel.set_offered(parts=parts, offered=len(self.offered), loss=loss, level=self.loss or 0.5)

    def _compile(self, indicators: bool, blank: Vector) -> kernels.Estimator:
        none, parts = np.empty(0), self.parts()
        kernel = kernels.Estimator(
            binary=self.binary,
            despiked=bool(self.prefix),
            indicators=indicators,
            dim=self.dim,
            began=self.began,
            given=len(self.given),
            waves=np.ascontiguousarray(self.waves),
            spans=self.spans,
            tails=TAILS if self.quantiles else none,
            blank=blank,
            parts=parts,
        )
        share = LOGISTIC_SHARE if self.binary else ROBUST_SHARE if self.prefix else FAMILY_SHARE
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


class PlanSettings(NamedTuple):
    """What all estimators of one kind have in common, whatever the width of their rows."""

    binary: bool
    """Whether labels are two classes."""
    speed: str
    """One of `SPEEDS`."""
    seed: int = 0
    """Of the random waves and of the pairs that are multiplied."""
    indicators: bool = False
    """Whether each feature has another one that is 1 where its value was missing."""
    betas: tuple[float, ...] | None = None
    """Memories of every stage; None: the usual ones."""
    offered: tuple[str, ...] = ()
    """Names of predictions that come with a row."""
    loss: float | None = None
    """Level of the pinball loss by which those are combined; None: that of the task."""
    trees: bool = True
    """Whether forests are grown, if the speed has some."""

    @property
    def forests(self) -> ForestPlan | None:
        """The forests to be grown beside the compiled state, if any."""
        return SPEEDS[self.speed].forests if self.trees else None


@lru_cache(maxsize=256)
def make_plan(settings: PlanSettings, dim: int, began: int) -> EstimatorPlan:
    """Return the plan of such estimators over `dim` features, `began` of them from the start; all share it."""
    speed = SPEEDS[settings.speed]
    return EstimatorPlan(
        binary=settings.binary,
        dim=dim,
        began=began,
        waves=speed.waves,
        seed=settings.seed,
        indicators=settings.indicators,
        betas=None if settings.betas is None else np.array(settings.betas),
        expanded=speed.waves > 0,
        columns=speed.columns,
        offered=settings.offered,
        given=() if settings.forests is None else settings.forests.names,
        loss=settings.loss,
    )

"""Inspection: a view of what an online estimator has learned: candidates, memories, coefficients, counts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from undrift._internal import thread_lock
from undrift._internal.rows import Rows
from undrift._typing import Matrix, Vector
from undrift.ensemble.class_level import CANDIDATES, ClassLevel
from undrift.ensemble.mixable import Mixable
from undrift.ensemble.mixer import Mixer, weights_of
from undrift.ensemble.squared import SelfConfident
from undrift.errors import InputError
from undrift.kernels import layout
from undrift.kernels.definitions import (
    DISAGREEMENT_STEP,
    FIRST_DISAGREEMENT,
    FIRST_SHARE,
    GATE_SHARE,
    EstimatorNumber,
    GateBucket,
    GateNumber,
    GivenMember,
    IntervalState,
)
from undrift.online.classes import ClassCore
from undrift.online.columns import FeatureColumns
from undrift.online.core import Core
from undrift.online.families import CONTEXT
from undrift.online.labels import ClassLabels
from undrift.online.memories import Line, Memories, Spectrum
from undrift.online.memories import half_life as half_life_of
from undrift.online.plan import GIVEN_MEAN, GIVEN_MEDIAN, ROBUST, EstimatorPlan

if TYPE_CHECKING:
    from undrift.online.estimator import OnlineEstimator

Given = ParamSpec("Given")
Found = TypeVar("Found")

OWN = "own prediction"
"""Name of the model's own prediction where given ones are combined with it by another loss."""
LAST_LABEL = "last label"
"""What level 2 hears beside the families."""
Groups = Sequence[Sequence[str | int]]
"""Features that belong together, by name or place."""


def level2_shares(plan: EstimatorPlan, x: Vector) -> dict[str, float]:
    """Return the coefficient of every family and of the last label, from those of level 2's features.

    These are differences from the reference for numbers, which so has what is missing to 1 (`regression_features`).
    """
    families, names = list(plan.families), [*plan.families, LAST_LABEL]
    singles = [name for name, one in plan.family_plans.items() if one.has_singles for _ in one.betas]
    if plan.binary:
        owners = [*families, *singles, LAST_LABEL]
        return {name: float(sum(c for c, owner in zip(x, owners, strict=False) if owner == name)) for name in names}
    others = [name for name in families if name != CONTEXT]
    owners = [*others, *singles, LAST_LABEL, *families]
    found = {name: float(sum(c for c, owner in zip(x[1:], owners, strict=True) if owner == name)) for name in names}
    found[CONTEXT] += 1.0 + float(x[0] - np.sum(x[1:]))
    return found


class GateUse(NamedTuple):
    """How the gate of a regressor chose between its two arms in one bucket."""

    beyond: float
    """The arms disagreed by more than this many mean |residuals|, ..."""
    rounds: int
    """... in so many labelled rows, ..."""
    raw_weight: float
    """... and the raw arm, which learns labels as they are, has this weight there now; 1/2 before the first row."""


LARGEST_COEFFICIENT = 1e200
"""Size at which coefficients of a line are cut: times a feature they stay numbers."""


class Inspection:
    """The read-only side of an online estimator, as it is now: `model.inspect`."""

    def __init__(self, core: Core | None, columns: FeatureColumns, lock: AbstractContextManager[None]) -> None:
        self._known_core, self._columns, self._shared_lock = core, columns, lock
        self.names, self.dim = columns.names, None if core is None else core.dim

    @property
    def _core(self) -> Core:
        assert self._known_core is not None  # methods ask for `dim` first
        return self._known_core

    @property
    def _common(self) -> Core:
        """A core that knows what is the same for all classes."""
        return self._core

    def _views(self) -> list[Inspection]:
        """Return the views of the cores there are."""
        return [self]

    @property
    def binary(self) -> bool:
        """Whether labels are two classes and predictions log-odds."""
        return self._common.settings.binary

    @property
    def plan(self) -> EstimatorPlan:
        """What the estimator is made of, and where its state keeps it; from the first row on."""
        return self._core.plan

    def part(self, name: str) -> Vector:
        """Return a part of the state by its name in `plan.layout`: the numbers themselves, for reading."""
        return self.plan.layout.view(self._core.state, name)

    def _mixer(self, name: str) -> Mixer:
        """Return the last mixer, or that of the gate's first bucket, as an object over its part of the state."""
        share = GATE_SHARE if name == "gate" else self.plan.last_share
        mixer: Mixer = Mixable() if self.binary else SelfConfident(share=share)
        mixer.begin(np.exp(self.plan.start(name)))
        mixer.arrays().update(
            {
                "log_weights": self.part(f"{name}.log_weights"),
                "losses": self.part(f"{name}.losses"),
                "charged": self.part(f"{name}.clipped_losses"),
                "rate": self.part(f"{name}.mixer"),
            }
        )
        return mixer

    @property
    def candidates(self) -> list[str]:
        """Names of what the prediction is made of: level 2, the families, given ones and the baselines; the robust arm.

        Where predictions are given, their mean and median follow. If those are combined by another loss than that of
        the model, these alone are judged by it: the model's own prediction, the given ones, their mean and median.
        """
        if self.dim is None:
            return []
        plan, combined = self.plan, [GIVEN_MEAN, GIVEN_MEDIAN] if self.plan.offered else []
        if plan.loss is not None:
            return [OWN, *plan.offered, *combined]
        return [*plan.candidates, *([ROBUST] if plan.robust else []), *combined]

    @property
    @thread_lock.hold_shared
    def weights(self) -> Vector:
        """The candidates' weights for the coming round, if its two arms do not disagree; they sum to 1."""
        if self.dim is None:
            return np.zeros(0)
        plan, given = self.plan, self._given_weights()
        if plan.loss is not None:
            return given
        arms = weights_of(self.part("gate.log_weights")) if plan.robust else np.ones(1)
        found = given[0] * np.concatenate([arms[0] * weights_of(self.part("last.log_weights")), arms[1:]])
        found[self._offered_places()] += given[1 : 1 + len(plan.offered)]
        return np.concatenate([found, given[1 + len(plan.offered) :]])

    def _given_weights(self) -> Vector:
        """Return the weights of the own prediction, of given ones, their mean and median: those of `combine_given`."""
        if not self.plan.offered:
            return np.ones(1)
        members = self.part("given.members")
        weights = np.maximum(members[:, GivenMember.REGRET], 0.0)
        np.divide(weights, members[:, GivenMember.SQUARES], out=weights, where=weights > 0.0)
        if not weights.any():
            weights[[0, -2]] = 0.5
        return np.asarray(weights / np.sum(weights))

    @property
    @thread_lock.hold_shared
    def losses(self) -> Vector:
        """Sum of each candidate's losses so far, over the rows for which a label was known before."""
        if self.dim is None:
            return np.zeros(0)
        plan = self.plan
        given = self.part("given.members")[:, GivenMember.LOSS] if plan.offered else np.zeros(0)
        if plan.loss is not None:
            return given.copy()
        robust = self.part("gate.numbers")[[GateNumber.ROBUST_LOSS]] if plan.robust else np.zeros(0)
        found = self.part("last.losses").copy()
        found[self._offered_places()] = given[1 : 1 + len(plan.offered)]  # a missing one counts as the prediction
        return np.concatenate([found, robust, given[1 + len(plan.offered) :]])

    def _offered_places(self) -> slice:
        """Return where the predictions that are combined in the end are among the candidates of the last mixer."""
        at = self.plan.candidates.index(self.plan.baselines[0]) - len(self.plan.given)
        return slice(at, at + len(self.plan.offered))

    @thread_lock.hold_shared
    def cost(self) -> Vector:
        """Return the guarantee: a bound on the losses so far minus those of each candidate, on labels as they came.

        It adds up what the last mixer may lose against each candidate, what the gate may lose against either arm, and
        what the combination with given predictions may lose against the model's own (theory page `gate`). Late labels
        are judged by the weights held when they come; what that changed is known exactly, and added. For two classes
        the share c/(t + 1) that returns to the prior after round t costs c ln(T + 1) in T rounds (`growing-share`), and
        the weights of the start ln(1/.5) for level 2, ln(1/.4) for the base rate.
        """
        if self.dim is None:
            return np.zeros(0)
        plan, given = self.plan, self._given_cost()
        if plan.loss is not None:
            return given
        late = self._core.number(EstimatorNumber.LATE)
        rounds = float(self.part("last.mixer")[0])  # of two classes; other mixers know what their share cost
        share = FIRST_SHARE * math.log1p(rounds) if self.binary else 0.0
        arms = self._gate_cost() if plan.robust else np.zeros(1)
        found = given[0] + np.concatenate([arms[0] + self._mixer("last").cost() + share + late, arms[1:]])
        if plan.offered:  # two bounds; the last mixer takes a missing prediction for its own
            own, members = self._offered_places(), self.part("given.members")[1 : 1 + len(plan.offered)]
            by_mixer = found[own] + self.part("last.losses")[own] - members[:, GivenMember.LOSS]
            found[own] = np.minimum(by_mixer, given[1 : 1 + len(plan.offered)])
        return np.concatenate([found, given[1 + len(plan.offered) :]])

    def _gate_cost(self) -> Vector:
        """Return bounds on the gate's losses minus those of the raw and of the robust arm."""
        n = self.part("gate.numbers")
        shared = n[GateNumber.LATE] + n[GateNumber.GAPS]
        by_arm = n[[GateNumber.RAW_COST, GateNumber.ROBUST_COST]] + n[[GateNumber.RAW_CUT, GateNumber.ROBUST_CUT]]
        return np.asarray(self._mixer("gate").cost() + shared + by_arm)

    def _given_cost(self) -> Vector:
        """Return bounds on the losses minus those of the own prediction, the given ones, their mean and median.

        With the regrets R and their squares S, those of member i are at most sqrt(S_i sum_j max(R_j, 0)^2 / S_j).
        """
        if not self.plan.offered:
            return np.zeros(1)
        members = self.part("given.members")
        regrets, squares = np.maximum(members[:, GivenMember.REGRET], 0.0), members[:, GivenMember.SQUARES]
        potential = np.sum(regrets**2 / np.where(squares > 0.0, squares, 1.0))
        rest = members[:, GivenMember.FORGOTTEN] + members[:, GivenMember.CUT]
        return np.asarray(np.sqrt(squares * potential) + rest)

    @thread_lock.hold_shared
    def arms(self) -> list[GateUse]:
        """Return how the gate chose between the raw and the robust arm, by how far they disagreed.

        Examples
        --------
        >>> import undrift as ud
        >>> rng = np.random.default_rng(0)
        >>> Z = (rng.random((2000, 1)) < 0.03).astype(float)
        >>> model = ud.OnlineRegressor(speed="fast")
        >>> _ = model.play(Z, 100.0 + 200.0 * Z[:, 0] + rng.normal(size=2000))
        >>> [use.raw_weight > 0.9 for use in model.arms() if 20 < use.rounds < 200]  # the rare rows
        [True]
        """
        if self.dim is None or self.plan.robust is None:
            return []
        buckets, found, reach = self.part("gate.buckets"), [], 0.0
        for k, bucket in enumerate(buckets):
            odds = bucket[GateBucket.LOG_ODDS]
            if k == 0:
                odds = np.subtract(*self.part("gate.log_weights"))
            found.append(GateUse(reach, int(bucket[GateBucket.ROUNDS]), float(1.0 / (1.0 + np.exp(-odds)))))
            reach = FIRST_DISAGREEMENT * DISAGREEMENT_STEP**k
        return found

    @thread_lock.hold_shared
    def spectrum(self) -> Spectrum:
        """Return how fast the data forget: the weight of each memory length in the linear families.

        Within a family the weights are those of its mixer, which follows the best memory of the moment; families (one
        for regression, three curvatures for two classes) count by what the last mixer thinks of them. The other
        families, which have fewer memories, and level 2, which forgets how to combine, not what it saw, are left out.
        Of several classes it is the mean over those of each class.
        """
        if self.dim is None:
            return Spectrum(np.zeros(0), np.zeros(0))
        each = []
        for view in self._views():
            found, trust = view._linear()
            weights = np.sum([w * one.weights for w, one in zip(trust, found, strict=True)], axis=0)
            each.append(weights / np.sum(weights))
        return Spectrum(half_life_of(found[0].beta), each[0] if len(each) == 1 else np.mean(each, axis=0))

    @thread_lock.hold_shared
    def line(self) -> Line:
        """Return the coefficients of the linear memory that leads, in the units of the rows.

        For two classes they are log-odds. Waves and level 2 bend and correct what this line says; it is for reading.
        """
        if self.dim is None:
            return Line(np.zeros(0), 0.0, math.inf)
        found, trust = self._linear()
        best = found[int(np.argmax(trust))]
        i = int(np.argmax(best.weights))
        x = layout.leader(best.state, i, best.dim)
        scale, center = self.part("scale"), self.part("center")
        awake = scale > 0.0
        with np.errstate(over="ignore"):  # a feature as small as 1e-320 has coefficients beyond all numbers
            coef = np.where(awake, x[1:] / np.where(awake, scale, 1.0), 0.0)
        coef = np.clip(coef, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
        level = self._core.number(EstimatorNumber.CENTER)
        intercept = float(level + x[0] - np.sum(coef * center))
        return Line(coef, intercept, float(half_life_of(best.beta)[i]), self._line_names(len(coef)))

    def _line_names(self, count: int) -> tuple[str, ...]:
        """Return what the coefficients of the line belong to: features, or features and their indicators in turn."""
        named = self.names or [f"z[{j}]" for j in range(self.dim or 0)]
        pairs = ((name, f"{name} missing") if count > len(named) else (name,) for name in named)
        return tuple(one for pair in pairs for one in pair)

    def shown_names(self) -> str:
        """Return the first names of features, and how many more there are."""
        names = self.names or []
        return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")

    def facts(self) -> dict[str, str]:
        """Return the largest weights and the leading memory, in short."""
        facts = {}
        leading = sorted(zip(self.candidates, self.weights.tolist(), strict=True), key=lambda one: -one[1])[:3]
        facts["weights"] = ", ".join(f"{name} {weight:.0%}" for name, weight in leading if weight >= 0.005)
        spectrum = self.spectrum()
        k = int(np.argmax(spectrum.weights))
        half_life = float(spectrum.half_lives[k])
        leading_memory = f"half-life {half_life:.4g} rounds" if math.isfinite(half_life) else "nothing is forgotten"
        facts["memory"] = f"{leading_memory} (weight {spectrum.weights[k]:.0%})"
        return facts

    @thread_lock.hold_shared
    def effects(self, z: Rows, groups: Groups | None = None) -> Vector:
        """Return how far each feature moves the predictions of some rows.

        It is in label units, log-odds for two classes, and for more of them the probability that goes to other classes.

        That is the mean distance to what would be predicted if the feature had its usual value, its mean in the first
        rows, and all else were the same. It asks the whole model: memories, context, bends, level 2 and the mixer.

        Parameters
        ----------
        z
            The rows.
        groups
            Features that say one thing together, such as the 0 and 1 of a text or the sine and cosine of an hour:
            lists of their names or places, each moved at once and given one number. By default every feature is alone.

        Examples
        --------
        >>> import undrift as ud
        >>> Z = np.random.default_rng(0).choice([-1.0, 1.0], size=(800, 3))
        >>> model = ud.OnlineRegressor(speed="fast")
        >>> _ = model.play(Z, 4.0 * Z[:, 0] + Z[:, 1])
        >>> model.effects(Z, [[0, 1], [2]]).round(0).tolist()
        [4.0, 0.0]
        """
        Z = self._columns.read(z, self.dim, learned=False).values
        if self.dim is None:
            return np.zeros(len(groups or ()))
        usual = self.usual_values()
        together = [[j] for j in range(len(usual))] if groups is None else self._places(groups, len(usual))
        out, as_served = np.zeros(len(together)), self._scores(Z)
        for k, places in enumerate(together if len(Z) else ()):
            other = Z.copy()
            other[:, places] = usual[places]
            out[k] = np.sum(np.abs(self._scores(other) - as_served)) / len(Z)
        return out

    def usual_values(self) -> Vector:
        """Return the usual value of each feature, its mean in the first rows; none before the first row."""
        if self.dim is None:
            return np.zeros(0)
        core = self._common
        return np.array(core.plan.layout.view(core.state, "center")[:: core.plan.width // core.dim])

    def _scores(self, Z: Matrix) -> Any:
        """Return predictions between which distances are measured."""
        return self._core.predict(Z)

    def _places(self, groups: Groups, dim: int) -> list[list[int]]:
        """Return the columns of the features in each group."""
        place: dict[object, int] = {j: j for j in range(dim)} | {name: j for j, name in enumerate(self.names or ())}
        for group in groups:
            wrong = [group] if isinstance(group, str) else [one for one in group if one not in place]
            if wrong:
                known = self.shown_names() if self.names else f"0 to {dim - 1}"
                raise InputError(
                    f"{self._columns.who}: groups must be lists of features ({known}), got {wrong[0]!r}; "
                    "write [[one, another], [third]]"
                )
        return [[place[one] for one in group] for group in groups]

    @thread_lock.hold_shared
    def combination(self) -> dict[str, float]:
        """Return how level 2 adds up the families and the last label now: the coefficients of its leading memory.

        A family counts by its mixture, its corrected mixture and its single memories together. Coefficients may be
        negative: families are alike, and one corrects another.
        """
        if self.dim is None:
            return {}
        dim, weights = self.plan.level2_dim, self.part("level 2.log_weights")
        x = layout.leader(self.part("level 2.information"), int(np.argmax(weights)), dim)
        return level2_shares(self.plan, x)

    def _linear(self) -> tuple[list[Memories], Vector]:
        """Return the linear families' memories, and how far the last mixer trusts each family."""
        found = []
        for name in self.plan.linear:
            weights = np.exp(self.part(f"{name}.log_weights"))
            beta = self.plan.family_plans[name].betas
            each = (weights / np.sum(weights)).reshape(-1, len(beta)).sum(axis=0)  # both hints share a weight
            dim = self.plan.family_plans[name].dim
            found.append(Memories(name, beta, each, self.part(f"{name}.information"), dim))
        trust = self.part("last.log_weights")[[self.plan.candidates.index(one.family) for one in found]]
        return found, np.exp(trust - np.max(trust))

    @property
    @thread_lock.hold_shared
    def floored(self) -> int:
        """Pivots of the linear memories that were kept from vanishing: there, forgetting was suspended."""
        found = [] if self.dim is None else [one for view in self._views() for one in view._linear()[0]]
        return int(
            sum(layout.parts(one.state, i, one.dim)["floored"][0] for one in found for i in range(len(one.beta)))
        )

    @property
    @thread_lock.hold_shared
    def missing(self) -> Vector:
        """How many values of each feature were missing in the rows that came."""
        core = None if self.dim is None else self._common
        return np.zeros(0) if core is None else core.plan.layout.view(core.state, "missing").copy()

    @property
    @thread_lock.hold_shared
    def unlabelled(self) -> int:
        """Rows whose label never came."""
        return 0 if self.dim is None else int(self._common.number(EstimatorNumber.UNLABELLED))

    @thread_lock.hold_shared
    def missing_interval(self) -> str | None:
        """Return why the next row would be served without an interval though labels were learned; None if it has one.

        Labels that are so many rows late that fewer predictions than that were judged tell nothing of the error to
        come.
        """
        if self.dim is None or self.binary or not self._common.rounds:
            return None
        rows = self._core.served - int(self._core.number(EstimatorNumber.LAST_SERIAL))
        judged = int(self.part("intervals")[IntervalState.RESIDUALS])
        if rows < judged:
            return None
        return (
            f"{rows:,} rows came since the last labelled one, and only {judged:,} labels were compared with predictions"
        )


class ClassInspection(Inspection):
    """The same of a classifier of several classes."""

    def __init__(
        self, core: ClassCore, columns: FeatureColumns, lock: AbstractContextManager[None], code: ClassLabels
    ) -> None:
        super().__init__(core.cores[0], columns, lock)
        self._classes, self._code = core, code

    @property
    def _core(self) -> Core:
        raise InputError(
            f"{self._columns.who}: this is known of two classes called 0 and 1, -1 and 1, or False and True; look at "
            "one of its estimators"
        )

    @property
    def _common(self) -> Core:
        return self._classes.cores[0]

    @property
    def _level(self) -> ClassLevel:
        """The softmax level, a fresh one before there is a third class."""
        return self._classes.level or ClassLevel(3, len(self._classes.settings.offered))

    def _views(self) -> list[Inspection]:
        return [Inspection(core, self._columns, self._shared_lock) for core in self._classes.cores]

    @property
    def candidates(self) -> list[str]:
        """Names of what the last mixer chooses from."""
        return [*CANDIDATES, *self._classes.settings.offered]

    @property
    @thread_lock.hold_shared
    def weights(self) -> Vector:
        """The candidates' weights for the coming round; they sum to 1."""
        return self._level.weights

    @property
    @thread_lock.hold_shared
    def losses(self) -> Vector:
        """Sum of each candidate's losses over the rounds that `cost` covers."""
        return self._level.losses

    @thread_lock.hold_shared
    def cost(self) -> Vector:
        """Return a bound on the losses so far minus those of each candidate.

        It covers the rounds since the third class appeared whose class was known when they were served. What is kept
        for classes not seen yet, and what late labels changed, is known exactly, and added.
        """
        return self._level.cost()

    @thread_lock.hold_shared
    def combination(self) -> dict[str, float]:
        """Return the coefficient of each class's log-odds in that class's logit; of two, of the one estimator."""
        if self._classes.level is None:
            return self._views()[0].combination()
        names, found = self._code.seen or [], self._classes.level.combination()
        return {str(names[k]): float(found[k]) for k in self._code.order(self._classes.classes)}

    def facts(self) -> dict[str, str]:
        """Return the classes, in short."""
        names = self._code.seen or []
        return {"classes": ", ".join(str(names[k]) for k in self._code.order(self._classes.classes)[:8])}

    def _scores(self, Z: Matrix) -> Any:
        return 0.5 * np.exp(self._classes.predict(Z))


def reading(
    method: Callable[Concatenate[Inspection, Given], Found],
) -> Callable[Concatenate[OnlineEstimator, Given], Found]:
    """Return a method by which an estimator offers one of its view."""

    @functools.wraps(method)
    def call(self: OnlineEstimator, /, *args: Given.args, **more: Given.kwargs) -> Found:
        return getattr(self.inspect, method.__name__)(*args, **more)  # type: ignore[no-any-return]  # as the method does

    return call


def read(found: Any) -> property:
    """Return a property by which an estimator offers one of its view."""
    name = found.fget.__name__
    return property(lambda self: getattr(self.inspect, name), doc=found.__doc__)

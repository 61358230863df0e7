"""Inspection: what an online estimator tells about itself: candidates, memories, coefficients, counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from undrift import _check
from undrift._internal import thread_lock
from undrift._typing import Matrix, Vector
from undrift.ensemble.mixable import Mixable
from undrift.ensemble.mixer import Mixer
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
)
from undrift.online.families import CONTEXT
from undrift.online.memories import Line, Memories, Spectrum
from undrift.online.memories import half_life as half_life_of
from undrift.online.named_rows import NamedRows
from undrift.online.plan import GIVEN_MEAN, GIVEN_MEDIAN, ROBUST, EstimatorPlan
from undrift.online.rows import Rows

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


class Inspection(NamedRows):
    """The read-only side of an online estimator."""

    _plan: EstimatorPlan
    _state: Vector

    @property
    def plan(self) -> EstimatorPlan:
        """What the estimator is made of, and where its state keeps it; from the first row on."""
        return self._plan

    def part(self, name: str) -> Vector:
        """Return a part of the state by its name in `plan.layout`: the numbers themselves, for reading."""
        return self._plan.layout.view(self._state, name)

    def _mixer(self, name: str) -> Mixer:
        """Return the last mixer, or that of the gate's first bucket, as an object over its part of the state."""
        share = GATE_SHARE if name == "gate" else self._plan.last_share
        mixer: Mixer = Mixable() if self.binary else SelfConfident(share=share)
        mixer.begin(np.exp(self._plan.start(name)))
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
        plan, combined = self._plan, [GIVEN_MEAN, GIVEN_MEDIAN] if self._plan.offered else []
        if plan.loss is not None:
            return [OWN, *plan.offered, *combined]
        return [*plan.candidates, *([ROBUST] if plan.robust else []), *combined]

    @property
    @thread_lock.hold_shared
    def weights(self) -> Vector:
        """The candidates' weights for the coming round, if its two arms do not disagree; they sum to 1."""
        if self.dim is None:
            return np.zeros(0)
        plan, given = self._plan, self._given_weights()
        if plan.loss is not None:
            return given
        arms = self._mixer("gate").weights if plan.robust else np.ones(1)
        found = given[0] * np.concatenate([arms[0] * self._mixer("last").weights, arms[1:]])
        found[self._offered_places()] += given[1 : 1 + len(plan.offered)]
        return np.concatenate([found, given[1 + len(plan.offered) :]])

    def _given_weights(self) -> Vector:
        """Return the weights of the own prediction, of given ones, their mean and median: those of `combine_given`."""
        if not self._plan.offered:
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
        plan = self._plan
        given = self.part("given.members")[:, GivenMember.LOSS] if plan.offered else np.zeros(0)
        if plan.loss is not None:
            return given.copy()
        robust = self.part("gate.numbers")[[GateNumber.ROBUST_LOSS]] if plan.robust else np.zeros(0)
        found = self.part("last.losses").copy()
        found[self._offered_places()] = given[1 : 1 + len(plan.offered)]  # a missing one counts as the prediction
        return np.concatenate([found, robust, given[1 + len(plan.offered) :]])

    def _offered_places(self) -> slice:
        """Return where the predictions that are combined in the end are among the candidates of the last mixer."""
        at = self._plan.candidates.index(self._plan.baselines[0]) - len(self._plan.given)
        return slice(at, at + len(self._plan.offered))

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
        plan, given = self._plan, self._given_cost()
        if plan.loss is not None:
            return given
        late = self._state[plan.layout.starts["numbers"] + EstimatorNumber.LATE]
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
        if not self._plan.offered:
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
        if self.dim is None or self._plan.robust is None:
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
        """
        if self.dim is None:
            return Spectrum(np.zeros(0), np.zeros(0))
        found, trust = self._linear()
        weights = np.sum([w * one.weights for w, one in zip(trust, found, strict=True)], axis=0)
        return Spectrum(half_life_of(found[0].beta), weights / np.sum(weights))

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
        level = self._state[self._plan.layout.starts["numbers"] + EstimatorNumber.CENTER]
        intercept = float(level + x[0] - np.sum(coef * center))
        return Line(coef, intercept, float(half_life_of(best.beta)[i]), self._line_names(len(coef)))

    def _line_names(self, count: int) -> tuple[str, ...]:
        """Return what the coefficients of the line belong to: features, or features and their indicators in turn."""
        named = self.names or [f"z[{j}]" for j in range(self.dim or 0)]
        pairs = ((name, f"{name} missing") if count > len(named) else (name,) for name in named)
        return tuple(one for pair in pairs for one in pair)

    def _facts(self) -> dict[str, str]:
        facts = super()._facts()
        if self.names:
            facts["features"] = self._shown_names()
        return facts | (self._belief_facts() if self.rounds else {})

    def _shown_names(self) -> str:
        """Return the first names of features, and how many more there are."""
        names = self.names or []
        return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")

    def _belief_facts(self) -> dict[str, str]:
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
        """Return how far each feature moves the predictions of some rows, in label units (log-odds for two classes).

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
        Z, _ = self._rows_to_predict(z)
        if self.dim is None:
            return np.zeros(len(groups or ()))
        return self._move_groups(Z, self.part("center")[:: self._plan.width // self.dim], groups, self._predict)

    def _move_groups(
        self, Z: Matrix, usual: Vector, groups: Groups | None, predict: Callable[[Matrix], Vector | Matrix]
    ) -> Vector:
        """Return for each group how far predictions move, on average, if its features have their usual values."""
        together = [[j] for j in range(len(usual))] if groups is None else self._places(groups, len(usual))
        out = np.zeros(len(together))
        as_served = predict(Z)
        for k, places in enumerate(together if len(Z) else ()):
            other = Z.copy()
            other[:, places] = usual[places]
            out[k] = np.sum(np.abs(predict(other) - as_served)) / len(Z)
        return out

    def _places(self, groups: Groups, dim: int) -> list[list[int]]:
        """Return the columns of the features in each group."""
        place: dict[object, int] = {j: j for j in range(dim)} | {name: j for j, name in enumerate(self.names or ())}
        for group in groups:
            wrong = [group] if isinstance(group, str) else [one for one in group if one not in place]
            if wrong:
                known = self._shown_names() if self.names else f"0 to {dim - 1}"
                raise InputError(
                    f"{_check.name_of(self)}: groups must be lists of features ({known}), got {wrong[0]!r}; "
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
        dim, weights = self._plan.level2_dim, self.part("level 2.log_weights")
        x = layout.leader(self.part("level 2.information"), int(np.argmax(weights)), dim)
        return level2_shares(self._plan, x)

    def _linear(self) -> tuple[list[Memories], Vector]:
        """Return the linear families' memories, and how far the last mixer trusts each family."""
        found = []
        for name in self._plan.linear:
            weights = np.exp(self.part(f"{name}.log_weights"))
            beta = self._plan.family_plans[name].betas
            each = (weights / np.sum(weights)).reshape(-1, len(beta)).sum(axis=0)  # both hints share a weight
            dim = self._plan.family_plans[name].dim
            found.append(Memories(name, beta, each, self.part(f"{name}.information"), dim))
        trust = self.part("last.log_weights")[[self._plan.candidates.index(one.family) for one in found]]
        return found, np.exp(trust - np.max(trust))

    @property
    @thread_lock.hold_shared
    def floored(self) -> int:
        """Pivots of the linear memories that were kept from vanishing: there, forgetting was suspended."""
        if self.dim is None:
            return 0
        found = self._linear()[0]
        return int(
            sum(layout.parts(one.state, i, one.dim)["floored"][0] for one in found for i in range(len(one.beta)))
        )

    @property
    @thread_lock.hold_shared
    def missing(self) -> Vector:
        """How many values of each feature were missing in the rows that came."""
        return np.zeros(0) if self.dim is None else self.part("missing").copy()

    @property
    @thread_lock.hold_shared
    def unlabelled(self) -> int:
        """Rows whose label never came."""
        if self.dim is None:
            return 0
        return int(self._state[self._plan.layout.starts["numbers"] + EstimatorNumber.UNLABELLED])

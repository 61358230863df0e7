"""Inspection: what an online estimator tells about itself: candidates, memories, coefficients, counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from undrift import _check, _thread_lock
from undrift._typing import Matrix, Vector
from undrift.ensemble.logistic import Mixable
from undrift.ensemble.mixer import Mixer
from undrift.ensemble.squared import SelfConfident
from undrift.errors import InputError
from undrift.kernels import layout
from undrift.kernels.definitions import FIRST_SHARE, EstimatorNumber
from undrift.online.families import CONTEXT
from undrift.online.memories import Line, Memories, Spectrum
from undrift.online.memories import half_life as half_life_of
from undrift.online.named_rows import NamedRows
from undrift.online.plan import EstimatorPlan
from undrift.online.rows import Rows

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

    def _last_mixer(self) -> Mixer:
        """Return the last mixer as an object over its part of the state."""
        mixer: Mixer = Mixable() if self.binary else SelfConfident(share=self._plan.last_share)
        mixer.begin(np.exp(self._plan.start("last")))
        mixer.arrays().update(
            {
                "log_weights": self.part("last.log_weights"),
                "losses": self.part("last.losses"),
                "charged": self.part("last.clipped_losses"),
                "rate": self.part("last.mixer"),
            }
        )
        return mixer

    @property
    def candidates(self) -> list[str]:
        """Names of what the last mixer chooses from: level 2, the families, the baselines."""
        return [] if self.dim is None else list(self._plan.candidates)

    @property
    @_thread_lock.hold_shared
    def weights(self) -> Vector:
        """The candidates' weights for the coming round; they sum to 1."""
        return np.zeros(0) if self.dim is None else self._last_mixer().weights

    @property
    @_thread_lock.hold_shared
    def losses(self) -> Vector:
        """Sum of each candidate's losses so far, over the rows for which a label was known before."""
        return np.zeros(0) if self.dim is None else self.part("last.losses") + self.part("corrections")[0]

    @_thread_lock.hold_shared
    def cost(self) -> Vector:
        """Return the last mixer's guarantee: a bound on the losses so far minus those of each candidate.

        The mixer learns from softened labels, and late ones are judged by the weights held when they come; what the
        labels as they came and the predictions as they were served changed is known exactly, and added. For two classes
        the share c/(t + 1) that returns to the prior after round t costs c ln(T + 1) in T rounds (`growing-share`), and
        the weights of the start ln(1/.5) for level 2, ln(1/.4) for the base rate.
        """
        if self.dim is None:
            return np.zeros(0)
        late = self._state[self._plan.layout.starts["numbers"] + EstimatorNumber.LATE]
        rounds = float(self.part("last.mixer")[0])  # of two classes; other mixers know what their share cost
        share = FIRST_SHARE * math.log1p(rounds) if self.binary else 0.0
        return np.asarray(self._last_mixer().cost() + share + self.part("corrections")[1] + late)

    @_thread_lock.hold_shared
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

    @_thread_lock.hold_shared
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
        """Return whom the estimator listens to and how long it remembers, in short."""
        facts = {}
        leading = sorted(zip(self.candidates, self.weights.tolist(), strict=True), key=lambda one: -one[1])[:3]
        facts["listens to"] = ", ".join(f"{name} {weight:.0%}" for name, weight in leading if weight >= 0.005)
        spectrum = self.spectrum()
        k = int(np.argmax(spectrum.weights))
        half_life = float(spectrum.half_lives[k])
        leading_memory = f"half-life {half_life:.4g} rounds" if math.isfinite(half_life) else "nothing is forgotten"
        facts["memory"] = f"{leading_memory} (weight {spectrum.weights[k]:.0%})"
        return facts

    @_thread_lock.hold_shared
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

    @_thread_lock.hold_shared
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
    @_thread_lock.hold_shared
    def floored(self) -> int:
        """Pivots of the linear memories that were kept from vanishing: there, forgetting was suspended."""
        if self.dim is None:
            return 0
        found = self._linear()[0]
        return int(
            sum(layout.parts(one.state, i, one.dim)["floored"][0] for one in found for i in range(len(one.beta)))
        )

    @property
    @_thread_lock.hold_shared
    def missing(self) -> Vector:
        """How many values of each feature were missing in the rows that came."""
        return np.zeros(0) if self.dim is None else self.part("missing").copy()

    @property
    @_thread_lock.hold_shared
    def unlabelled(self) -> int:
        """Rows whose label never came."""
        if self.dim is None:
            return 0
        return int(self._state[self._plan.layout.starts["numbers"] + EstimatorNumber.UNLABELLED])

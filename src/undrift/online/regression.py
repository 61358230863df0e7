"""What the regressor is made of: families of memories, and a learner over their predictions."""

from __future__ import annotations

import numpy as np

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.squared import ResidualScale, SelfConfident
from undrift.ensemble.stack import DiscountedLeaders
from undrift.learners import DiscountedVAW, Learner
from undrift.learners.base import Arrays
from undrift.online.memories import BETAS, Memories, fresh_leaders, shifted, widened
from undrift.streams import Waves

WAVE_BETAS = 1.0 - 1.0 / np.array([250.0, 2000.0])
"""Two memories suffice for the many-parameter families, which cannot use short ones."""

LARGEST = 1e60
"""Level 2 sees numbers up to this many label scales."""


class Family:
    """Memories over one set of features, each answered with two hints (last label, leader), all mixed into one."""

    def __init__(self, beta: Vector, dim: int) -> None:
        self.dim, self.leaders = dim, fresh_leaders(beta, dim)
        self.mixer = ResidualScale()
        self.mixer.begin(np.ones(2 * len(beta)))

    def predict(self, Z: Matrix, first: int, last: Vector) -> Vector:
        """Return the mixture's predictions for rows that might come next."""
        return self.mixer.predict(self._answers(*self.leaders.predict(Z, first), last))

    def play(self, Z: Matrix, y: Vector, first: int, last: Vector) -> Vector:
        """Close rounds; return what the mixture said."""
        return self.mixer.play(self._answers(*self.leaders.play(Z, y, first), last), y)

    @staticmethod
    def _answers(m: Matrix, h: Matrix, last: Vector) -> Matrix:
        """(m + h last) / (1 + h), and m, side by side."""
        E = np.empty((len(m), 2 * m.shape[1]))
        kernels.hinted_answers(m, h, last, 1.0, E)
        return E

    def members(self) -> list[Learner]:
        """Return every answer the mixture hears as a fresh learner of its own."""
        beta = self.leaders.beta
        return [DiscountedVAW(beta=float(b), hint=hint) for hint in ("last", "ridge") for b in beta]

    def grow(self, count: int, rounds: int) -> None:
        """Add features at the end that were 0 so far."""
        self.leaders.state = widened(self.leaders.state, self.leaders.beta, self.dim, count, rounds)
        self.dim = self.leaders.dim = self.dim + count

    def restart(self) -> None:
        """Forget every round."""
        self.leaders.restart()
        self.mixer.restart()

    def arrays(self) -> Arrays:
        """Return the state by name."""
        return {"information": self.leaders.state, **self.mixer.arrays()}


class RegressionCore:
    """Linear and wave families, and level 2: discounted VAW whose features are the families' predictions.

    Level 2 sees the families' mixtures, the last label, and the richest family corrected by its last error, all
    divided by the label scale; the richest family is its hint.
    """

    def __init__(self, dim: int, waves: int, seed: int, betas: Vector | None = None) -> None:
        memories = BETAS if betas is None else betas
        self.families = {"linear": Family(memories, 1 + dim)}
        self.waves = None
        if waves:
            self.waves = Waves(dim, waves, seed)
            self.families["waves"] = Family(WAVE_BETAS if betas is None else betas, 1 + dim + waves)
        self.dim = dim
        self.names = ["level 2", *self.families]
        self.level2: DiscountedLeaders = fresh_leaders(memories, len(self.families) + 2)
        self.mixer = SelfConfident(share=1e-3)
        self.mixer.begin(np.ones(len(memories)))
        self.state = np.zeros(3)  # last label, last error of the richest family, label scale (0: none yet)

    def fit_scale(self, y: Vector) -> None:
        """Take the label scale from labels so far; constant ones leave it to the first label that is not 0."""
        self.state[2] = label_scale(y)

    def predict(self, X: Matrix, first: int) -> Matrix:
        """Return what every candidate says about rows that might come next (rows, 1 + families)."""
        last = np.full(len(X), self.state[0])
        rows = self.inputs(X)
        mixtures = [one.predict(Z, first, last) for one, Z in zip(self.families.values(), rows, strict=True)]
        F, scale = self._level2_rows(mixtures, last, np.full(len(X), self.state[1]))
        E = self._answers(*self.level2.predict(F, first), mixtures[-1], scale)
        return np.column_stack([self.mixer.predict(E), *mixtures])

    def play(self, X: Matrix, y: Vector, first: int) -> Matrix:
        """Close rounds; return what every candidate said."""
        last = shifted(self.state[:1], y)
        rows = self.inputs(X)
        mixtures = [one.play(Z, y, first, last) for one, Z in zip(self.families.values(), rows, strict=True)]
        error = y - mixtures[-1]
        if self.state[2] == 0.0:
            moved = y[y != 0.0]
            self.state[2] = abs(moved[0]) if len(moved) else 0.0
        F, scale = self._level2_rows(mixtures, last, shifted(self.state[1:2], error))
        E = self._answers(*self.level2.play(F, np.clip(y / scale, -LARGEST, LARGEST), first), mixtures[-1], scale)
        self.state[:2] = y[-1], error[-1]
        return np.column_stack([self.mixer.play(E, y), *mixtures])

    def inputs(self, X: Matrix) -> list[Matrix]:
        """Return the rows of each family: a constant, the features, the waves, and features that came later."""
        linear = np.empty((len(X), 1 + X.shape[1]))
        linear[:, 0] = 1.0
        linear[:, 1:] = X
        if self.waves is None:
            return [linear]
        began, count = 1 + self.dim, len(self.waves.table)
        bent = np.empty((len(X), linear.shape[1] + count))
        bent[:, :began] = linear[:, :began]
        self.waves.apply(X, bent, began)
        bent[:, began + count :] = linear[:, began:]
        return [linear, bent]

    def _level2_rows(self, mixtures: list[Vector], last: Vector, error: Vector) -> tuple[Matrix, float]:
        scale = float(self.state[2]) or 1.0
        F = np.empty((len(last), len(mixtures) + 2))
        for k, column in enumerate((*mixtures, last, mixtures[-1] + error)):
            np.divide(column, scale, out=F[:, k])
        np.maximum(F, -LARGEST, out=F)
        return np.minimum(F, LARGEST, out=F), scale

    @staticmethod
    def _answers(m: Matrix, h: Matrix, reference: Vector, scale: float) -> Matrix:
        E = np.empty_like(m)
        kernels.hinted_answers(m, h, reference, scale, E)
        return E

    def memories(self) -> list[Memories]:
        """Return the linear family's memories; both hints of one share a weight."""
        family = self.families["linear"]
        weights = family.mixer.weights.reshape(2, -1).sum(axis=0)
        return [Memories("linear", family.leaders.beta, weights, family.leaders.state, family.dim)]

    def grow(self, count: int, rounds: int) -> None:
        """Add input features at the end that were 0 so far; the waves do not see them."""
        for one in self.families.values():
            one.grow(count, rounds)

    def restart(self) -> None:
        """Forget every round."""
        for one in self.families.values():
            one.restart()
        self.level2.restart()
        self.mixer.restart()
        self.state[...] = 0.0

    def arrays(self) -> Arrays:
        """Return the state by name."""
        out: Arrays = {"state": self.state, "level2.information": self.level2.state}
        out |= {f"level2.{name}": a for name, a in self.mixer.arrays().items()}
        for family, one in self.families.items():
            out |= {f"{family}.{name}": a for name, a in one.arrays().items()}
        return out if self.waves is None else {**out, "waves.table": self.waves.table}


def label_scale(y: Vector) -> Vector:
    """Return the standard deviation of labels (rounds,) or of several series (series, rounds), 0 if only rounding."""
    spread = np.std(y, axis=-1)
    return np.where(spread > 1e-12 * np.max(np.abs(y), axis=-1, initial=0.0), spread, 0.0)

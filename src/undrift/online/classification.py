"""What the classifier is made of: families of memories and curvatures, and a learner over their log-odds."""

from __future__ import annotations

import numpy as np

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.logistic import Mixable
from undrift.kernels import layout
from undrift.learners import DiscountedAIOLI, Learner
from undrift.learners.base import Arrays
from undrift.losses import sigmoid
from undrift.online.memories import BETAS, Memories, shifted, widened
from undrift.streams import Waves

CURVATURES = (1.0, 0.2, 0.04)
"""1 / (1 + BR) of the linear families: B is learned, not asked for."""
WAVE_BETAS = 1.0 - 1.0 / np.array([1000.0, 10000.0])
"""A label of two classes says less than a number: the many-parameter family needs longer memories."""
WAVE_CURVATURE = 0.1
LEVEL2_CURVATURE = 0.5
SURE = 13.8
"""Level 2 sees log-odds up to this, a probability of one in a million."""


class LogisticFamily:
    """Discounted AIOLI of one curvature over several memories, mixed."""

    def __init__(self, beta: Vector, curvature: float, dim: int, share: float = 1e-3) -> None:
        self.dim, self.beta, self.curvature = dim, beta, curvature
        self.bend = np.full(len(beta), 1.0 / curvature)
        self.state = layout.fresh(dim, np.ones(len(beta)))
        self.mixer = Mixable(share=share)
        self.mixer.begin(np.ones(len(beta)))

    def predict(self, Z: Matrix, first: int) -> Vector:
        """Return the mixture's log-odds for rows that might come next."""
        E = np.empty((len(Z), len(self.beta)))
        _check.raise_on_status(self, kernels.aioli_predict(self.state, self.beta, first, Z, E), self.dim)
        return self.mixer.predict(E)

    def play(self, Z: Matrix, y: Vector, first: int) -> Vector:
        """Close rounds; return the mixture's log-odds."""
        E, stability = np.empty((len(Z), len(self.beta))), np.empty((len(Z), len(self.beta)))
        status = kernels.aioli_play(self.state, self.beta, self.bend, first, Z, y, E, stability)
        _check.raise_on_status(self, status, self.dim)
        return self.mixer.play(E, y)

    def members(self) -> list[Learner]:
        """Return every answer the mixture hears as a fresh learner of its own."""
        return [DiscountedAIOLI(beta=float(b), curvature=self.curvature) for b in self.beta]

    def grow(self, count: int, rounds: int) -> None:
        """Add features at the end that were 0 so far."""
        self.state = widened(self.state, self.beta, self.dim, count, rounds)
        self.dim += count

    def restart(self) -> None:
        """Forget every round."""
        layout.restart(self.state, self.dim, np.ones(len(self.beta)))
        self.mixer.restart()

    def arrays(self) -> Arrays:
        """Return the state by name."""
        return {"information": self.state, **self.mixer.arrays()}


class ClassificationCore:
    """Linear families of three curvatures, a wave family, and level 2: discounted AIOLI over their log-odds.

    Level 2 also sees a constant, the odds of the label of last time, and the last error of the richest family.
    """

    def __init__(self, dim: int, waves: int, seed: int, betas: Vector | None = None) -> None:
        memories = BETAS if betas is None else betas
        self.families = {f"curvature {k:g}": LogisticFamily(memories, k, 1 + dim) for k in CURVATURES}
        self.waves = None
        if waves:
            self.waves = Waves(dim, waves, seed)
            self.families["waves"] = LogisticFamily(
                WAVE_BETAS if betas is None else betas, WAVE_CURVATURE, 1 + dim + waves
            )
        self.dim = dim
        self.names = ["level 2", *self.families]
        self.level2 = LogisticFamily(memories, LEVEL2_CURVATURE, len(self.families) + 3)
        self.state = np.zeros(4)  # last label, last error, labels that stayed, labels that changed

    def fit_scale(self, y: Vector) -> None:
        """Labels of two classes have no scale."""

    def predict(self, X: Matrix, first: int) -> Matrix:
        """Return the log-odds of every candidate for rows that might come next (rows, 1 + families)."""
        rows = self.inputs(X)
        mixtures = [one.predict(Z, first) for one, Z in zip(self.families.values(), rows, strict=True)]
        label, error, stayed, changed = (np.full(len(X), value) for value in self.state)
        F = self._level2_rows(mixtures, label * np.log((stayed + 1.0) / (changed + 1.0)), error)
        return np.column_stack([self.level2.predict(F, first), *mixtures])

    def play(self, X: Matrix, y: Vector, first: int) -> Matrix:
        """Close rounds; return what every candidate said."""
        rows = self.inputs(X)
        mixtures = [one.play(Z, y, first) for one, Z in zip(self.families.values(), rows, strict=True)]
        odds = no_change(self.state[[0, 2, 3]], y)
        error = (y > 0.0) - sigmoid(mixtures[-1])
        F = self._level2_rows(mixtures, odds, shifted(self.state[1:2], error))
        yhat = self.level2.play(F, y, first)
        before = shifted(self.state[:1], y)
        self.state[2] += np.count_nonzero(before * y > 0.0)
        self.state[3] += np.count_nonzero(before * y < 0.0)
        self.state[:2] = y[-1], error[-1]
        return np.column_stack([yhat, *mixtures])

    def inputs(self, X: Matrix) -> list[Matrix]:
        """Return the rows of each family: a constant, the features, the waves, and features that came later."""
        linear = np.concatenate((np.ones((len(X), 1)), X), axis=1)
        rows = [linear] * len(CURVATURES)
        if self.waves is None:
            return rows
        began, count = 1 + self.dim, len(self.waves.table)
        bent = np.empty((len(X), linear.shape[1] + count))
        bent[:, :began] = linear[:, :began]
        self.waves.apply(X, bent, began)
        bent[:, began + count :] = linear[:, began:]
        return [*rows, bent]

    @staticmethod
    def _level2_rows(mixtures: list[Vector], odds: Vector, error: Vector) -> Matrix:
        F = np.column_stack([*mixtures, odds, 2.0 * error, np.ones(len(odds))])
        return np.clip(F, -SURE, SURE, out=F)

    def memories(self) -> list[Memories]:
        """Return the memories of the linear families."""
        linear = {name: one for name, one in self.families.items() if name != "waves"}
        return [Memories(name, one.beta, one.mixer.weights, one.state, one.dim) for name, one in linear.items()]

    def grow(self, count: int, rounds: int) -> None:
        """Add input features at the end that were 0 so far; the waves do not see them."""
        for one in self.families.values():
            one.grow(count, rounds)

    def restart(self) -> None:
        """Forget every round."""
        for one in (*self.families.values(), self.level2):
            one.restart()
        self.state[...] = 0.0

    def arrays(self) -> Arrays:
        """Return the state by name."""
        out: Arrays = {"state": self.state}
        for name, one in {**self.families, "level2": self.level2}.items():
            out |= {f"{name}.{key}": a for key, a in one.arrays().items()}
        return out if self.waves is None else {**out, "waves.table": self.waves.table}


def no_change(state: Vector, y: Vector) -> Vector:
    """Return the log-odds of "same as last time" before each round, from (last label, stayed, changed)."""
    before = shifted(state[:1], y)
    product = before * y
    stayed = state[1] + np.cumsum(product > 0.0) - (product > 0.0)
    changed = state[2] + np.cumsum(product < 0.0) - (product < 0.0)
    return np.asarray(before * np.log((stayed + 1.0) / (changed + 1.0)))

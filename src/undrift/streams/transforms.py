"""Transforms of rows before a learner sees them: scaling that is not itself drift (`Scaling`), and `Waves`."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Self

import numpy as np

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import CLIP, NEVER


class Waves:
    r"""`count` features $\sqrt{2/n}\,\phi(w_1x_i + w_2x_j + c)$, $\phi$ a parabola-shaped sine.

    Weights are normal, phases uniform, and every input appears equally often in the pairs (i, j): with a few dozen
    features, which inputs are paired matters more than the weights. The wave is made of exact operations only, so it
    is the same on every machine.

    Parameters
    ----------
    dim
        Number of inputs, scaled to a spread of about 1.
    count
        Number of features.
    seed
        Another seed, another set of features.

    Examples
    --------
    >>> import numpy as np
    >>> Waves(3, 48).apply(np.zeros((2, 3))).shape
    (2, 48)
    """

    def __init__(self, dim: int, count: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        turns = [rng.permutation(dim) for _ in range(-(-2 * count // dim))]
        for before, after in pairwise(turns):
            if dim > 2 and before[-1] == after[0]:  # a pair across two turns would meet itself
                after[[0, -1]] = after[[-1, 0]]
        inputs = np.concatenate(turns)[: 2 * count].reshape(count, 2)
        weights = rng.normal(size=(count, 2)) / (2.0 * math.pi * math.sqrt(2.0))
        self.table = np.column_stack([inputs, weights, rng.random(count)])  # i, j, w1, w2, phase; in turns

    @classmethod
    def from_table(cls, table: Matrix) -> Self:
        """Return the waves of a table made before."""
        waves = cls.__new__(cls)
        waves.table = table
        return waves

    def apply(self, X: Matrix, out: Matrix | None = None, first: int = 0) -> Matrix:
        """Return the features of each row; in columns `first`, `first` + 1, ... of `out` if that is given."""
        if out is None:
            out = np.empty((len(X), len(self.table)))
        kernels.waves(self.table, X, CLIP, out, first)
        return out


class Scaling:
    """Centre and scale of every feature, and how far it may go.

    A feature that has been constant so far sleeps: it is 0 until it first leaves its centre, and the size of that
    step becomes its scale. Missing numbers (NaN) come out as 0, the centre. A single spike is cut off at the clip,
    which widens a little; a feature that keeps exceeding it is believed, the clip doubling every round.

    Parameters
    ----------
    dim
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> scaling = Scaling(2)
    >>> scaling.fit(np.array([[1.0, 5.0], [3.0, 5.0]]), np.ones((2, 2)))
    >>> scaling.apply(np.array([[4.0, 5.0], [1e9, 7.0]]), first=2).tolist()
    [[2.0, 0.0], [31.5, 1.0]]
    """

    def __init__(self, dim: int) -> None:
        self.center, self.scale = np.zeros(dim), np.zeros(dim)  # scale 0: asleep
        self.limit, self.exceeded = np.full(dim, CLIP), np.full(dim, NEVER)

    def fit(self, Z: Matrix, known: Matrix) -> None:
        """Take centre and scale from rows of which the entries with `known` = 1 count."""
        self.center[...], self.scale[...] = center_and_scale(Z, known)
        self.limit[...], self.exceeded[...] = CLIP, NEVER

    def apply(self, Z: Matrix, first: int) -> Matrix:
        """Return the next rows scaled, waking features and widening clips on the way; `first` rounds came before."""
        X = np.empty_like(Z)
        kernels.scale_rows(self.center, self.scale, self.limit, self.exceeded, first, Z, X)
        return X

    def grow(self, count: int) -> None:
        """Add sleeping features at the end; they are not centred."""
        fresh = Scaling(count)
        for name, array in self.arrays().items():
            setattr(self, name, np.concatenate((array, fresh.arrays()[name])))

    def arrays(self) -> dict[str, Vector]:
        """Return the state by name, the very arrays."""
        return {"center": self.center, "scale": self.scale, "limit": self.limit, "exceeded": self.exceeded}


def center_and_scale(Z: Matrix, known: Matrix) -> tuple[Vector, Vector]:
    """Return mean and spread of each feature over the entries with `known` = 1; scale 0 where it was constant.

    Z is (rows, features), or several such prefixes (prefixes, rows, features).
    """
    count = np.maximum(np.sum(known, axis=-2), 1.0)
    center = np.sum(Z * known, axis=-2) / count
    away = (Z - center[..., None, :]) * known
    spread = np.sqrt(np.sum(away * away, axis=-2) / count)
    largest = np.max(np.abs(Z) * known, axis=-2, initial=0.0)
    constant = spread <= 1e-12 * largest  # rounding of the mean is not a spread
    first = np.argmax(known, axis=-2)[..., None, :]
    itself = np.take_along_axis(Z, first, axis=-2)[..., 0, :]
    return np.where(constant, itself, center), np.where(constant, 0.0, spread)

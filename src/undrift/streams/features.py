"""Waves: random periodic features of pairs of inputs, so that a linear learner can bend."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Self

import numpy as np

from undrift import kernels
from undrift._typing import Matrix
from undrift.kernels.definitions import CLIP


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

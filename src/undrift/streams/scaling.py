"""Scaling that is not itself drift: fitted on a short prefix, then frozen; only the clip may widen."""

from __future__ import annotations

import numpy as np

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import CLIP, NEVER


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

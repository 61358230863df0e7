"""Scaling that is not itself drift: fitted on a short prefix, then frozen; only the clip may widen."""

from __future__ import annotations

import numpy as np

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.kernels.reference_rows import NEVER

CLIP = 30.0
"""Scaled values are clipped here at first: far outside anything ordinary, far inside what a broken sensor says."""


class Scaling:
    """Centre and scale of every feature, and how far it may go.

    A feature that has been constant so far sleeps: it is 0 until it first leaves its centre, and the size of that
    step becomes its scale. Missing numbers (NaN) come out as 0, the centre. A single spike is cut off at the clip; a
    feature that keeps exceeding it is believed, the clip doubling every round.

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
    [[2.0, 0.0], [30.0, 1.0]]
    """

    def __init__(self, dim: int) -> None:
        self.center, self.scale = np.zeros(dim), np.zeros(dim)  # scale 0: asleep
        self.limit, self.exceeded = np.full(dim, CLIP), np.full(dim, NEVER)

    def fit(self, Z: Matrix, known: Matrix) -> None:
        """Take centre and scale from rows of which the entries with `known` = 1 count."""
        self.center[...], self.scale[...] = center_and_scale(Z, known)
        self.limit[...], self.exceeded[...] = CLIP, NEVER

    def peek(self, Z: Matrix) -> Matrix:
        """Return rows as they would be scaled if each came next; nothing changes."""
        away = np.where(np.isnan(Z), 0.0, Z - self.center)
        with np.errstate(over="ignore"):
            X = away / np.where(self.scale > 0.0, self.scale, np.where(away == 0.0, 1.0, np.abs(away)))
        return np.clip(X, -self.limit, self.limit)

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


class Despiker:
    """Labels as learners should see them: a jump far beyond all jumps so far is cut off, unless it lasts.

    A jump counts in full up to 8 times the mean jump of the prefix it was fitted on (6 deviations, were jumps normal);
    the prefix's own largest tenth count as its 90% quantile, so that a spike among them widens nothing. Beyond, a jump
    is cut there; the bound widens as the clip of `Scaling` does, so that a new level is reached within a few rounds.
    Jumps count from the last label that was not cut: the way back from a spike is none.

    Examples
    --------
    >>> import numpy as np
    >>> labels = Despiker()
    >>> labels.fit(np.array([0.0, 1.0, 0.0, 1.0])).tolist()
    [0.0, 1.0, 0.0, 1.0]
    >>> labels.apply(np.array([0.0, 1e6, 1.0, 1e6, 1e6]), first=4).round(2).tolist()
    [0.0, 8.0, 1.0, 9.4, 9.82]
    """

    FACTOR = 8.0

    def __init__(self) -> None:
        self.state = np.array([0.0, 0.0, NEVER])  # last label not cut, bound on a jump (0: none), round of the last cut

    def fit(self, y: Vector) -> Vector:
        """Take the size of ordinary jumps from the labels so far, and return them, cut."""
        self.state[...] = y[0], self.FACTOR * float(usual_jump(y)), NEVER
        return self.apply(y, 0)

    def apply(self, y: Vector, first: int) -> Vector:
        """Return the next labels, cut; `first` rounds came before."""
        seen = np.empty_like(y)
        kernels.despike_labels(self.state, self.FACTOR, first, y, seen)
        return seen


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


def usual_jump(y: Vector) -> Vector:
    """Return the mean jump of labels (rounds,) or of several series (series, rounds), the largest tenth cut."""
    jumps = np.abs(np.diff(y, axis=-1))
    if not jumps.shape[-1]:
        return np.zeros(y.shape[:-1])
    return np.asarray(np.mean(np.minimum(jumps, _most(jumps)[..., None]), axis=-1))


def _most(jumps: Vector) -> Vector:
    """Return the 90% quantile, to the bit that of `np.quantile`, whose checks take longer than a young key's rounds."""
    ordered = np.sort(jumps, axis=-1)
    last = ordered.shape[-1] - 1
    below = int(0.9 * last)
    part = 0.9 * last - below
    low, high = ordered[..., below], ordered[..., min(below + 1, last)]
    return np.asarray(low + (high - low) * part if part < 0.5 else high - (high - low) * (1.0 - part))

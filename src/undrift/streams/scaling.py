"""Scaling that is not itself drift: fitted on a short prefix, then frozen; only the clip may widen."""

from __future__ import annotations

import numpy as np

from undrift._typing import Matrix, Vector

CLIP = 30.0
"""Scaled values are clipped here at first: far outside anything ordinary, far inside what a broken sensor says."""
CREEP, LEAP = 1.05, 2.0
"""The clip widens by the first factor at a lone outlier, by the second at each one that follows without a pause."""
WIDEST = 1e60
"""... and never beyond this, so that products of two scaled numbers stay ordinary."""
NEVER = -2.0
"""The round of the last outlier, before there was one."""


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
        count = np.maximum(np.sum(known, axis=0), 1.0)
        self.center[...] = np.sum(Z * known, axis=0) / count
        away = (Z - self.center) * known
        spread = np.sqrt(np.sum(away * away, axis=0) / count)
        largest = np.max(np.abs(Z) * known, axis=0, initial=0.0)
        constant = spread <= 1e-12 * largest  # rounding of the mean is not a spread
        first = np.argmax(known, axis=0)
        self.center[constant] = Z[first, np.arange(len(count))][constant]
        self.scale[...] = np.where(constant, 0.0, spread)
        self.limit[...], self.exceeded[...] = CLIP, NEVER

    def peek(self, Z: Matrix) -> Matrix:
        """Return rows as they would be scaled if each came next; nothing changes."""
        away = np.where(np.isnan(Z), 0.0, Z - self.center)
        with np.errstate(over="ignore"):
            X = away / np.where(self.scale > 0.0, self.scale, np.where(away == 0.0, 1.0, np.abs(away)))
        return np.clip(X, -self.limit, self.limit)

    def apply(self, Z: Matrix, first: int) -> Matrix:
        """Return the next rows scaled, waking features and widening clips on the way; `first` rounds came before."""
        away = Z - self.center
        holes = np.isnan(away)
        if holes.any():
            away[holes] = 0.0
        for j in np.flatnonzero(self.scale == 0.0):
            moved = np.flatnonzero(away[:, j])
            if len(moved):
                self.scale[j] = abs(away[moved[0], j])
        with np.errstate(over="ignore"):
            away /= np.where(self.scale > 0.0, self.scale, 1.0)
        beyond = np.abs(away) > self.limit
        for t, j in np.argwhere(beyond) if beyond.any() else ():
            limit, size = float(self.limit[j]), abs(float(away[t, j]))
            if size > limit:  # the clip may have widened since the search
                away[t, j] = np.copysign(limit, away[t, j])
                self.limit[j] = min(limit * (LEAP if self.exceeded[j] == first + t - 1 else CREEP), WIDEST)
                self.exceeded[j] = first + t
        return away

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

    A jump counts in full up to 8 times the mean jump of the prefix it was fitted on (6 deviations, were jumps normal).
    Beyond, it is cut there; the bound widens as the clip of `Scaling` does, so that a new level is reached within a
    few rounds.

    Examples
    --------
    >>> import numpy as np
    >>> labels = Despiker()
    >>> labels.fit(np.array([0.0, 1.0, 0.0, 1.0]))
    >>> labels.apply(np.array([0.0, 1e6, 1.0, 1e6, 1e6]), first=4).round(2).tolist()
    [0.0, 8.0, 1.0, 9.4, 18.22]
    """

    FACTOR = 8.0

    def __init__(self) -> None:
        self.state = np.array([0.0, 0.0, NEVER])  # last label, bound on a jump (0: none yet), round of the last cut

    def fit(self, y: Vector) -> None:
        """Take the size of ordinary jumps from labels so far."""
        jumps = np.abs(np.diff(y))
        self.state[...] = y[-1], self.FACTOR * float(np.sum(jumps)) / max(1, len(jumps)), NEVER

    def apply(self, y: Vector, first: int) -> Vector:
        """Return the next labels, cut; `first` rounds came before."""
        seen, last, a = y.copy(), float(self.state[0]), 0
        while a < len(y):
            before = np.concatenate(([last], seen[a:-1]))
            wild = np.flatnonzero(np.abs(seen[a:] - before) > self.state[1])
            if not len(wild):
                break
            at = a + int(wild[0])
            self._cut(seen, at, float(before[wild[0]]), first + at)
            last, a = float(seen[at]), at + 1
        if len(seen):
            self.state[0] = seen[-1]
        return seen

    def _cut(self, seen: Vector, at: int, before: float, now: int) -> None:
        jump, bound = float(seen[at]) - before, float(self.state[1])
        if bound == 0.0:  # the first jump ever sets the measure
            self.state[1] = self.FACTOR * abs(jump)
            return
        seen[at] = before + np.copysign(bound, jump)
        self.state[1] = bound * (LEAP if self.state[2] == now - 1 else CREEP)
        self.state[2] = now

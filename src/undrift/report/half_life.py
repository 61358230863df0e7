"""The half-life that the weights of all memory lengths amount to, and when it changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector

NOTABLE_SHARE = 0.35
"""A change is worth naming when this share of the weight moved to other memory lengths."""
JUMP_SHARE = 0.5
"""Where at least this share moved to shorter memories at once, the data themselves changed there."""
WINDOW_SHARE = 1 / 24
"""Snapshots that are averaged before and after a moment, as a share of all: fewer than memory needs to recover."""
MOST_CHANGES = 4
"""Changes named in a report, at most; jumps come before other changes."""


class MemoryChange(NamedTuple):
    """A moment at which the learned memory changed."""

    round: int
    """After which round."""
    before: float
    """Half-life before, in rounds."""
    after: float
    """Half-life after."""
    moved: float
    """Share of the weight that moved."""

    @property
    def jump(self) -> bool:
        """Whether memory shortened at once: the past no longer told the present."""
        return self.after < self.before and self.moved >= JUMP_SHARE


def effective_half_life(half_lives: Vector, weights: Matrix) -> Vector:
    """Return the half-life of the mixture, ln 2 / sum of w (-ln beta): infinite when all weight never forgets.

    >>> effective_half_life(np.array([10.0, np.inf]), np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])).tolist()
    [10.0, 20.0, inf]
    """
    forgetting = weights @ (1.0 / half_lives)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / forgetting)


def mean_half_life(half_lives: Vector, weights: Matrix) -> float:
    """Return the half-life of the weights averaged over these snapshots."""
    return float(effective_half_life(half_lives, np.mean(weights, axis=0)[None])[0])


def find_changes(rounds: Vector, half_lives: Vector, weights: Matrix) -> list[MemoryChange]:
    """Return the most notable changes in order of time: where a window before and one after differ most.

    >>> w = np.repeat([[1.0, 0.0], [0.0, 1.0]], 50, axis=0)
    >>> [(c.round, c.before, c.after) for c in find_changes(np.arange(1.0, 101.0), np.array([10.0, 100.0]), w)]
    [(50, 10.0, 100.0)]
    """
    K = len(weights)
    width = max(2, int(K * WINDOW_SHARE))
    if 2 * width > K:
        return []
    sums = np.concatenate((np.zeros((1, weights.shape[1])), np.cumsum(weights, axis=0)))
    at = np.arange(width, K - width + 1)
    before, after = (sums[at] - sums[at - width]) / width, (sums[at + width] - sums[at]) / width
    moved = 0.5 * np.sum(np.abs(after - before), axis=1)
    old, new = effective_half_life(half_lives, before), effective_half_life(half_lives, after)
    free = (moved >= NOTABLE_SHARE) & ~_within_factor_two(old, new)
    changes: list[MemoryChange] = []
    while free.any():
        k = int(np.argmax(np.where(free, moved, -1.0)))
        changes.append(MemoryChange(int(rounds[at[k] - 1]), float(old[k]), float(new[k]), float(moved[k])))
        free[max(0, k - width) : k + width + 1] = False  # windows that overlap this change show it again
    changes.sort(key=lambda change: not change.jump)  # a stable sort: what moved most stays in front
    return sorted(changes[:MOST_CHANGES])


def _within_factor_two(a: Vector, b: Vector) -> NDArray[np.bool_]:
    return np.asarray((np.maximum(a, b) < 2.0 * np.minimum(a, b)) | (a == b))  # equal also where both are infinite

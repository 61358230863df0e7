"""The half-life that the weights of all memory lengths amount to, and when it changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from undrift._typing import Matrix, Vector

NOTABLE_SHARE = 0.35
"""A change is worth naming when this share of the weight moved to other memory lengths."""
JUMP_SHARE = 0.5
"""Where at least this share moved to shorter memories at once, the data themselves changed there."""
WINDOW_SHARE = 1 / 24
"""Snapshots that are averaged before and after a moment, as a share of all: fewer than memory needs to recover."""
LATE_SHARE = 0.1
"""The share of the snapshots, the last ones, that tell how long memory was lately ..."""
LATE_FACTOR = 1.5
"""... which is worth telling where it differs from the run's average by more than this factor."""
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
    jump: bool
    """Whether memory shortened at once: the past no longer told the present."""


class MemoryLength(NamedTuple):
    """How long the memory of a run was."""

    average: float
    """Half-life of the weights averaged over the run."""
    late: float | None
    """That of its last part; None where it is about the same."""

    def words(self, text: Callable[[float], str]) -> str:
        """Return both in words, each half-life put into words by `text`."""
        return text(self.average) + ("" if self.late is None else f" on average, {text(self.late)} lately")


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


def memory_length(half_lives: Vector, weights: Matrix) -> MemoryLength:
    """Return how long the memory was over all snapshots and, where that differs, over the last ones.

    >>> weights = np.repeat([[1.0, 0.0], [0.0, 1.0]], [90, 10], axis=0)
    >>> memory_length(np.array([10.0, 100.0]), weights).words("{:.0f} rows".format)
    '11 rows on average, 100 rows lately'
    >>> memory_length(np.array([10.0, 100.0]), weights[:90]).words("{:.0f} rows".format)
    '10 rows'
    """
    average = mean_half_life(half_lives, weights)
    late = mean_half_life(half_lives, weights[-math.ceil(LATE_SHARE * len(weights)) :])
    differ = average != late and max(average, late) > LATE_FACTOR * min(average, late)
    return MemoryLength(average, late if differ else None)


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
    alike = (np.maximum(old, new) < 2.0 * np.minimum(old, new)) | (old == new)  # equal also where both are infinite
    free = (moved >= NOTABLE_SHARE) & ~alike
    jump = (new < old) & (moved >= JUMP_SHARE)
    rank = moved + jump  # a recovery right behind a jump may move as much
    changes: list[MemoryChange] = []
    while free.any() and len(changes) < MOST_CHANGES:
        k = int(np.argmax(np.where(free, rank, -1.0)))
        lengths = float(old[k]), float(new[k])
        changes.append(MemoryChange(int(rounds[at[k] - 1]), *lengths, float(moved[k]), bool(jump[k])))
        free[max(0, k - width) : k + width + 1] = False  # windows that overlap this change show it again
    return sorted(changes)

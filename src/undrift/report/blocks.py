"""Blocks of consecutive rounds, which reduce a curve of ten million rounds to a thousand points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector


class Blocks(NamedTuple):
    """Consecutive rounds cut into blocks of one size, the last perhaps shorter.

    Examples
    --------
    >>> blocks = cut_blocks(10, most=4)
    >>> blocks.size, blocks.last.tolist()
    (3, [3, 6, 9, 10])
    >>> blocks.mean(np.arange(10.0)).tolist()
    [1.0, 4.0, 7.0, 9.0]
    """

    rounds: int
    """How many rounds there are."""
    size: int
    """Rounds in a block."""

    @property
    def starts(self) -> NDArray[np.int64]:
        """Index of each block's first round."""
        return np.arange(0, self.rounds, self.size, dtype=np.int64)

    @property
    def last(self) -> NDArray[np.int64]:
        """Number of each block's last round, from 1."""
        return np.append(self.starts[1:], self.rounds)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rounds in each block."""
        return np.diff(self.starts, append=self.rounds)

    def sum(self, values: Vector) -> Vector:
        """Return the sum of each block."""
        return np.asarray(np.add.reduceat(values, self.starts, dtype=np.float64))

    def mean(self, values: Vector) -> Vector:
        """Return the mean of each block."""
        return self.sum(values) / self.counts

    def column_means(self, values: Matrix) -> Matrix:
        """Return the mean of each block for every column."""
        return np.column_stack([self.mean(column) for column in values.T])

    def minimum(self, values: Vector) -> Vector:
        """Return the smallest value of each block."""
        return np.asarray(np.minimum.reduceat(values, self.starts))

    def maximum(self, values: Vector) -> Vector:
        """Return the largest value of each block."""
        return np.asarray(np.maximum.reduceat(values, self.starts))

    def window(self, rounds: int) -> int:
        """Return how many blocks come closest to this many rounds, at least one."""
        return max(1, round(rounds / self.size))

    def window_rounds(self, window: int) -> int:
        """Return how many rounds a window of so many blocks covers at most."""
        return min(window * self.size, self.rounds)

    def rolling_mean(self, sums: Vector, window: int, counts: Vector | None = None) -> Vector:
        """Return the mean over the last `window` blocks at the end of each, from the blocks' sums; fewer at the start.

        `counts` are the rounds of each block that count, all by default; where none does there is no mean (NaN). Every
        window is summed afresh. A difference of running sums would carry the rounding error of an early spike
        through the rest of the curve.
        """
        ones = np.ones(min(window, len(sums)))
        each = self.counts.astype(np.float64) if counts is None else counts
        rounds = np.convolve(each, ones)[: len(sums)]
        return np.where(rounds > 0.0, np.convolve(sums, ones)[: len(sums)] / np.maximum(rounds, 1.0), np.nan)


def cut_blocks(rounds: int, most: int) -> Blocks:
    """Cut rounds into at most `most` blocks."""
    return Blocks(rounds, max(1, -(-rounds // most)))

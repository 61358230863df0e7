"""ForestRefit: both forests of an estimator fitted again, or refreshed, a piece of work at a time."""

from __future__ import annotations

import mmap
from typing import ClassVar, NamedTuple

import numpy as np

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import TreeNode
from undrift.online.row_buffer import RowBuffer
from undrift.trees.growth import ALL_AT_ONCE, Forest, GrowthOptions, TreeGrowth

TREES, NEW_TREES = 100, 8
"""Trees of a forest that is fitted, and those that a refresh adds."""
LEAVES, LEARNING_RATE, LEAF_WEIGHT, COLUMNS = 31, 0.1, 20.0, 0.5
"""How trees grow; see `BoostedTrees`."""
COPIED, COPY_COST = 64, 8
"""Rows copied at a time, and what a number of them costs in cells of histograms: its page of memory is new."""


class ForestPair(NamedTuple):
    """The two forests."""

    plain: Forest
    """Over the row and the last label."""
    context: Forest
    """Over the row in context."""


def make_room(rows: int, width: int) -> Matrix:
    """Return an array in small pages of memory: NumPy asks for large ones, and a first write to one takes long."""
    return np.frombuffer(mmap.mmap(-1, 8 * rows * width), np.float64).reshape(rows, width)


class ForestRefit:
    """Work on two forests over the rows [begin, end) of a buffer, which must keep them until it is done.

    The forests do not depend on how the work is cut into steps.
    """

    derived_work: ClassVar[bool] = True
    """Whether it can be begun again from the rows and the schedule."""

    def __init__(
        self,
        buffer: RowBuffer,
        begin: int,
        end: int,
        plain: list[int],
        old: ForestPair | None,
        *,
        binary: bool,
        seed: int,
    ) -> None:
        self._buffer, self._begin, self._end, self._at = buffer, begin, end, begin
        self._plain, self._old, self._binary = plain, old, binary
        self._options = GrowthOptions(binary, LEAVES, COLUMNS, LEARNING_RATE, LEAF_WEIGHT, seed)
        self._X: list[Matrix] = [make_room(end - begin, width) for width in (len(plain), buffer.width)]
        self._y: Vector = np.empty(end - begin)
        self._growths: list[TreeGrowth] = []
        self._done: list[Forest] = []
        self._left = sum(self._estimate(X.shape[1], old[k] if old else None) for k, X in enumerate(self._X))

    def _estimate(self, width: int, old: Forest | None) -> int:
        """Return about how many cells growing a forest takes: bins, scores, gradients, histograms of balanced trees."""
        rows, columns = self._end - self._begin, -(-width // 2)
        before = 0 if old is None else len(old.trees)
        tree = (14 + 2.5 * columns) * rows + 6000 * columns
        start = 64 * min(rows, 4096) * width + (COPY_COST + 16) * rows * width + 16 * rows * before
        return int(start + (TREES if old is None else NEW_TREES) * tree)

    def finish(self) -> ForestPair:
        """Do what is left and return the forests."""
        while not self.step(ALL_AT_ONCE):
            pass
        return ForestPair(*self._done)

    def work_part(self, rows: int, of: int) -> None:
        """Do the part of what is left that falls to `rows` of the `of` rows until it must be done."""
        budget = self._left * rows // of
        self._left -= budget
        if budget > 0:
            self.step(budget)

    def step(self, budget: int) -> bool:
        """Work until about so many cells are used up; return whether all is done."""
        while budget > 0 and self._at < self._end:
            budget -= self._copy()
        if budget <= 0:
            return False
        if not self._growths:
            self._start()
        if len(self._done) < len(self._growths):
            self._growths[len(self._done)].step(budget)
        return len(self._done) == len(self._growths)

    def _copy(self) -> int:
        """Copy some rows, those without context too; return how many cells."""
        end = min(self._end, self._at + COPIED)
        rows, part = end - self._at, slice(self._at - self._begin, end - self._begin)
        self._buffer.read(self._at, end, self._X[1][part], self._y[part])
        self._X[0][part] = self._X[1][part, self._plain]
        self._at = end
        return COPY_COST * rows * (len(self._plain) + self._buffer.width)

    def _start(self) -> None:
        if self._binary:
            y = (self._y > 0.0).astype(np.float64)
        else:
            y = np.empty_like(self._y)
            kernels.learned_labels(self._y, y)  # spikes cut
        empty = np.empty((0, 2 * LEAVES - 1, len(TreeNode)))
        for k, X in enumerate(self._X):
            old = self._old[k] if self._old else None
            start = old or Forest(X.shape[1], 0.0, empty, (0.0, 0.0), False)
            rows = X if start.dim == X.shape[1] else np.ascontiguousarray(X[:, : start.dim])  # features came since
            count = NEW_TREES if old else TREES
            self._growths.append(TreeGrowth(self._options, start, (rows, y, np.empty(0)), count, self._done.append))

"""Refits of forests: when they are due, and the work itself, a piece at a time.

`RefitSchedule` says at which counts of labelled rows forests are fitted, refreshed, and begin to answer. `ForestRefit`
fits them on the rows of a `RowBuffer`: the last labelled rows, kept in blocks so that nothing is ever moved.
"""

from __future__ import annotations

import math
import mmap
from enum import IntEnum
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import WARMUP, TreeNode
from undrift.learners.base import MOST_FEATURES
from undrift.trees.boosted import ALL_AT_ONCE, Forest, GrowthOptions, TreeGrowth

BLOCK = 1024
"""Rows of a block."""
TREES, NEW_TREES = 100, 8
"""Trees of a forest that is fitted, and those that a refresh adds."""
LEAVES, LEARNING_RATE, LEAF_WEIGHT, COLUMNS = 31, 0.1, 20.0, 0.5
"""How trees grow; see `BoostedTrees`."""
TRIMMED, TRIMMED_PART = 10, 1000
"""So many labels, and one in so many more, are trimmed at either end before a fit; never more than a twentieth."""
COPIED, COPY_COST = 64, 8
"""Rows copied at a time, and what a number of them costs in cells of histograms: its page of memory is new."""
FIRST_FIT = WARMUP
"""Labelled rows at the first fit."""
REFRESH_SPAN = 100
"""Rows until the trees of a refresh answer."""
LEAST_SPAN, SPAN_PARTS = 96, 32
"""Rows until the trees of a fit answer: so many at least, else this part of the rows it is fitted on."""
NEVER = 2**53
"""The count of a fit that never comes."""


class ForestPlan(NamedTuple):
    """Which forests are grown beside an estimator, what they see, and how often they are fitted."""

    names: tuple[str, ...]
    """What they are called among the candidates: "trees" sees the row and the last label, "trees in context" all."""
    context: int
    """How many features have their distances from running means in a row in context."""
    growth: int
    """The next fit is due when the rows have grown by this part of them: 1 doubles them, 2 adds a half."""
    window_parts: int
    """When the window is full, a fit is due whenever this part of it has been replaced."""
    refresh: int
    """Rows between refreshes; 0: none."""
    most_numbers: int
    """How many numbers the rows kept for fits may hold."""
    most_features: int
    """Rows with more features have no trees, whose cost grows with these."""


DEFAULT_TREES = ForestPlan(
    ("trees",), context=0, growth=2, window_parts=1, refresh=0, most_numbers=2**19, most_features=40
)
"""Up to 40 features an estimator with these trees takes two to four times as long as without."""
MOST_TREES = ForestPlan(
    ("trees", "trees in context"),
    context=24,
    growth=2,
    window_parts=4,
    refresh=1_000,
    most_numbers=2**22,
    most_features=MOST_FEATURES,
)


class Work(IntEnum):
    """What is being worked on."""

    NOTHING = 0
    FIT = 1
    REFRESH = 2


class RefitSchedule:
    """What is being worked on, when it began and when it ends, and when the next fit is due."""

    def __init__(self, plan: ForestPlan, window: int) -> None:
        self._plan, self._window = plan, window
        self.next_fit = FIRST_FIT if window else NEVER
        self.work, self.start, self.swap = Work.NOTHING, 0, 0

    def rows_until_change(self, count: int) -> int:
        """Return how many rows can be labelled until something begins or ends."""
        ends = [self.next_fit]
        if self.work:
            ends.append(self.swap)
        if self._plan.refresh:
            ends.append(count - count % self._plan.refresh + self._plan.refresh)
        return min(ends) - count

    def is_due(self, count: int) -> bool:
        """Whether the work is to be done by now."""
        return bool(self.work) and count == self.swap

    def close(self) -> None:
        """Note that the work is done, or given up."""
        self.work, self.start, self.swap = Work.NOTHING, 0, 0

    def begin_if_due(self, count: int, fitted: bool) -> bool:
        """Begin a fit, for which unfinished work is given up, or else a refresh; return whether one was due."""
        plan, window = self._plan, self._window
        if count == self.next_fit:
            self.next_fit += count // plan.growth if count < window else window // plan.window_parts
            span = max(LEAST_SPAN, min(count, window) // SPAN_PARTS)
            self.work, self.start, self.swap = Work.FIT, count, count + span
            return True
        if not plan.refresh or count % plan.refresh or not fitted or self.work:
            return False
        self.work, self.start, self.swap = Work.REFRESH, count, count + REFRESH_SPAN
        return True

    def numbers(self) -> Vector:
        """Return the schedule as numbers of a file."""
        return np.array([self.next_fit, self.work, self.start, self.swap], np.float64)

    def load(self, numbers: Vector, count: int, fitted: bool) -> None:
        """Take over what `numbers` returned; refuse what cannot be a schedule."""
        whole = [int(one) for one in numbers]
        if len(whole) != 4 or whole != numbers.tolist() or whole[0] <= count:
            raise ValueError
        work, start, swap = Work(whole[1]), whole[2], whole[3]
        runs = 0 < start <= count < swap if work else start == swap == 0
        if not runs or (work == Work.REFRESH and not fitted) or (whole[0] == NEVER) != (not self._window):
            raise ValueError
        self.next_fit, self.work, self.start, self.swap = whole[0], work, start, swap


class RowBuffer:
    """Rows, labels and weights by the row's number, from 0 on; old ones are forgotten block by block."""

    fixed_values: ClassVar[tuple[str, ...]] = ("_blocks",)
    """What a save point need not copy: rows up to `count` do not change, and others are not read."""

    def __init__(self, width: int, first: int = 0) -> None:
        self.width, self.first = width, first
        self.total = np.array([first], np.int64)  # in an array, as compiled single rows count too
        self._blocks: dict[int, tuple[Matrix, Vector, Vector]] = {}

    @property
    def count(self) -> int:
        """Rows so far, with those that are not kept any more."""
        return int(self.total[0])

    def block_of_next(self) -> tuple[Matrix, Vector, Vector]:
        """Return the block that the next row belongs to."""
        block = self.count // BLOCK
        if block not in self._blocks:
            self._blocks[block] = np.empty((BLOCK, self.width)), np.empty(BLOCK), np.empty(BLOCK)
        return self._blocks[block]

    def append(self, X: Matrix, y: Vector, weight: Vector) -> None:
        """Keep rows that were labelled now."""
        done = 0
        while done < len(y):
            at = self.count % BLOCK
            more = min(BLOCK - at, len(y) - done)
            for kept, given in zip(self.block_of_next(), (X, y, weight), strict=True):
                kept[at : at + more] = given[done : done + more]
            self.total += more
            done += more

    def read(self, begin: int, end: int, X: Matrix, y: Vector, weight: Vector) -> None:
        """Copy the rows with numbers in [begin, end), their labels and weights."""
        done = 0
        while begin < end:
            block, at = divmod(begin, BLOCK)
            more = min(BLOCK - at, end - begin)
            for kept, room in zip(self._blocks[block], (X, y, weight), strict=True):
                room[done : done + more] = kept[at : at + more]
            begin += more
            done += more

    def skip(self, count: int) -> None:
        """Count rows that are not kept, nor any before them."""
        self.total += count
        self.forget(self.count)

    def forget(self, before: int) -> None:
        """Forget rows with smaller numbers; those of a block that holds later ones, too, when that goes."""
        for block in range(self.first // BLOCK, before // BLOCK):
            self._blocks.pop(block, None)
        self.first = max(self.first, before)

    def widen(self, count: int) -> None:
        """Append columns that were 0 in every row so far."""
        self.width += count
        self._blocks = {
            block: (np.pad(rows, ((0, 0), (0, count))), labels, weights)
            for block, (rows, labels, weights) in self._blocks.items()
        }


def make_room(rows: int, width: int) -> Matrix:
    """Return an array in small pages of memory: NumPy asks for large ones, and a first write to one takes long."""
    return np.frombuffer(mmap.mmap(-1, 8 * rows * width), np.float64).reshape(rows, width)


def trim_labels(y: Vector, weight: Vector) -> Vector:
    """Return labels of which the ten lowest and the ten highest, and one in 1,000 more, count as the next ones.

    Splits by squared error would otherwise be about a few bad labels; what more rows show is learned as it is. A row of
    weight w counts as w rows.
    """
    total = math.floor(min(np.sum(weight), 1e15))
    count = min(TRIMMED + total // TRIMMED_PART, total // 20)
    if not count:
        return y.copy()
    order = np.argsort(y, kind="stable")
    upwards, downwards = np.cumsum(weight[order]), np.cumsum(weight[order[::-1]])
    low, high = (int(np.argmax(sums > count)) for sums in (upwards, downwards))
    return np.asarray(np.clip(y, y[order[low]], y[order[::-1][high]]))


class ForestRefit:
    """Work on forests over the rows [begin, end) of a buffer, which must keep them until it is done.

    `columns` says which columns of a row each forest sees. Forests that are refreshed go on from `old`. Rows of weight
    0 are left out; where all are, there is nothing to learn, and `old` stays. The forests do not depend on how the work
    is cut into steps.
    """

    derived_work: ClassVar[bool] = True
    """Whether it can be begun again from the rows and the schedule."""

    def __init__(
        self,
        buffer: RowBuffer,
        begin: int,
        end: int,
        columns: list[NDArray[np.intp]],
        old: tuple[Forest, ...],
        *,
        refresh: bool,
        binary: bool,
        seed: int,
    ) -> None:
        self._buffer, self._begin, self._end, self._at = buffer, begin, end, begin
        self._columns, self._old, self._refresh, self._binary = columns, old, refresh, binary
        self._options = GrowthOptions(binary, LEAVES, COLUMNS, LEARNING_RATE, LEAF_WEIGHT, seed)
        self._X: list[Matrix] = [make_room(end - begin, len(seen)) for seen in columns]
        self._copied = np.empty((COPIED, buffer.width))
        self._y, self._weight, self._used = np.empty(end - begin), np.empty(end - begin), 0
        self._growths: list[TreeGrowth] = []
        self._done: list[Forest] = []
        before = [len(forest.trees) if refresh else 0 for forest in old] or [0] * len(columns)
        self._left = sum(self._estimate(len(seen), count) for seen, count in zip(columns, before, strict=True))

    def _estimate(self, width: int, before: int) -> int:
        """Return about how many cells growing a forest takes: bins, scores, gradients, histograms of balanced trees."""
        rows, columns = self._end - self._begin, -(-width // 2)
        tree = (14 + 2.5 * columns) * rows + 6000 * columns
        start = 64 * min(rows, 4096) * width + (COPY_COST + 16) * rows * width + 16 * rows * before
        return int(start + (NEW_TREES if self._refresh else TREES) * tree)

    def finish(self) -> tuple[Forest, ...]:
        """Do what is left and return the forests."""
        while not self.step(ALL_AT_ONCE):
            pass
        return tuple(self._done) if self._used else self._old

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
        if not self._growths and self._used:
            self._start()
        if len(self._done) < len(self._growths):
            self._growths[len(self._done)].step(budget)
        return len(self._done) == len(self._growths)

    def _copy(self) -> int:
        """Copy the columns that each forest sees of some rows, if their weight is not 0; return how many cells."""
        end = min(self._end, self._at + COPIED)
        rows, part = end - self._at, slice(self._used, self._used + end - self._at)
        copied = self._copied[:rows]
        self._buffer.read(self._at, end, copied, self._y[part], self._weight[part])
        learned = self._weight[part] > 0.0
        if not learned.all():
            copied, y, weight = copied[learned], self._y[part][learned], self._weight[part][learned]
            part = slice(self._used, self._used + len(y))
            self._y[part], self._weight[part] = y, weight
        for X, seen in zip(self._X, self._columns, strict=True):
            X[part] = copied[:, seen]
        self._at, self._used = end, part.stop
        return COPY_COST * rows * sum(len(seen) for seen in self._columns)

    def _start(self) -> None:
        labels, weight = self._y[: self._used], self._weight[: self._used]
        y = (labels > 0.0).astype(np.float64) if self._binary else trim_labels(labels, weight)
        empty = np.empty((0, 2 * LEAVES - 1, len(TreeNode)))
        for k, room in enumerate(self._X):
            X = room[: self._used]
            start = self._old[k] if self._refresh else Forest(X.shape[1], 0.0, empty, (0.0, 0.0), False)
            rows = X if start.dim == X.shape[1] else np.ascontiguousarray(X[:, : start.dim])  # features came since
            count = NEW_TREES if self._refresh else TREES
            self._growths.append(TreeGrowth(self._options, start, (rows, y, weight), count, self._done.append))

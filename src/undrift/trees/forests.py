"""Forests: boosted forests beside an estimator's compiled state, refitted as labelled rows come.

Their answers are given to the compiled round as columns that come with a row, as candidates made elsewhere are: level 2
and the last mixer use them, records hold them as served, `cost()` covers them. Speed "best" has one forest, "trees",
which sees the row and the last label; "max" has a second one, which sees the row in context (`kernels.tree_rows`).
Everything is counted in labelled rows:

    fit        at 256 rows, then whenever they have grown 1.5 times; when the window is full, when all of it is new
               ("max": a quarter of it)
    refresh    "max" alone, every 1,000 rows: 8 more trees, fitted on the last 4,000
    swap       the forests of a fit answer 1/32 of its rows later (96 at least), those of a refresh 100 rows later

A row of weight w counts w times in the trees' gradients and curvatures. The window is the last 32,768 rows, or fewer
if these would hold more than 2^19 numbers ("max": 2^22).

Trees are not grown where they cannot pay: before 256 labelled rows, which are too few for leaves of 20 rows; and at
"best" for rows of more than 40 features, because a fit costs in proportion to them, and beyond 40 it would take most of
the estimator's time. They say nothing then, and the estimator does without.

The work between start and swap is spread over the rows that come meanwhile. The rows of both are fixed in advance, so
that it does not matter how a stream is cut, and an unfinished fit need not be saved: it is done again from its rows.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from undrift import _check, kernels, store
from undrift._typing import Arrays, Matrix, Vector
from undrift.errors import ModelFileError
from undrift.kernels.definitions import LabelContext
from undrift.learners.row_context import WEIGHT_LIMIT
from undrift.learners.served import require
from undrift.trees.boosted import Forest, make_forest
from undrift.trees.refit import BLOCK, LEAVES, ForestPlan, ForestRefit, RefitSchedule, RowBuffer, Work

WINDOW, REFRESHED_ROWS = 32_768, 4_000
"""The last rows that a fit and a refresh use at most."""
SPANS = (25.0, 5.0, 1.0)
"""The first features have distances from their running means over so many rows."""
CONTEXT_SPANS = np.array(SPANS)
PREFIX, MISSING = "forests.", 1e300
"""Names of saved arrays begin with this; in them, this is a missing number, as they are finite."""


MOST_SIZE = 4.0 * _check.LIMIT
"""No number of a row in context is larger."""


class Forests:
    """The forests of one estimator over `dim` features, their context, the last labelled rows, and work in progress."""

    fixed_values: ClassVar[tuple[str, ...]] = ("_grown", "_columns")
    """What a save point need not copy: forests that are done, and what follows from the number of features."""

    def __init__(self, plan: ForestPlan, dim: int, binary: bool, seed: int) -> None:
        self.plan, self.dim, self.binary, self.seed = plan, dim, binary, seed
        self._grown: tuple[Forest, ...] = ()
        self._context = np.zeros(len(LabelContext) + 1 + self._kept * (1 + len(CONTEXT_SPANS)))
        self._columns = self._columns_seen()
        self._buffer, self._schedule = RowBuffer(self.width), RefitSchedule(plan, self.window)
        self._refit: ForestRefit | None = None
        self.row = kernels.ForestRow()
        self._point_row()

    @property
    def _kept(self) -> int:
        return min(self.dim, self.plan.context)

    @property
    def width(self) -> int:
        """Columns of a row in context."""
        return len(LabelContext) + self.dim + len(CONTEXT_SPANS) * self._kept

    @property
    def window(self) -> int:
        """Rows that a fit uses at most; 0 where there are too many features."""
        return 0 if self.dim > self.plan.most_features else min(WINDOW, self.plan.most_numbers // self.width)

    def _columns_seen(self) -> list[NDArray[np.intp]]:
        """Return the columns of a row in context that each forest sees: the last label and the row, or all."""
        each, head = 1 + len(CONTEXT_SPANS), len(LabelContext)
        wide = head + each * self._kept
        plain = np.array([LabelContext.LAST, *range(head, wide, each), *range(wide, self.width)])
        return [plain, np.arange(self.width)][: len(self.plan.names)]

    # ---- serving -----------------------------------------------------------------------------------------------

    def view(self, Z: Matrix) -> Matrix:
        """Return rows that might come next in context; nothing changes."""
        X = np.empty((len(Z), self.width))
        kernels.tree_rows(self._context, CONTEXT_SPANS, Z, np.empty(len(Z)), X, False)
        return X

    def serve(self, Z: Matrix, labels: Vector) -> Matrix:
        """Return rows that have come in context; `labels`, NaN for none, become known after each of them."""
        X = np.empty((len(Z), self.width))
        kernels.tree_rows(self._context, CONTEXT_SPANS, Z, labels, X, True)
        return X

    def answer(self, X: Matrix) -> Matrix:
        """Return predictions (n, forests) for rows in context, NaN before a fit; probabilities for two classes."""
        answers = np.empty((len(X), len(self.plan.names)))
        self.row.answer(X, answers)
        return answers

    def _point_row(self) -> None:
        """Let single rows see the context, forests and buffer there are now."""
        forests = [
            (forest.trees, forest.base, seen[: forest.dim])  # without features that came since
            for forest, seen in zip(self._grown, self._columns, strict=False)
        ]
        self.row.point(self._context, CONTEXT_SPANS, self.dim, len(self.plan.names), self.binary, forests)
        self._offer_room()

    def _offer_room(self) -> None:
        """Let single rows be kept without Python until something is to be done, or a block is full."""
        if self._refit is not None:
            self.row.offer(None, self._buffer.total, 0, 0)
            return
        free, at = self._schedule.rows_until_change(self._buffer.count) - 1, self._buffer.count % BLOCK
        block = self._buffer.block_of_next() if self.window else None
        self.row.offer(block, self._buffer.total, at, min(free, BLOCK - at))

    def widen(self, x: Vector) -> Vector:
        """Return a row in context that was served before features were added, which were 0 in it."""
        return np.pad(x, (0, self.width - len(x)))

    def fits(self, x: Vector) -> bool:
        """Whether numbers of a file can be a row in context, perhaps from before features were added."""
        return len(LabelContext) < len(x) <= self.width and bool((np.abs(np.nan_to_num(x)) <= MOST_SIZE).all())

    # ---- learning ----------------------------------------------------------------------------------------------

    def settle(self, x: Vector, y: float, weight: float, *, newest: bool) -> None:
        """Learn a row in context whose label came by itself; NaN if it never comes."""
        if not np.isnan(y):
            kernels.settle_tree_label(self._context, y, newest)
            self.learn(x[None], np.array([y]), np.array([weight]))

    def cut(self, labels: Vector) -> int:
        """Return how many of these labels, NaN ones too, `learn` can be given at once."""
        places, left = np.flatnonzero(~np.isnan(labels)), self._schedule.rows_until_change(self._buffer.count)
        return int(places[left - 1]) + 1 if left <= len(places) else len(labels)

    def learn(self, X: Matrix, y: Vector, weight: Vector | None = None) -> None:
        """Keep rows in context whose labels became known, not more than `cut` said, and go on working."""
        known = ~np.isnan(y)
        rows = int(known.sum())
        if not rows:
            return
        if self.window:
            self._buffer.append(X[known], y[known], np.ones(rows) if weight is None else weight[known])
        else:
            self._buffer.skip(rows)
        count = self._buffer.count
        if self._refit is not None and self._schedule.is_due(count):
            self._grown, self._refit = self._refit.finish(), None
            self._schedule.close()
            self._point_row()
        elif self._refit is not None:
            self._refit.work_part(rows, self._schedule.swap - count + rows)
        if self._schedule.begin_if_due(count, bool(self._grown)):
            self._begin_refit()
        self._buffer.forget(self._oldest)
        self._offer_room()

    @property
    def _oldest(self) -> int:
        """The number of the oldest row that is still needed."""
        return max(0, (self._schedule.start if self._schedule.work else self._buffer.count) - self.window)

    def _begin_refit(self) -> None:
        """Set up the work that the schedule says, from its rows."""
        start, refresh = self._schedule.start, self._schedule.work == Work.REFRESH
        rows = min(REFRESHED_ROWS, self.window) if refresh else self.window
        begin = max(self._buffer.first, start - rows)
        self._refit = ForestRefit(
            self._buffer, begin, start, self._columns, self._grown, refresh=refresh, binary=self.binary, seed=self.seed
        )

    def _after_restore(self) -> None:
        """Begin work in progress again, if there is some: it may have been interrupted anywhere."""
        if self._schedule.work:
            self._begin_refit()
        self._point_row()

    def grow(self, count: int) -> None:
        """Append features that were 0 in every row so far; work in progress begins again.

        Where this makes rows too wide, there are no trees from now on.
        """
        before, kept = self.width, self._kept
        self.dim += count
        more = np.zeros((self._kept - kept, 1 + len(CONTEXT_SPANS)))
        more[:, 0] = self._context[len(LabelContext)]  # rows labelled so far, about as many as came
        self._context = np.concatenate([self._context, more.ravel()])
        self._columns = self._columns_seen()
        self._buffer.widen(self.width - before)
        schedule, self._schedule = self._schedule, RefitSchedule(self.plan, self.window)
        if self.window:
            self._schedule.load(schedule.numbers(), self._buffer.count, bool(self._grown))
        else:
            self._grown, self._refit = (), None
        self._buffer.forget(self._oldest)
        self._after_restore()

    # ---- files -------------------------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Return everything as arrays of finite numbers; work in progress is what the schedule says of it."""
        first, count = self._oldest, self._buffer.count
        rows, labels, weights = np.empty((count - first, self.width)), np.empty(count - first), np.empty(count - first)
        self._buffer.read(first, count, rows, labels, weights)
        found = {"context": self._context, "counts": np.array([first, count]), "schedule": self._schedule.numbers()}
        found |= {"rows": rows, "labels": labels, "weights": weights}
        for name, forest in zip(self.plan.names, self._grown, strict=False):
            found |= {f"{name}.base": np.array([forest.dim, forest.base]), f"{name}.nodes": forest.trees}
        filled = {name: np.where(np.isnan(array), MISSING, array) for name, array in found.items() if array.size}
        return {PREFIX + name: array.astype(np.float64) for name, array in filled.items()}

    def load_arrays(self, arrays: Arrays, rounds: int) -> None:
        """Take over what `arrays` returned; refuse what does not fit so many rounds."""
        try:
            self._load({name.removeprefix(PREFIX): array for name, array in arrays.items()}, rounds)
        except (ValueError, KeyError, IndexError, OverflowError):
            raise ModelFileError("the saved forests cannot be used") from None

    def _load(self, arrays: Arrays, rounds: int) -> None:
        require(all(array.dtype == np.float64 and bool(np.isfinite(array).all()) for array in arrays.values()))
        context, counts = arrays.pop("context"), arrays.pop("counts")
        first, count = (int(one) for one in counts)
        require(context.shape == self._context.shape and [first, count] == counts.tolist() and first >= 0)
        require(count == rounds and bool(context[len(LabelContext)] >= 0.0))
        names = self.plan.names
        if f"{names[0]}.base" in arrays:
            parts = [(arrays.pop(f"{name}.base"), arrays.pop(f"{name}.nodes")) for name in names]
            self._grown = tuple(self._read_forest(*part) for part in parts)
        self._context[...] = context
        self._schedule.load(arrays.pop("schedule"), count, bool(self._grown))
        rows, labels = arrays.pop("rows", np.empty((0, self.width))), arrays.pop("labels", np.empty(0))
        weights = arrays.pop("weights", np.empty(0))
        require(rows.shape == (count - first, self.width) and labels.shape == weights.shape == (count - first,))
        large = (np.abs(rows) > MOST_SIZE) & (rows != MISSING)
        require(not large.any() and not (np.abs(labels) > MOST_SIZE).any() and not (np.abs(context) > MOST_SIZE).any())
        require(bool(((weights >= 0.0) & (weights <= WEIGHT_LIMIT)).all()))
        self._buffer = RowBuffer(self.width, first)
        self._buffer.append(np.where(rows == MISSING, np.nan, rows), labels, weights)
        require(first == self._oldest)
        require(not arrays)
        self._after_restore()

    def _read_forest(self, base: Vector, trees: NDArray[np.float64]) -> Forest:
        dim, score = base.tolist()
        header: store.Header = {"dim": int(dim), "boolean": False}
        forest = make_forest(header, {"base": np.array([score]), "labels": np.zeros(2), "trees": trees}, LEAVES)
        require(dim == forest.dim <= self.width)
        return forest

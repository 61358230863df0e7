"""RefitSchedule: at which counts of labelled rows forests are fitted, refreshed, and begin to answer."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from undrift._typing import Vector
from undrift.kernels.definitions import WARMUP
from undrift.learners.base import MOST_FEATURES

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

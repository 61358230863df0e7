"""RefitSchedule: at which counts of labelled rows forests are fitted, refreshed, and begin to answer."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from undrift._typing import Vector
from undrift.kernels.definitions import WARMUP

FIRST_FIT, GROWTH = WARMUP, 2
"""The first fit; the next one is due when rows have grown by this part of them, one half; ..."""
WINDOW_PARTS = 4
"""... when the window is full, by this part of it."""
REFRESH, REFRESH_SPAN = 1_000, 100
"""Rows between refreshes, and until the trees of one answer."""
LEAST_SPAN, SPAN_PARTS = 96, 32
"""Rows until the trees of a fit answer: so many at least, else this part of the rows it is fitted on."""


class Work(IntEnum):
    """What is being worked on."""

    NOTHING = 0
    FIT = 1
    REFRESH = 2


class RefitSchedule:
    """What is being worked on, when it began and when it ends, and when the next fit is due."""

    def __init__(self) -> None:
        self.next_fit, self.work, self.start, self.swap = FIRST_FIT, Work.NOTHING, 0, 0

    def rows_until_change(self, count: int) -> int:
        """Return how many rows can be labelled until something begins or ends."""
        ends = [self.swap] if self.work else []
        return min(self.next_fit, count - count % REFRESH + REFRESH, *ends) - count

    def is_due(self, count: int) -> bool:
        """Whether the work is to be done by now."""
        return bool(self.work) and count == self.swap

    def close(self) -> None:
        """Note that the work is done, or given up."""
        self.work, self.start, self.swap = Work.NOTHING, 0, 0

    def begin_if_due(self, count: int, window: int, fitted: bool) -> bool:
        """Begin a fit, for which unfinished work is given up, or else a refresh; return whether one was due."""
        if count == self.next_fit:
            self.next_fit += count // GROWTH if count < window else window // WINDOW_PARTS
            span = max(LEAST_SPAN, min(count, window) // SPAN_PARTS)
            self.work, self.start, self.swap = Work.FIT, count, count + span
            return True
        if count % REFRESH or not fitted or self.work:
            return False
        self.work, self.start, self.swap = Work.REFRESH, count, count + REFRESH_SPAN
        return True

    def numbers(self) -> Vector:
        """Return the schedule as numbers of a file."""
        return np.array([self.next_fit, self.work, self.start, self.swap], np.float64)

    @classmethod
    def from_numbers(cls, numbers: Vector, count: int, fitted: bool) -> RefitSchedule:
        """Return the schedule that `numbers` gave; refuse what cannot be one."""
        schedule, whole = cls(), [int(one) for one in numbers]
        if len(whole) != 4 or whole != numbers.tolist() or whole[0] <= count:
            raise ValueError
        schedule.next_fit, schedule.start, schedule.swap = whole[0], whole[2], whole[3]
        schedule.work = Work(whole[1])
        runs = 0 < schedule.start <= count < schedule.swap if schedule.work else schedule.start == schedule.swap == 0
        if not runs or (schedule.work == Work.REFRESH and not fitted):
            raise ValueError
        return schedule

"""ReleasedRanges: the ranges that the order trackers of many streams remember, side by side in arrays.

In streams ordered by time nearly every record is a range of its own, so that the lists of single trackers would take
most of the time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undrift.fleet.order_tracker import REMEMBERED, OrderTracker

Integers = NDArray[np.int64]


class ReleasedRanges:
    """The last `REMEMBERED` ranges of released orders of each slot, in ring buffers; for streams that never wait."""

    def __init__(self) -> None:
        self.first: Integers = np.empty((0, REMEMBERED), np.int64)
        self.last: Integers = np.empty((0, REMEMBERED), np.int64)
        self.count: Integers = np.zeros(0, np.int64)
        """Ranges so far, those forgotten included."""

    def grow(self, kept: int, capacity: int) -> None:
        """Make room for `capacity` slots, keeping the first `kept`."""
        first, last = (np.empty((capacity, REMEMBERED), np.int64) for _ in range(2))  # unused rows take no memory
        first[:kept], last[:kept] = self.first[:kept], self.last[:kept]
        self.first, self.last = first, last
        self.count = np.concatenate((self.count[:kept], np.zeros(capacity - kept, np.int64)))

    def release(self, slot: Integers, order: Integers, starts: Integers) -> None:
        """Mark orders as released. Rows are sorted by slot, then order; `starts` are the first rows of the slots.

        A row opens a new range unless it continues the one before it: the previous row of its slot or, for the first
        row of a slot, the last range in the slot's ring.
        """
        known = self.count[slot]
        before = np.concatenate((order[:1], order[:-1]))
        before[starts] = self.last[slot[starts], (known[starts] - 1) % REMEMBERED]
        opens = order != before + 1
        opens[starts[known[starts] == 0]] = True
        total = np.cumsum(opens)
        lengths = np.diff(starts, append=len(slot))
        number = known + total - np.repeat(total[starts] - opens[starts], lengths) - 1  # of each row's range
        at = number % REMEMBERED
        self.first[slot[opens], at[opens]] = order[opens]  # where an index repeats, NumPy keeps the last value
        self.last[slot, at] = order
        ends = starts + lengths - 1
        self.count[slot[ends]] = number[ends] + 1

    def can_hold(self, tracker: OrderTracker) -> bool:
        """Whether a tracker's ranges fit: one that was made with a longer wait may remember more."""
        return len(tracker.ranges) == REMEMBERED or (len(tracker.ranges) < REMEMBERED and not tracker.forgotten)

    def read(self, slot: int) -> tuple[list[list[int]], bool]:
        """Return a slot's ranges, and whether older ones were dropped."""
        count = int(self.count[slot])
        at = np.arange(max(0, count - REMEMBERED), count) % REMEMBERED
        pairs = np.stack((self.first[slot, at], self.last[slot, at]), axis=1)
        return pairs.tolist(), count > REMEMBERED

    def write(self, slot: int, tracker: OrderTracker) -> None:
        """Copy the ranges of a tracker into a slot."""
        n = len(tracker.ranges)
        if n:
            self.first[slot, :n], self.last[slot, :n] = np.array(tracker.ranges, np.int64).T
        self.count[slot] = n + REMEMBERED * tracker.forgotten

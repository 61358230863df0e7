"""OrderTracker: which orders of a stream were released, which are still awaited, and which were given up.

Records are released in increasing order. A record that comes early waits until everything before it was released, or
was given up because an order more than `wait` larger has been seen. While no record comes later than that, the
released sequence is the sorted stream, however it was shuffled and cut. It is our own code because its state, a few
integers, is saved with every key, and must be the same however records came in batches.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

REMEMBERED = 64
"""Ranges of released orders that are told apart from orders that never came; besides all within the last `wait`."""


@dataclass
class OrderTracker:
    """The orders of one stream."""

    next: int | None = None
    """The lowest order that may still be released; None before the first record."""
    highest: int = 0
    """The highest order seen."""
    ranges: list[list[int]] = field(default_factory=list)
    """Released orders as ranges [first, last], increasing; the latest ones."""
    forgotten: bool = False
    """Whether older ranges were dropped."""

    def was_released(self, order: int) -> bool | None:
        """Whether an order below `next` was released; None if that was forgotten."""
        at = bisect_right(self.ranges, order, key=lambda one: one[0]) - 1
        if at >= 0:
            return order <= self.ranges[at][1]
        return None if self.forgotten else False

    def observe(self, order: int, wait: int) -> None:
        """Note that an order came, and give up the missing ones that are more than `wait` behind it."""
        if self.next is None:
            self.next, self.highest = order - wait, order
        elif order > self.highest:
            self.highest = order
            self.next = max(self.next, order - wait)

    def release(self, order: int, wait: int) -> int:
        """Mark an order as released; return how many orders just before it never came."""
        missing = 0
        if self.ranges and order == self.ranges[-1][1] + 1:
            self.ranges[-1][1] = order
        else:
            missing = order - self.ranges[-1][1] - 1 if self.ranges else 0
            self.ranges.append([order, order])
            while len(self.ranges) > REMEMBERED and self.ranges[0][1] < order - wait:
                del self.ranges[0]
                self.forgotten = True
        self.next = order + 1 if self.next is None else max(self.next, order + 1)
        return missing

    def to_integers(self) -> list[int]:
        """Return the tracker as a flat list of integers."""
        ends = [end for one in self.ranges for end in one]
        return [] if self.next is None else [self.next, self.highest, int(self.forgotten), *ends]

    @classmethod
    def from_integers(cls, numbers: list[int]) -> OrderTracker:
        """Return the tracker that `to_integers` wrote."""
        if not numbers:
            return cls()
        following, highest, forgotten, *ends = numbers
        return cls(
            following, highest, [list(pair) for pair in zip(ends[::2], ends[1::2], strict=True)], bool(forgotten)
        )


Integers = NDArray[np.int64]


class ReleasedRanges:
    """The last `REMEMBERED` ranges of released orders of each slot, in ring buffers; for streams that never wait.

    In streams ordered by time nearly every record is a range of its own, so that the lists of single trackers would
    take most of the time.
    """

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

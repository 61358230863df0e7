"""OrderTracker: which orders of a stream were released, which are still awaited, and which were given up.

Records are released in increasing order. A record that comes early waits until everything before it was released, or
was given up because an order more than `wait` larger has been seen. While no record comes later than that, the
released sequence is the sorted stream, however it was shuffled and cut.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

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

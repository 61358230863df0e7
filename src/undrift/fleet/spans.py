"""Spans: the ranges that the ledgers of many streams remember, side by side in arrays.

Streams ordered by time make a range of nearly every record, so a ledger's list would be all the work.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undrift.fleet.ledger import REMEMBERED, Ledger

Integers = NDArray[np.int64]


class Spans:
    """By slot, the last `REMEMBERED` ranges of released orders, in rings; for streams that never wait."""

    def __init__(self) -> None:
        self.first: Integers = np.empty((0, REMEMBERED), np.int64)
        self.last: Integers = np.empty((0, REMEMBERED), np.int64)
        self.count: Integers = np.zeros(0, np.int64)
        """Ranges so far, those forgotten included."""

    def grow(self, kept: int, capacity: int) -> None:
        """Make room for `capacity` slots, keeping the first `kept`."""
        first, last = (np.empty((capacity, REMEMBERED), np.int64) for _ in range(2))  # spare rows take no memory
        first[:kept], last[:kept] = self.first[:kept], self.last[:kept]
        self.first, self.last = first, last
        self.count = np.concatenate((self.count[:kept], np.zeros(capacity - kept, np.int64)))

    def release(self, slot: Integers, order: Integers, begins: Integers) -> None:
        """Close the accounts of orders, sorted by slot and order; a slot's rows begin at `begins`."""
        known = self.count[slot]
        before = np.concatenate((order[:1], order[:-1]))
        before[begins] = self.last[slot[begins], (known[begins] - 1) % REMEMBERED]
        opens = order != before + 1
        opens[begins[known[begins] == 0]] = True
        total = np.cumsum(opens)
        lengths = np.diff(begins, append=len(slot))
        at = known + total - np.repeat(total[begins] - opens[begins], lengths) - 1
        place = at % REMEMBERED
        self.first[slot[opens], place[opens]] = order[opens]  # where a place repeats, the last one stays
        self.last[slot, place] = order
        ends = begins + lengths - 1
        self.count[slot[ends]] = at[ends] + 1

    def fits(self, ledger: Ledger) -> bool:
        """Whether an account can be kept here: one made with a longer wait may remember more."""
        return len(ledger.ranges) == REMEMBERED or (len(ledger.ranges) < REMEMBERED and not ledger.forgot)

    def read(self, slot: int) -> tuple[list[list[int]], bool]:
        """Return a slot's ranges, and whether older ones were dropped."""
        count = int(self.count[slot])
        places = np.arange(max(0, count - REMEMBERED), count) % REMEMBERED
        pairs = np.stack((self.first[slot, places], self.last[slot, places]), axis=1)
        return pairs.tolist(), count > REMEMBERED

    def write(self, slot: int, ledger: Ledger) -> None:
        """Take over the ranges of an account."""
        n = len(ledger.ranges)
        if n:
            self.first[slot, :n], self.last[slot, :n] = np.array(ledger.ranges, np.int64).T
        self.count[slot] = n + REMEMBERED * ledger.forgot

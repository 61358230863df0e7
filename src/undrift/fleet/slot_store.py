"""SlotStore: the states of many keys in one array, advanced by one compiled call a batch.

A key's records take this fast path when nothing about them is unusual: usable, labelled, in sequence, none missing
(for orders that are times: increasing). All others go through `Fleet.advance`, to the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.errors import ModelFileError
from undrift.fleet.key_state import KeyState
from undrift.fleet.model_pool import initial_model
from undrift.fleet.order_tracker import OrderTracker, ReleasedRanges
from undrift.fleet.outputs import ABSENT, OK, Key, Outputs
from undrift.fleet.record_batch import RecordBatch
from undrift.fleet.slot_layout import EstimatorSlots, SlotLayout, slot_layout
from undrift.metrics import round_losses

if TYPE_CHECKING:
    from undrift.fleet.fleet import Fleet

FRESH = ABSENT
"""The next order of a key without records."""
Integers = NDArray[np.int64]


class SlotStore(Mapping[Key, bytes]):
    """States by key, in memory. What the array cannot hold (waiting records, gaps, unusual counts) is in `_extra`."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.dim = fleet, len(fleet.fields.features)
        self._initial = initial_model(
            fleet.prototype, self.dim
        )  # owns the arrays that the kernel's handle was made with
        self.layout: SlotLayout | EstimatorSlots = slot_layout(self._initial)
        self.slots: dict[Key, int] = {}
        self._extra: dict[int, KeyState] = {}
        self.states: Matrix = np.empty((0, self.layout.size))
        self.rounds: Integers = np.zeros(0, np.int64)
        self.next: Integers = np.zeros(0, np.int64)
        """Of each slot, the order that is expected next."""
        self.start: Integers = np.zeros(0, np.int64)
        """Of each slot, the first order of its only range of released orders."""
        self.learned: Integers = np.zeros(0, np.int64)
        self.unscored: Integers = np.zeros(0, np.int64)
        self.loss: Vector = np.zeros(0)
        self.irregular: NDArray[np.bool_] = np.zeros(0, bool)
        """Slots whose next records need `Fleet.advance`, whatever they are."""
        timed = fleet.fields.order is not None and not fleet.numbered and not fleet.wait
        self.ranges = ReleasedRanges() if timed else None
        self._grow(64)

    def _grow(self, capacity: int) -> None:
        """Make room, keeping what is there. A row is written when a key gets it, so unused rows take no memory."""
        n = len(self.slots)
        states = _aligned_array(capacity, self.layout.size)
        states[:n] = self.states[:n]
        self.states = states
        more = np.zeros(capacity - n, np.int64)
        self.rounds = np.concatenate((self.rounds[:n], more))
        self.start = np.concatenate((self.start[:n], more))
        self.learned = np.concatenate((self.learned[:n], more))
        self.unscored = np.concatenate((self.unscored[:n], more))
        self.next = np.concatenate((self.next[:n], more + FRESH))
        self.loss = np.concatenate((self.loss[:n], np.zeros(len(more))))
        self.irregular = np.concatenate((self.irregular[:n], np.zeros(len(more), bool)))
        if self.ranges is not None:
            self.ranges.grow(n, capacity)

    def find(self, keys: list[Key]) -> Integers:
        """Return the slots of keys, new ones for those that have none."""
        slots, no_slot = self.slots, repeat(-1)
        out = np.fromiter(map(slots.get, keys, no_slot), np.int64, len(keys))
        missing = np.flatnonzero(out < 0).tolist()
        if missing:
            new = dict.fromkeys(keys[i] for i in missing)
            n, needed = len(slots), len(slots) + len(new)
            if needed > len(self.states):
                self._grow(max(needed, 2 * len(self.states)))
            self.states[n:needed] = self.layout.blank
            slots.update(zip(new, range(n, needed), strict=True))
            out[missing] = [slots[keys[i]] for i in missing]
        return out

    def advance(self, batch: RecordBatch, threads: int = 1) -> Outputs:
        """Advance every key of a batch."""
        keyless = sorted(i for i in batch.bad if batch.keys[i] is None)
        if keyless:
            outputs = self.fleet.advance(None, batch.take(keyless)).outputs
            rest = np.delete(np.arange(len(batch)), keyless)
            return Outputs.concat([self.advance(batch.take(rest), threads), outputs])
        slot = self.find(batch.keys)
        by, starts = self._sort_by_slot(slot, batch.order)
        regular = self._regular_groups(batch, slot[by], by, starts)
        lengths = np.diff(starts, append=len(by))
        fast = by[np.repeat(regular, lengths)]
        parts = [self._play(batch, slot, fast, threads)] if len(fast) else []
        for k in np.flatnonzero(~regular).tolist():
            rows = np.sort(by[starts[k] : starts[k] + lengths[k]])
            parts.append(self._advance_one(int(slot[rows[0]]), batch.take(rows)))
        return Outputs.concat(parts)

    def _sort_by_slot(self, slot: Integers, order: Integers) -> tuple[Integers, Integers]:
        """Return row numbers sorted by slot and order, and where each slot begins among them."""
        ordered = self.fleet.fields.order is not None
        by = np.lexsort((order, slot)) if ordered else np.argsort(slot, kind="stable")
        sorted_slot = slot[by]
        starts = np.flatnonzero(np.concatenate(([True], sorted_slot[1:] != sorted_slot[:-1]))) if len(by) else by
        return by, starts

    def _regular_groups(self, batch: RecordBatch, slot: Integers, by: Integers, starts: Integers) -> NDArray[np.bool_]:
        """Return which slots' rows have nothing unusual about them."""
        if not len(by):
            return np.zeros(0, bool)
        good = ~np.isnan(batch.y) & (batch.label_of == ABSENT)
        if batch.bad:
            good[list(batch.bad)] = False
        fine = good[by]
        if self.fleet.fields.order is not None:
            order = batch.order[by]
            following = self.next[slot[starts]]
            new = following == FRESH
            if self.ranges is None:
                base = np.where(new, order[starts], following)
                fine &= order - np.repeat(base - starts, np.diff(starts, append=len(by))) == np.arange(len(by))
            else:
                before = np.concatenate((order[:1], order[:-1]))
                before[starts] = np.where(new, order[starts], following) - 1
                fine &= order > before
            allowed = ~new if self.fleet.wait else np.ones(len(starts), bool)
        else:
            allowed = np.ones(len(starts), bool)
        return np.asarray(np.logical_and.reduceat(fine, starts) & ~self.irregular[slot[starts]] & allowed)

    def _play(self, batch: RecordBatch, slot: Integers, rows: Integers, threads: int) -> Outputs:
        """Advance keys whose records are all regular; `rows` are sorted by slot, then order."""
        at, y, yhat = slot[rows], np.ascontiguousarray(batch.y[rows]), np.empty(len(rows))
        binary = self.fleet.prototype.binary
        labels = np.where(y > 0.0, 1.0, -1.0) if binary else y
        Z = np.ascontiguousarray(batch.Z[rows])
        refused = self.layout.play_keys(self.states, self.rounds, at, Z, labels, yhat, threads)
        if refused:
            raise ModelFileError("Fleet: a state holds numbers that no model has; it was damaged or edited")
        if binary and isinstance(self.layout, EstimatorSlots):
            self.layout.note_labels(self.states, at, y)
        first = np.flatnonzero(np.concatenate(([True], at[1:] != at[:-1])))
        lengths, keys_at = np.diff(first, append=len(at)), at[first]
        if self.fleet.fields.order is not None:
            order = batch.order[rows]
        else:
            following = np.where(self.next[keys_at] == FRESH, 0, self.next[keys_at])
            order = np.arange(len(at)) - np.repeat(first - following, lengths)
        new = self.next[keys_at] == FRESH
        self.start[keys_at[new]] = order[first[new]]
        self.next[keys_at] = order[first + lengths - 1] + 1
        self.learned[keys_at] += lengths
        if self.ranges is not None:
            self.ranges.release(at, order, first)
        known = ~np.isnan(yhat)
        np.add.at(self.unscored, at[~known], 1)
        losses = round_losses(yhat[known], y[known], binary=binary)
        np.add.at(self.loss, at[known], losses)  # one after the other, as a loop would
        keys = [batch.keys[i] for i in rows.tolist()]
        return Outputs(keys, order, yhat, y, np.full(len(rows), OK, np.uint8))

    def _advance_one(self, slot: int, part: RecordBatch) -> Outputs:
        """Advance one key through `Fleet.advance`."""
        fresh = self.next[slot] == FRESH and slot not in self._extra
        state, outputs = self.fleet.advance(None if fresh else self._pack(slot), part)
        self._unpack(slot, state)
        return outputs

    def _state(self, slot: int) -> KeyState:
        """Return everything about a slot."""
        state = replace(self._extra.get(slot) or KeyState())
        tracker, following = state.tracker, int(self.next[slot])
        if following != FRESH and not self.irregular[slot]:
            if self.ranges is not None:
                tracker.ranges, tracker.forgotten = self.ranges.read(slot)
            elif tracker.ranges:
                tracker.ranges[-1][1] = following - 1
            else:
                tracker.ranges = [[int(self.start[slot]), following - 1]]
            tracker.next, tracker.highest = following, following - 1
        state.counts = {**state.counts, "ok": int(self.learned[slot])}
        if not state.counts["ok"]:
            del state.counts["ok"]
        state.loss, state.unscored = float(self.loss[slot]), int(self.unscored[slot])
        rounds = int(self.rounds[slot])
        if rounds or state.records:
            header, spec = self.layout.header(rounds, self.dim), self.fleet.pool.spec
            state.header = {name: value for name, value in header.items() if spec.get(name, ...) != value}
            state.arrays = self.layout.read(self.states[slot])
        return state

    def _pack(self, slot: int) -> bytes:
        return self.fleet.pool.codec.pack(self._state(slot))

    def _unpack(self, slot: int, data: bytes) -> None:
        """Put a key's state into a slot."""
        state = self.fleet.pool.codec.unpack(data)
        self._check(state)
        self.states[slot] = self.layout.blank
        if state.arrays:
            self.layout.write(self.states[slot], state.arrays)
        tracker = state.tracker
        self.rounds[slot] = state.header.get("rounds", 0)
        self.learned[slot], self.loss[slot] = state.counts.pop("ok", 0), state.loss
        self.unscored[slot] = state.unscored
        self.irregular[slot] = bool(state.waiting)
        if self.ranges is not None:
            self.irregular[slot] |= not self.ranges.can_hold(tracker)
            if not self.irregular[slot]:
                self.ranges.write(slot, tracker)
                tracker = OrderTracker(tracker.next)
        self.next[slot] = FRESH if tracker.next is None else tracker.next
        self.start[slot] = tracker.ranges[0][0] if tracker.ranges else 0
        simple = len(tracker.ranges) <= 1 and not (
            tracker.forgotten or state.counts or state.waiting or state.unlabelled or state.records
        )
        state.arrays, state.header = {}, {}
        if simple:
            self._extra.pop(slot, None)
        else:
            self._extra[slot] = state

    def _check(self, state: KeyState) -> None:
        """Refuse arrays of other shapes than a slot has, and numbers that no model has."""
        arrays, rounds = state.arrays, state.header.get("rounds", 0)
        shapes = {name: array.shape for name, array in arrays.items()}
        fine = shapes == self.fleet.pool.codec.shapes if arrays else not rounds
        if not fine or not all(np.isfinite(array).all() for array in arrays.values()):
            raise ModelFileError("Fleet: the state of a key does not fit its model; it was edited")

    def update(self, states: Mapping[Key, bytes]) -> None:
        """Put in the states of keys."""
        for slot, state in zip(self.find(list(states)).tolist(), states.values(), strict=True):
            self._unpack(slot, state)

    def __getitem__(self, key: Key) -> bytes:
        return self._pack(self.slots[key])

    def __iter__(self) -> Iterator[Key]:
        return iter(self.slots)

    def __len__(self) -> int:
        return len(self.slots)


def _aligned_array(rows: int, size: int) -> Matrix:
    """Return an empty array whose first row begins on a cache line."""
    raw = np.empty(rows * size + 8)
    skip = (-raw.ctypes.data // 8) % 8
    return raw[skip : skip + rows * size].reshape(rows, size)

"""Table: the states of many keys in one array, advanced by one compiled call a batch.

A key's records take this short way when nothing about them is unusual: usable, labelled, in sequence, none missing
(of orders that are times: increasing). The others go through `Fleet.advance`, to the same bits.
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
from undrift.fleet.batch import Batch
from undrift.fleet.bench import losses
from undrift.fleet.ledger import Ledger
from undrift.fleet.outputs import ABSENT, OK, Key, Outputs
from undrift.fleet.place import Place, place_of
from undrift.fleet.spans import Spans
from undrift.fleet.state import KeyState
from undrift.online.many import Many

if TYPE_CHECKING:
    from undrift.fleet.fleet import Fleet

FRESH = ABSENT
"""The next order of a key without records."""
Integers = NDArray[np.int64]


class Table(Mapping[Key, bytes]):
    """States by key. What an array cannot hold (parked records, gaps, counts of the unusual) is kept beside it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.dim = fleet, len(fleet.fields.features)
        begun = fleet.prototype.clone()
        begun._begin(self.dim)
        begun.dim = self.dim
        self._begun = begun  # owns the arrays that the kernel's handle was made with
        self.place: Place | Many = place_of(begun)
        self.slots: dict[Key, int] = {}
        self._aside: dict[int, KeyState] = {}
        self.states: Matrix = np.empty((0, self.place.size))
        self.rounds: Integers = np.zeros(0, np.int64)
        self.next: Integers = np.zeros(0, np.int64)
        self.start: Integers = np.zeros(0, np.int64)
        self.learned: Integers = np.zeros(0, np.int64)
        self.loss: Vector = np.zeros(0)
        self.busy: NDArray[np.bool_] = np.zeros(0, bool)
        timed = fleet.fields.order is not None and not fleet.numbered and not fleet.wait
        self.spans = Spans() if timed else None
        self._grow(64)

    def _grow(self, capacity: int) -> None:
        """Make room, keeping what is there; rows are written when a key moves in, so spare ones take no memory."""
        n = len(self.slots)
        states = _aligned(capacity, self.place.size)
        states[:n] = self.states[:n]
        self.states = states
        more = np.zeros(capacity - n, np.int64)
        self.rounds = np.concatenate((self.rounds[:n], more))
        self.start = np.concatenate((self.start[:n], more))
        self.learned = np.concatenate((self.learned[:n], more))
        self.next = np.concatenate((self.next[:n], more + FRESH))
        self.loss = np.concatenate((self.loss[:n], np.zeros(len(more))))
        self.busy = np.concatenate((self.busy[:n], np.zeros(len(more), bool)))
        if self.spans is not None:
            self.spans.grow(n, capacity)

    def find(self, keys: list[Key]) -> Integers:
        """Return the slots of keys, new ones for those that have none."""
        slots, nowhere = self.slots, repeat(-1)
        out = np.fromiter(map(slots.get, keys, nowhere), np.int64, len(keys))
        missing = np.flatnonzero(out < 0).tolist()
        if missing:
            new = dict.fromkeys(keys[i] for i in missing)
            n, needed = len(slots), len(slots) + len(new)
            if needed > len(self.states):
                self._grow(max(needed, 2 * len(self.states)))
            self.states[n:needed] = self.place.blank
            slots.update(zip(new, range(n, needed), strict=True))
            out[missing] = [slots[keys[i]] for i in missing]
        return out

    def advance(self, batch: Batch, threads: int = 1) -> Outputs:
        """Advance every key of a batch."""
        nobodys = sorted(i for i in batch.bad if batch.keys[i] is None)  # a key that cannot be used is bad
        if nobodys:
            said = self.fleet.advance(None, batch.take(nobodys)).outputs
            rest = np.delete(np.arange(len(batch)), nobodys)
            return Outputs.joined([self.advance(batch.take(rest), threads), said])
        slot = self.find(batch.keys)
        by, starts = self._sorted(slot, batch.order)
        plain = self._plain(batch, slot[by], by, starts)
        groups = np.diff(starts, append=len(by))
        easy = by[np.repeat(plain, groups)]
        parts = [self._play(batch, slot, easy, threads)] if len(easy) else []
        for k in np.flatnonzero(~plain).tolist():
            rows = np.sort(by[starts[k] : starts[k] + groups[k]])
            parts.append(self._step(int(slot[rows[0]]), batch.take(rows)))
        return Outputs.joined(parts)

    def _sorted(self, slot: Integers, order: Integers) -> tuple[Integers, Integers]:
        """Row numbers by slot and order, and where each slot begins among them."""
        ordered = self.fleet.fields.order is not None
        by = np.lexsort((order, slot)) if ordered else np.argsort(slot, kind="stable")
        sorted_slot = slot[by]
        starts = np.flatnonzero(np.concatenate(([True], sorted_slot[1:] != sorted_slot[:-1]))) if len(by) else by
        return by, starts

    def _plain(self, batch: Batch, slot: Integers, by: Integers, starts: Integers) -> NDArray[np.bool_]:
        """Which groups have nothing unusual about them."""
        if not len(by):
            return np.zeros(0, bool)
        good = ~np.isnan(batch.y) & (batch.of == ABSENT)
        if batch.bad:
            good[list(batch.bad)] = False
        fine = good[by]
        if self.fleet.fields.order is not None:
            order = batch.order[by]
            following = self.next[slot[starts]]
            new = following == FRESH
            if self.spans is None:
                base = np.where(new, order[starts], following)
                fine &= order - np.repeat(base - starts, np.diff(starts, append=len(by))) == np.arange(len(by))
            else:
                before = np.concatenate((order[:1], order[:-1]))
                before[starts] = np.where(new, order[starts], following) - 1
                fine &= order > before
            allowed = ~new if self.fleet.wait else np.ones(len(starts), bool)
        else:
            allowed = np.ones(len(starts), bool)
        return np.asarray(np.logical_and.reduceat(fine, starts) & ~self.busy[slot[starts]] & allowed)

    def _play(self, batch: Batch, slot: Integers, rows: Integers, threads: int) -> Outputs:
        """Advance keys whose records are all plain; `rows` are sorted by slot, then order."""
        at, y, yhat = slot[rows], np.ascontiguousarray(batch.y[rows]), np.empty(len(rows))
        binary = self.fleet.prototype.binary
        labels = np.where(y > 0.0, 1.0, -1.0) if binary else y
        Z = np.ascontiguousarray(batch.Z[rows])
        refused = self.place.play_keys(self.states, self.rounds, at, Z, labels, yhat, threads)
        if refused:
            raise ModelFileError("Fleet: a state holds numbers that no model has; it was damaged or edited")
        first = np.flatnonzero(np.concatenate(([True], at[1:] != at[:-1])))
        lengths, keys_at = np.diff(first, append=len(at)), at[first]
        if self.fleet.fields.order is not None:
            order = batch.order[rows]
        else:
            known = np.where(self.next[keys_at] == FRESH, 0, self.next[keys_at])
            order = np.arange(len(at)) - np.repeat(first - known, lengths)
        new = self.next[keys_at] == FRESH
        self.start[keys_at[new]] = order[first[new]]
        self.next[keys_at] = order[first + lengths - 1] + 1
        self.learned[keys_at] += lengths
        if self.spans is not None:
            self.spans.release(at, order, first)
        np.add.at(self.loss, at, losses(yhat, y, binary))  # one after the other, as a loop would
        keys = [batch.keys[i] for i in rows.tolist()]
        return Outputs(keys, order, yhat, y, np.full(len(rows), OK, np.uint8))

    def _step(self, slot: int, part: Batch) -> Outputs:
        """Advance one key the long way."""
        fresh = self.next[slot] == FRESH and slot not in self._aside
        state, outputs = self.fleet.advance(None if fresh else self._export(slot), part)
        self._take(slot, state)
        return outputs

    def _state(self, slot: int) -> KeyState:
        """Return everything about a slot."""
        state = replace(self._aside.get(slot) or KeyState())
        ledger, following = state.ledger, int(self.next[slot])
        if following != FRESH and not self.busy[slot]:
            if self.spans is not None:
                ledger.ranges, ledger.forgot = self.spans.read(slot)
            elif ledger.ranges:
                ledger.ranges[-1][1] = following - 1
            else:
                ledger.ranges = [[int(self.start[slot]), following - 1]]
            ledger.next, ledger.top = following, following - 1
        state.counts = {**state.counts, "ok": int(self.learned[slot])}
        if not state.counts["ok"]:
            del state.counts["ok"]
        state.loss = float(self.loss[slot])
        rounds = int(self.rounds[slot])
        state.header = self.place.header(rounds, self.dim) if rounds else {}
        state.arrays = self.place.read(self.states[slot]) if rounds else {}
        return state

    def _export(self, slot: int) -> bytes:
        return self.fleet.bench.form.pack(self._state(slot))

    def _take(self, slot: int, data: bytes) -> None:
        """Put a key's state into a slot."""
        state = self.fleet.bench.form.unpack(data)
        self._check(state)
        self.states[slot] = self.place.blank
        if state.arrays:
            self.place.write(self.states[slot], state.arrays)
        ledger = state.ledger
        self.rounds[slot] = state.header.get("rounds", 0)
        self.learned[slot], self.loss[slot] = state.counts.pop("ok", 0), state.loss
        self.busy[slot] = bool(state.parked)
        if self.spans is not None:
            self.busy[slot] |= not self.spans.fits(ledger)
            if not self.busy[slot]:
                self.spans.write(slot, ledger)
                ledger = Ledger(ledger.next)
        self.next[slot] = FRESH if ledger.next is None else ledger.next
        self.start[slot] = ledger.ranges[0][0] if ledger.ranges else 0
        simple = len(ledger.ranges) <= 1 and not (ledger.forgot or state.counts or state.parked or state.held)
        state.arrays, state.header = {}, {}
        if simple:
            self._aside.pop(slot, None)
        else:
            self._aside[slot] = state

    def _check(self, state: KeyState) -> None:
        """Refuse arrays that a slot has no place for, and numbers that no model has."""
        arrays, rounds = state.arrays, state.header.get("rounds", 0)
        shapes = {name: array.shape for name, array in arrays.items()}
        fine = shapes == self.fleet.bench.form.shapes if arrays else not rounds
        if not fine or not all(np.isfinite(array).all() for array in arrays.values()):
            raise ModelFileError("Fleet: the state of a key does not fit its model; it was edited")

    def put(self, key: Key, state: bytes) -> None:
        """Take over the state of a key."""
        self._take(int(self.find([key])[0]), state)

    def __getitem__(self, key: Key) -> bytes:
        return self._export(self.slots[key])

    def __iter__(self) -> Iterator[Key]:
        return iter(self.slots)

    def __len__(self) -> int:
        return len(self.slots)


def _aligned(rows: int, size: int) -> Matrix:
    """Room for states that begin on a cache line."""
    raw = np.empty(rows * size + 8)
    skip = (-raw.ctypes.data // 8) % 8
    return raw[skip : skip + rows * size].reshape(rows, size)

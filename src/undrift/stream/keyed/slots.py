"""SlotStore: the states of many keys in one array, advanced by one compiled call a batch.

A key's records take this fast path when nothing about them is unusual: usable, labelled, in sequence, none missing
(for orders that are times: increasing), of texts that every key knows. All others go through `KeyedStreams.advance`, to
the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Arrays, Matrix, Vector
from undrift.ensemble import Ensemble, LinearEnsemble, LogisticEnsemble
from undrift.errors import ModelFileError
from undrift.kernels import layout
from undrift.kernels.definitions import ENSEMBLE_SLOT, EstimatorNumber
from undrift.learners import DiscountedAIOLI, DiscountedVAW, Learner
from undrift.metrics import round_losses
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.online.estimator import OnlineEstimator
from undrift.online.plan import EstimatorPlan
from undrift.store import Header
from undrift.stream.keyed.key_state import KeyState
from undrift.stream.keyed.keyed_rows import KeyedRows
from undrift.stream.keyed.order_tracker import OrderTracker, ReleasedRanges
from undrift.stream.keyed.outputs import ABSENT, OK, Key, Outputs
from undrift.stream.keyed.stream_pool import initial_model

if TYPE_CHECKING:
    from undrift.stream.keyed.keyed_streams import KeyedStreams

FRESH = ABSENT
"""The next order of a key without records."""
Integers = NDArray[np.int64]


def fits_in_slots(model: Learner) -> bool:
    """Whether models of this kind can live in slots: those with compiled rounds, and online estimators."""
    if type(model) in (OnlineRegressor, OnlineClassifier):
        return not model.parameters["indicators"]
    return has_compiled_rounds(model)


def has_compiled_rounds(model: Learner) -> bool:
    """Whether rounds of many models are one compiled call: one learner or an ensemble of stacked members, all ours."""
    if type(model) not in (DiscountedVAW, DiscountedAIOLI, Ensemble, LinearEnsemble, LogisticEnsemble):
        return False
    return initial_model(model, max(1, model.least_dim))._kernel is not None


def slot_layout(initial: Learner) -> SlotLayout | EstimatorSlots:
    """Return how models of this kind lie in slots."""
    return EstimatorSlots(initial) if isinstance(initial, OnlineEstimator) else SlotLayout(initial)


class EstimatorSlots:
    """Slots with an online estimator each: a slot is its state vector."""

    def __init__(self, initial: OnlineEstimator) -> None:
        self.plan: EstimatorPlan = initial.plan
        self.blank = self.plan.blank()
        self.size = len(self.blank)
        self._rounds = self.plan.layout.starts["numbers"] + EstimatorNumber.ROUNDS

    def header(self, rounds: int, dim: int) -> Header:
        """Return what the header of a saved estimator has beyond its parameters."""
        return {"rounds": rounds, "dim": dim, "began": dim}

    def play_keys(
        self, states: Matrix, rounds: Integers, slots: Integers, Z: Matrix, y: Vector, yhat: Vector, threads: int = 1
    ) -> int:
        """Close rounds of the estimators in slots; rows are sorted by slot, then order. Return a refusal, or 0.

        `yhat` is NaN for rows before which no label of their key was known.
        """
        known = np.empty(len(y))
        refused = self.plan.kernel.play_keys(states, slots, Z, y, yhat, known, threads)
        rounds[slots] = states[slots, self._rounds].astype(np.int64)
        if not refused:
            yhat[known == 0.0] = np.nan
        return int(refused)

    def note_labels(self, states: Matrix, slots: Integers, y: Vector) -> None:
        """Keep in the states how the labels of two classes are called."""
        negative = self.plan.layout.starts["numbers"] + EstimatorNumber.NEGATIVE_LABEL
        states[slots[y == -1.0], negative] = -1.0

    def read(self, slot: Vector) -> Arrays:
        """Return the arrays of the estimator in a slot."""
        return self.plan.layout.arrays(slot)

    def write(self, slot: Vector, arrays: Arrays) -> None:
        """Put an estimator's arrays into a slot."""
        for name, part in self.plan.layout.arrays(slot).items():
            part[...] = arrays[name]


class SlotLayout:
    """Where a slot keeps the arrays of a model, in the order of the kernel.

    The members' state, `information`, may have fewer lanes (learners side by side in a vector register) in a slot than
    in a model: learners that only pad a group to the width of the register take no room in a slot.
    """

    def __init__(self, initial: Learner) -> None:
        assert initial._kernel is not None  # only models that have one come here
        self.round = initial._kernel
        self.size = self.round.slot_size()
        arrays = initial._arrays()
        by_last_name = {name.rsplit(".", 1)[-1]: name for name in arrays}
        members = len(initial._stability) if isinstance(initial, Ensemble) else 1
        self.information = by_last_name["information"]
        self._initial = np.array(arrays[self.information])  # one learner: a column; several: a stack
        stack = self._initial.shape
        if len(stack) == 3:
            stack = self.round.slot_shape()
        at = ENSEMBLE_SLOT.slices(information_size=int(np.prod(stack)), members=members)
        saved_as = {"mixer_state": "rate", "last_label": "last", "clipped_losses": "charged"}
        self.parts: dict[str, tuple[slice, tuple[int, ...]]] = {}
        for part, where in at.items():
            end = saved_as.get(part, part)
            if end in by_last_name:
                shape = stack if part == "information" else (where.stop - where.start,)
                self.parts[by_last_name[end]] = where, shape
        self.blank = np.zeros(self.size)
        self.write(self.blank, arrays)

    def header(self, rounds: int, dim: int) -> Header:
        """Return what the header of a saved model has beyond its parameters."""
        return {"rounds": rounds, "dim": dim}

    def play_keys(
        self, states: Matrix, rounds: Integers, slots: Integers, Z: Matrix, y: Vector, yhat: Vector, threads: int = 1
    ) -> int:
        """Close rounds of the models in slots; rows are sorted by slot, then order. Return whether one was refused.

        `yhat` is NaN for rows before which no label of their key was known.
        """
        first = np.concatenate(([True], slots[1:] != slots[:-1])) & (rounds[slots] == 0)
        refused = int(self.round.play_keys(states, rounds, slots, Z, y, yhat, threads))
        if not refused:
            yhat[first] = np.nan
        return refused

    def read(self, slot: Vector) -> Arrays:
        """Return the arrays of the model in a slot."""
        out = {name: slot[where].reshape(shape) for name, (where, shape) in self.parts.items()}
        if self._initial.ndim == 3:
            packed, out[self.information] = out[self.information], np.array(self._initial)
            for group, some in enumerate(packed):
                layout.lane_group(out[self.information], group, packed.shape[2])[...] = some
        return out

    def write(self, slot: Vector, arrays: Arrays) -> None:
        """Put a model's arrays into a slot."""
        for name, (where, shape) in self.parts.items():
            if len(shape) == 3:
                groups = [layout.lane_group(arrays[name], group, shape[2]) for group in range(shape[0])]
                slot[where] = np.stack(groups).ravel()
            else:
                slot[where] = arrays[name].ravel()


class SlotStore(Mapping[Key, bytes]):
    """States by key, in memory. What the array cannot hold (waiting records, gaps, unusual counts) is in `_extra`."""

    def __init__(self, streams: KeyedStreams) -> None:
        self.streams, self.dim = streams, streams.pool.dim
        self._initial = initial_model(streams.prototype, self.dim)  # owns the arrays of the kernel's handle
        self.layout: SlotLayout | EstimatorSlots = slot_layout(self._initial)
        self.slots: dict[Key, int] = {}
        self._extra: dict[int, KeyState] = {}
        self._own: dict[int, KeyState] = {}
        """Slots whose model is of another shape, as texts of their own added features: their states, whole."""
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
        """Slots whose next records need `KeyedStreams.advance`, whatever they are."""
        timed = streams.fields.order is not None and not streams.numbered and not streams.wait
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

    def advance(self, batch: KeyedRows, threads: int = 1) -> Outputs:
        """Advance every key of a batch."""
        keyless = sorted(i for i in batch.bad if batch.keys[i] is None)
        if keyless:
            outputs = self.streams.advance(None, batch.take(keyless)).outputs
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
        ordered = self.streams.fields.order is not None
        by = np.lexsort((order, slot)) if ordered else np.argsort(slot, kind="stable")
        sorted_slot = slot[by]
        starts = np.flatnonzero(np.concatenate(([True], sorted_slot[1:] != sorted_slot[:-1]))) if len(by) else by
        return by, starts

    def _regular_groups(self, batch: KeyedRows, slot: Integers, by: Integers, starts: Integers) -> NDArray[np.bool_]:
        """Return which slots' rows have nothing unusual about them."""
        if not len(by):
            return np.zeros(0, bool)
        good = ~np.isnan(batch.y) & (batch.label_of == ABSENT) & self.streams.knows_texts(batch)
        if batch.bad:
            good[list(batch.bad)] = False
        fine = good[by]
        if self.streams.fields.order is not None:
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
            allowed = ~new if self.streams.wait else np.ones(len(starts), bool)
        else:
            allowed = np.ones(len(starts), bool)
        return np.asarray(np.logical_and.reduceat(fine, starts) & ~self.irregular[slot[starts]] & allowed)

    def _play(self, batch: KeyedRows, slot: Integers, rows: Integers, threads: int) -> Outputs:
        """Advance keys whose records are all regular; `rows` are sorted by slot, then order."""
        at, y, yhat = slot[rows], np.ascontiguousarray(batch.y[rows]), np.empty(len(rows))
        binary = self.streams.prototype.binary
        labels = np.where(y > 0.0, 1.0, -1.0) if binary else y
        Z = self.streams.plain_features(batch, rows)
        refused = self.layout.play_keys(self.states, self.rounds, at, Z, labels, yhat, threads)
        if refused:
            raise ModelFileError("Fleet: a state holds numbers that no model has; it was damaged or edited")
        if binary and isinstance(self.layout, EstimatorSlots):
            self.layout.note_labels(self.states, at, y)
        first = np.flatnonzero(np.concatenate(([True], at[1:] != at[:-1])))
        lengths, keys_at = np.diff(first, append=len(at)), at[first]
        if self.streams.fields.order is not None:
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

    def _advance_one(self, slot: int, part: KeyedRows) -> Outputs:
        """Advance one key through `KeyedStreams.advance`."""
        fresh = self.next[slot] == FRESH and slot not in self._extra and slot not in self._own
        state, outputs = self.streams.advance(None if fresh else self._pack(slot), part)
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
            header, spec = self.layout.header(rounds, self.dim), self.streams.pool.spec
            state.header = {name: value for name, value in header.items() if spec.get(name, ...) != value}
            state.arrays = self.layout.read(self.states[slot])
        return state

    def _pack(self, slot: int) -> bytes:
        own = self._own.get(slot)
        return self.streams.pool.codec.pack(self._state(slot) if own is None else own)

    def _unpack(self, slot: int, data: bytes) -> None:
        """Put a key's state into a slot."""
        state = self.streams.pool.codec.unpack(data)
        if state.features:
            self._own[slot], self.irregular[slot] = state, True
            return
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
        fine = shapes == self.streams.pool.codec.shapes if arrays else not rounds
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

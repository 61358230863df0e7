"""Online estimators of many keys, advanced together: one key's rounds are too few to pay for a call of everything.

The definition of correct is `OnlineLearner`, key by key, to the bit. Here the states lie side by side in one array;
what is the same for all rows is done to all of them at once, and kernels that carry a key's state are called key by
key without anything in between.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.mixer import Mixer
from undrift.kernels.reference_rows import NEVER
from undrift.learners.base import Arrays
from undrift.online.base import BLOCK, WARMUP, OnlineLearner
from undrift.online.design import REFITS
from undrift.store import Header
from undrift.streams.scaling import CLIP, center_and_scale

Integers = NDArray[np.int64]
Views = dict[str, NDArray[np.float64]]
"""A named array of every slot, the slots first."""
ROWS = 65_536
"""Rows of all keys advanced at a time."""
Number = TypeVar("Number", np.int64, np.float64)


class Runs:
    """Rows of some keys, a key's side by side and in order."""

    def __init__(self, key: Integers, first: Integers, count: Integers) -> None:
        self.key, self.first, self.count = key, first, count
        self.end = np.cumsum(count)
        self.start = self.end - count
        self.each = list(zip(key.tolist(), first.tolist(), self.start.tolist(), self.end.tolist(), strict=True))
        """(slot, rounds before, first row, row after the last) of each key."""

    def spread(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return a key's value for each of its rows."""
        return np.repeat(values, self.count)

    def within(self) -> Integers:
        """Return how many rows of its key stand before each row."""
        return np.asarray(np.arange(int(self.end[-1])) - np.repeat(self.start, self.count))

    def shifted(self, before: Vector, series: Vector) -> Vector:
        """Return each row's value of the row before it, `before` for a key's first."""
        out = np.empty_like(series)
        out[1:] = series[:-1]
        out[self.start] = before
        return out

    def earlier(self, events: NDArray[np.bool_]) -> Vector:
        """Return how many of its key's earlier rows were such; whole numbers, so one sum over all keys is exact."""
        total: Integers = np.cumsum(events) - events
        return np.asarray(total - np.repeat(total[self.start], self.count), np.float64)

    def total(self, events: NDArray[np.bool_]) -> Vector:
        """Return how many of each key's rows were such."""
        return np.add.reduceat(events, self.start, dtype=np.float64)


class Many:
    """States of one kind of estimator in slots, and the rounds of all of them. Subclasses know the core."""

    def __init__(self, begun: OnlineLearner) -> None:
        self.learner = begun
        self.parts: dict[str, tuple[slice, tuple[int, ...]]] = {}
        arrays, at = begun._arrays(), 0
        for name in sorted(arrays, key=lambda name: (not name.startswith("core."), arrays[name].ndim < 3)):
            array = arrays[name]  # stacks first: they begin on a cache line
            self.parts[name] = slice(at, at + array.size), array.shape
            at += -(-array.size // 8) * 8 if array.ndim == 3 else array.size
        self.size = -(-at // 8) * 8
        self.blank = np.zeros(self.size)
        self.write(self.blank, arrays)
        self.core = slice(0, max(where.stop for name, (where, _) in self.parts.items() if name.startswith("core.")))

    def header(self, rounds: int, dim: int) -> Header:
        """Return what the header of a saved estimator has beyond its parameters."""
        return {"rounds": rounds, "dim": dim, "began": dim}

    def read(self, slot: Vector) -> Arrays:
        """Return the arrays of the estimator in a slot."""
        return {name: slot[where].reshape(shape) for name, (where, shape) in self.parts.items()}

    def write(self, slot: Vector, arrays: Arrays) -> None:
        """Put an estimator's arrays into a slot."""
        for name, (where, _) in self.parts.items():
            slot[where] = arrays[name].reshape(-1)

    def play_keys(
        self, states: Matrix, rounds: Integers, slots: Integers, Z: Matrix, y: Vector, yhat: Vector, threads: int = 1
    ) -> int:
        """Close labelled rounds; rows are sorted by slot, then order. Fills `yhat`, changes `states` and `rounds`."""
        views = {name: states[:, where].reshape(-1, *shape) for name, (where, shape) in self.parts.items()}
        begin = np.flatnonzero(np.concatenate(([True], slots[1:] != slots[:-1])))
        key, left = slots[begin], np.diff(begin, append=len(slots))
        while len(key):
            first = rounds[key]
            turn = np.searchsorted(REFITS, first, "right")
            until = np.append(REFITS, 0)[turn] - first
            block = max(1, min(BLOCK, ROWS // len(key)))
            count = np.minimum(np.minimum(left, block), np.where(turn < len(REFITS), until, block))
            runs = Runs(key, first, count)
            rows = runs.spread(begin) + runs.within()
            yhat[rows] = self._advance(views, runs, Z[rows], y[rows])
            rounds[key] += count
            for n in REFITS:
                due = key[first + count == n]
                if len(due):
                    states[due, self.core] = self.blank[self.core]
                    self._refit(views, due, n)
            begin, left = begin + count, left - count
            more = left > 0
            key, begin, left = key[more], begin[more], left[more]
        return 0

    def _advance(self, views: Views, runs: Runs, Z: Matrix, y: Vector) -> Vector:
        """Do what `OnlineLearner._advance` does."""
        filled = self._filled(views, runs, Z)
        self._remember(views, runs, filled, y)
        X = self._scaled(views, runs, filled)
        soft = self._softened(views, runs, y)
        E = np.concatenate((self._play(views, runs, X, soft), self._baseline_play(views, runs, y)), axis=1)
        yhat = self._mixed(views, "mixer", self.learner._mixer, runs, E, soft)
        self._closed(views, runs, E, soft, yhat, y)
        return yhat

    def _filled(self, views: Views, runs: Runs, Z: Matrix) -> Matrix:
        value, seen, missing = (views[f"memory.{name}"] for name in ("value", "seen", "missing"))
        if not np.isnan(Z).any():
            value[runs.key], seen[runs.key] = Z[runs.end - 1], 1.0
            return Z
        filled = np.empty_like(Z)
        for i, _, a, b in runs.each:
            kernels.fill_rows(value[i], seen[i], missing[i], Z[a:b], filled[a:b])
        return filled

    @staticmethod
    def _remember(views: Views, runs: Runs, filled: Matrix, y: Vector) -> None:
        """Keep the rows of keys in their warm-up."""
        at = runs.spread(runs.first) + runs.within()
        warm = np.flatnonzero(at < WARMUP)
        if len(warm):
            place = runs.spread(runs.key)[warm], at[warm]
            rows = filled[warm]
            views["known"][place] = ~np.isnan(rows)
            views["buffer"][place] = np.where(np.isnan(rows), 0.0, rows)
            views["labels"][place] = y[warm]

    @staticmethod
    def _scaled(views: Views, runs: Runs, filled: Matrix) -> Matrix:
        X, scale = np.empty_like(filled), kernels.scale_rows
        center, width, limit, exceeded = (views[f"scaling.{name}"] for name in ("center", "scale", "limit", "exceeded"))
        for i, first, a, b in runs.each:
            scale(center[i], width[i], limit[i], exceeded[i], first, filled[a:b], X[a:b])
        return X

    @staticmethod
    def _mixed(views: Views, name: str, mixer: Mixer, runs: Runs, E: Matrix, y: Vector) -> Vector:
        """Let the keys' mixers of this name hear their members."""
        raise NotImplementedError

    def _refit(self, views: Views, keys: Integers, rounds: int) -> None:
        """Do what `OnlineLearner._refit` does, the cores being fresh."""
        runs = Runs(keys, np.zeros_like(keys), np.full_like(keys, rounds))
        rows, known = views["buffer"][keys, :rounds], views["known"][keys, :rounds]
        labels = np.ascontiguousarray(views["labels"][keys, :rounds]).reshape(-1)
        views["scaling.center"][keys], views["scaling.scale"][keys] = center_and_scale(rows, known)
        views["scaling.limit"][keys], views["scaling.exceeded"][keys] = CLIP, NEVER
        wide = rows.shape[-1]
        X = self._scaled(views, runs, np.where(known > 0.0, rows, np.nan).reshape(-1, wide))
        self._play(views, runs, X, self._refitted(views, runs, labels))
        if rounds == WARMUP:
            for name in ("buffer", "known", "labels"):
                views[name][keys] = 0.0

    def _softened(self, views: Views, runs: Runs, y: Vector) -> Vector:
        return y

    def _refitted(self, views: Views, runs: Runs, y: Vector) -> Vector:
        return y

    def _play(self, views: Views, runs: Runs, X: Matrix, y: Vector) -> Matrix:
        """Do what the core's `play` does."""
        raise NotImplementedError

    def _baseline_play(self, views: Views, runs: Runs, y: Vector) -> Matrix:
        raise NotImplementedError

    def _closed(self, views: Views, runs: Runs, E: Matrix, soft: Vector, yhat: Vector, y: Vector) -> None:
        """Hear how rounds ended."""

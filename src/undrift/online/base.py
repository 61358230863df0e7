"""What both online estimators do around their core: names, holes, scaling, warm-up, growth, the last mixer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, _thread_lock, store
from undrift._typing import Matrix, Vector
from undrift.discount import make_discount
from undrift.ensemble.mixer import Mixer
from undrift.errors import InputError, ModelFileError
from undrift.kernels import layout
from undrift.learners.base import MOST_FEATURES, MOST_ROUNDS, Arrays, Columns, Prediction
from undrift.online.design import REFITS, DesignedLearner
from undrift.online.memories import BETAS, Line, Memories, Spectrum
from undrift.online.memories import half_life as half_life_of
from undrift.online.rows import Memory, Rows, is_named, matrix, names_in, refuse_slips
from undrift.streams import Scaling
from undrift.trace import Trace

WARMUP = REFITS[-1]
BLOCK = 2048
"""Rounds advanced at a time."""
WAVES = {"fast": 0, "best": 48}


class OnlineLearner(DesignedLearner):
    """The shell around a core. Subclasses say which core, which baselines and which last mixer."""

    accepts_nan: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    baselines: ClassVar[tuple[str, ...]]

    def __init__(
        self, *, speed: str = "best", indicators: bool = False, seed: int = 0, half_life: float | None = None
    ) -> None:
        self.speed = _check.choice(self, "speed", speed, tuple(WAVES))
        self.indicators = _check.flag(self, "indicators", indicators)
        self.seed = _check.integer(self, "seed", seed, 0, 2**53)
        self._betas = None if half_life is None else np.array([make_discount(self, None, half_life).beta])
        super().__init__(speed=speed, indicators=self.indicators, seed=self.seed, half_life=half_life)
        self.names: list[str] | None = None

    def _last_mixer(self) -> Mixer:
        raise NotImplementedError

    def _baseline_start(self) -> Vector:
        raise NotImplementedError

    def _baseline_peek(self, rows: int) -> Matrix:
        """Return what the baselines would say."""
        raise NotImplementedError

    def _baseline_play(self, y: Vector) -> Matrix:
        """Return what the baselines said, and take the labels in."""
        raise NotImplementedError

    def _softened(self, y: Vector, first: int) -> Vector:
        """Return labels as the core and the last mixer should see them."""
        return y

    def _closed(self, yhat: Vector, y: Vector) -> None:
        """Hear how rounds ended."""

    def _refitted(self, y: Vector) -> Vector:
        """Return the labels of the warm-up so far as a fresh core should see them."""
        return y

    @property
    def candidates(self) -> list[str]:
        """Names of what the last mixer chooses from: level 2, the families, the baselines."""
        return [] if self.dim is None else [*self._heart.names, *self.baselines]

    @property
    @_thread_lock.hold_shared
    def weights(self) -> Vector:
        """The candidates' weights for the coming round; they sum to 1."""
        return np.zeros(0) if self.dim is None else self._mixer.weights

    @_thread_lock.hold_shared
    def spectrum(self) -> Spectrum:
        """Return how fast the data forget: the weight of each memory length in the linear families.

        Within a family the weights are those of its mixer, which follows the best memory of the moment; families (one
        for regression, three curvatures for two classes) count by what the last mixer thinks of them. The waves, which
        have two long memories only, and level 2, which forgets how to combine and not what it saw, are left out.
        """
        if self.dim is None:
            return Spectrum(np.zeros(0), np.zeros(0))
        found, trust = self._linear()
        weights = np.sum([w * one.weights for w, one in zip(trust, found, strict=True)], axis=0)
        return Spectrum(half_life_of(found[0].beta), weights / np.sum(weights))

    @_thread_lock.hold_shared
    def line(self) -> Line:
        """Return the coefficients of the linear memory that leads, in the units of the rows.

        For two classes they are log-odds. Waves and level 2 bend and correct what this line says; it is for reading.
        """
        if self.dim is None:
            return Line(np.zeros(0), 0.0, math.inf)
        found, trust = self._linear()
        best = found[int(np.argmax(trust))]
        i = int(np.argmax(best.weights))
        x = layout.leader(best.state, i, best.dim)
        awake = self._scaling.scale > 0.0
        coef = np.where(awake, x[1:] / np.where(awake, self._scaling.scale, 1.0), 0.0)
        return Line(coef, float(x[0] - np.sum(coef * self._scaling.center)), float(half_life_of(best.beta)[i]))

    def _linear(self) -> tuple[list[Memories], Vector]:
        """Return the linear families' memories, and how far the last mixer trusts each family."""
        found = self._heart.memories()
        trust = self._mixer.arrays()["log_weights"][[self._heart.names.index(one.family) for one in found]]
        return found, np.exp(trust - np.max(trust))

    @property
    @_thread_lock.hold_shared
    def floored(self) -> int:
        """Pivots of the linear memories that were kept from vanishing: there, forgetting was suspended."""
        if self.dim is None:
            return 0
        memories = self._heart.memories()
        return int(sum(layout.parts(m.state, i, m.dim)["floored"][0] for m in memories for i in range(len(m.beta))))

    @property
    @_thread_lock.hold_shared
    def losses(self) -> Vector:
        """Sum of each candidate's losses so far."""
        return np.zeros(0) if self.dim is None else self._mixer.losses + self._spikes[0]

    @_thread_lock.hold_shared
    def cost(self) -> Vector:
        """Return the last mixer's guarantee: a bound on the losses so far minus those of each candidate.

        The mixer learns from softened labels; what the labels as they came changed is known exactly, and added.
        """
        return np.zeros(0) if self.dim is None else self._mixer.cost() + self._spikes[1]

    @property
    @_thread_lock.hold_shared
    def missing(self) -> Vector:
        """How many values of each feature were missing in learned rows."""
        return np.zeros(0) if self.dim is None else self._memory.missing.copy()

    @property
    @_thread_lock.hold_shared
    def unlabelled(self) -> int:
        """Rows that were played without a label."""
        return 0 if self.dim is None else int(self._counts[0])

    @_thread_lock.hold_shared
    def predict(self, z: Rows) -> Prediction:
        """Return the prediction for the coming round, a vector for several candidate rows; nothing changes.

        Rows are arrays (d,) or (n, d), mappings of names to numbers, lists of those, or data frames. NaN is missing;
        a name that a mapping lacks is 0, an unknown one is ignored until it is learned. An unknown name in a row that
        lacks a known one which it resembles is refused as a slip.
        """
        Z, single = self._seen(z)
        yhat = self._predictor(Z)._predict(Z)
        return float(yhat[0]) if single else yhat

    @_thread_lock.hold_exclusive
    def learn(self, z: Rows, y: float) -> None:
        """Close one round: the label `y` of row `z` has become known. A NaN label only updates last-seen values."""
        Z, names, _ = self._arriving(z)
        if len(Z) != 1:
            raise InputError(f"{_check.name_of(self)}: learn takes one row, got {len(Z)}; use play(Z, y) for a block")
        labels = self._labels(y, 1)
        self._admit(names)
        self._close(Z, lambda: self._play(Z, labels))

    @_thread_lock.hold_exclusive
    def play(self, Z: Rows, y: ArrayLike, *, delay: int = 0) -> Trace:
        """Close a block of rounds; the same bits as `predict` then `learn`, row by row."""
        rows, names, single = self._arriving(Z)
        if single:
            raise InputError(f"{_check.name_of(self)}: play takes rows (n, d), got one row; use learn(z, y)")
        labels = self._labels(y, len(rows))
        if not len(rows):
            return self._close(rows, lambda: Columns(np.empty(0)))
        self._admit(names)
        if self._waits(delay):
            return self._play_late(rows, labels, delay)
        return self._close(rows, lambda: self._play(rows, labels))

    def _seen(self, z: Rows) -> tuple[Matrix, bool]:
        """Return rows to predict, in the order of the columns known so far, and whether there was one only."""
        if not is_named(z):
            return self._rows(z)
        names = names_in(self, z)
        known = self.names if self.names is not None else names
        if self.dim is not None and self.names is None:
            raise InputError(f"{_check.name_of(self)}: rows had no names so far; pass arrays of {self.dim} features")
        if not known:
            raise InputError(f"{_check.name_of(self)}: z must have at least one feature, got none")
        refuse_slips(self, z, known, learned=False)
        extra = set(names) - set(known)
        Z = matrix(self, z, [*known, *sorted(extra)])[:, : len(known)]
        return _check.within_limit(self, "z", np.ascontiguousarray(Z), nan=True), isinstance(z, Mapping)

    def _arriving(self, z: Rows) -> tuple[Matrix, list[str] | None, bool]:
        """Return rows to learn, the names of their columns (new ones last), and whether there was one row only."""
        if not is_named(z):
            if isinstance(z, (list, tuple)) and not len(z):
                return np.empty((0, self.dim or self.least_dim)), None, False
            if self.names is not None:
                raise InputError(f"{_check.name_of(self)}: rows had names so far; pass mappings or a data frame")
            Z, single = self._rows(z)
            return Z, None, single
        if self.dim is not None and self.names is None:
            raise InputError(f"{_check.name_of(self)}: rows had no names so far; pass arrays of {self.dim} features")
        known = self.names or []
        named = names_in(self, z)
        refuse_slips(self, z, known, learned=True)
        names = [*known, *(name for name in named if name not in set(known))]
        if not names:
            raise InputError(f"{_check.name_of(self)}: z must have at least one feature, got none")
        return _check.within_limit(self, "z", matrix(self, z, names), nan=True), names, isinstance(z, Mapping)

    def _admit(self, names: list[str] | None) -> None:
        """Make room for names that are new."""
        count = 0 if names is None or self.dim is None else len(names) - self.dim
        if names is not None:
            self.names = names
        if count and self.dim is not None:
            self._grow(count)
            self.dim += count

    def _begin(self, dim: int) -> None:
        self._memory = Memory(dim)
        self._wide = dim * (2 if self.indicators else 1)
        self._scaling = Scaling(self._wide)
        self._heart = self._core(self._wide)
        self._first = dim  # features the core began with
        self._buffer, self._known = np.zeros((WARMUP, self._wide)), np.zeros((WARMUP, self._wide))
        self._buffer_y = np.zeros(WARMUP)
        self._counts = np.zeros(1)  # rows without a label
        self._baseline = self._baseline_start()
        self._mixer = self._last_mixer()
        count = len(self._heart.names) + len(self.baselines)
        self._mixer.begin([0.9, *[0.1 / (count - 1)] * (count - 1)])
        self._spikes = np.zeros((2, count))  # by candidate: losses, and our excess, that softened labels do not show

    def _grow(self, count: int) -> None:
        """Append features that were 0 in every row so far."""
        wide = count * (2 if self.indicators else 1)
        self._memory.grow(count)
        if self.rounds >= WARMUP:
            self._heart.grow(wide, self.rounds)
            self._scaling.grow(wide)
        self._wide += wide
        self._buffer = np.concatenate((self._buffer, np.zeros((WARMUP, wide))), axis=1)
        self._known = np.concatenate((self._known, np.ones((WARMUP, wide))), axis=1)
        if self.rounds < WARMUP:
            self._first += count
            self._scaling, self._heart = Scaling(self._wide), self._core(self._wide)
            self._refit(self.rounds)

    def _predict(self, Z: Matrix) -> Vector:
        X = self._scaling.peek(self._with_indicators(Z, self._memory.peek(Z)))
        said = self._heart.predict(X, self.rounds)
        return self._mixer.predict(np.concatenate((said, self._baseline_peek(len(Z))), axis=1))

    def _play(self, Z: Matrix, y: Vector) -> Columns:
        yhat = np.empty(len(y))
        rounds, a = self.rounds, 0
        while a < len(y):
            b = self._cut(y, a, rounds)
            if np.isnan(y[a]):
                yhat[a:b] = self._skip(Z[a:b], rounds)
            else:
                yhat[a:b] = self._advance(Z[a:b], y[a:b], rounds)
                rounds += b - a
                if rounds in REFITS:
                    self._refit(rounds)
            a = b
        return Columns(yhat)

    @staticmethod
    def _cut(y: Vector, a: int, rounds: int) -> int:
        """Return the end of the run from row a: before a change of labelled to unlabelled, a refit, or a full block."""
        b = min(len(y), a + BLOCK)
        blank = np.isnan(y[a:b])
        change = np.flatnonzero(blank != blank[0])
        if len(change):
            b = a + int(change[0])
        if rounds < WARMUP and not blank[0]:
            b = min(b, a + next(n for n in REFITS if n > rounds) - rounds)
        return b

    def _skip(self, Z: Matrix, rounds: int) -> Vector:
        """Predict rows whose label never came; only last-seen values move."""
        filled = self._memory.fill(Z)
        X = self._scaling.peek(self._with_indicators(Z, filled))
        said = np.concatenate((self._heart.predict(X, rounds), self._baseline_peek(len(Z))), axis=1)
        self._counts[0] += len(Z)
        return self._mixer.predict(said)

    def _advance(self, Z: Matrix, y: Vector, rounds: int) -> Vector:
        """Close labelled rounds that need no refit in between."""
        filled = self._with_indicators(Z, self._memory.fill(Z))
        if rounds < WARMUP:
            rows = slice(rounds, rounds + len(y))
            self._known[rows] = ~np.isnan(filled)
            self._buffer[rows] = np.where(np.isnan(filled), 0.0, filled)
            self._buffer_y[rows] = y
        X = self._scaling.apply(filled, rounds)
        soft = self._softened(y, rounds)
        E = np.concatenate((self._heart.play(X, soft, rounds), self._baseline_play(y)), axis=1)
        yhat = self._mixer.play(E, soft)
        cut = np.flatnonzero(soft != y)
        if len(cut):
            self._count_spikes(E[cut], yhat[cut], soft[cut], y[cut])
        self._closed(yhat, y)
        return yhat

    def _count_spikes(self, E: Matrix, yhat: Vector, soft: Vector, y: Vector) -> None:
        """Add what the labels as they came cost beyond the softened ones, row by row: candidates, and us beyond them.

        Under squared loss ((yhat - y)^2 - (yhat - soft)^2)/2 = (soft - y) (yhat - (soft + y)/2).
        """
        for said, own, s, label in zip(E, yhat, soft, y, strict=True):
            self._spikes[0] += (s - label) * (said - 0.5 * (s + label))
            self._spikes[1] += (s - label) * (own - said)

    def _refit(self, rounds: int) -> None:
        """Fit the scaling to all rows so far, and let a fresh core learn them again; the last mixer stays."""
        if not rounds:
            return
        rows = slice(0, rounds)
        self._scaling.fit(self._buffer[rows], self._known[rows])
        X = self._scaling.apply(np.where(self._known[rows] > 0.0, self._buffer[rows], np.nan), 0)
        labels = self._refitted(self._buffer_y[rows])
        self._heart.restart()
        self._heart.fit_scale(labels)
        self._heart.play(X, labels, 0)
        if rounds == WARMUP:
            self._buffer[...], self._known[...], self._buffer_y[...] = 0.0, 0.0, 0.0

    def _close(self, Z: Matrix, rounds: Callable[[], Columns]) -> Trace:
        before = self.unlabelled
        trace = super()._close(Z, rounds)
        self.rounds -= self.unlabelled - before  # a round is a labelled row
        return trace

    def _labels(self, y: ArrayLike, count: int) -> Vector:
        labels = _check.column(self, "y", y, count, nan=True)
        if not self.binary:
            return labels
        known = ~np.isnan(labels)
        out = labels.copy()
        out[known] = _check.signs(self, labels[known])
        return out

    def _arrays(self) -> Arrays:
        own: dict[str, Arrays] = {
            "memory": dict(self._memory.arrays()),
            "scaling": dict(self._scaling.arrays()),
            "core": self._heart.arrays(),
            "mixer": dict(self._mixer.arrays()),
        }
        out: Arrays = {f"{part}.{name}": array for part, arrays in own.items() for name, array in arrays.items()}
        warm = {"buffer": self._buffer, "known": self._known, "labels": self._buffer_y}
        return {**out, **warm, "counts": self._counts, "baseline": self._baseline, "spikes": self._spikes}

    @_thread_lock.hold_exclusive
    def snapshot(self) -> tuple[store.Header, Arrays]:
        """Return everything the estimator is: a JSON header and its arrays, copied."""
        header, arrays = super().snapshot()
        if self.names is not None:
            header["names"] = {str(j): name for j, name in enumerate(self.names)}
        if self.dim is not None:
            header["began"] = self._first
        return header, arrays

    @classmethod
    def _from_snapshot(cls, header: store.Header, arrays: Arrays) -> Self:
        saved, dim, began = header.get("names"), header.get("dim"), header.get("began")
        if dim is None:
            return super()._from_snapshot(header, arrays)
        if not (isinstance(began, int) and isinstance(dim, int) and 1 <= began <= dim <= MOST_FEATURES):
            raise ModelFileError(f"{cls.__name__}: the saved number of features cannot be used")
        fresh = super()._from_snapshot({**header, "dim": None, "rounds": 0}, {})
        fresh._refuse_small_arrays(dim, arrays)
        fresh.rounds = _check.integer(cls.__name__, "rounds", header["rounds"], 0, MOST_ROUNDS)
        fresh._begin(began)
        if dim > began:
            if fresh.rounds < WARMUP:
                raise ModelFileError(f"{cls.__name__}: the saved number of features cannot be used")
            fresh._grow(dim - began)
        fresh.dim = dim
        fresh._load_arrays(arrays)
        if saved is not None:
            names = [saved.get(str(j)) for j in range(dim)] if isinstance(saved, dict) else []
            if len(set(map(str, names))) != dim or not all(isinstance(name, str) for name in names):
                raise ModelFileError(f"{cls.__name__}: the saved names do not fit the features")
            fresh.names = [str(name) for name in names]
        return fresh

    def _min_array_size(self, dim: int) -> int:
        """One linear family's memories, a constant and the features each; the others are as large."""
        memories = len(BETAS) if self._betas is None else len(self._betas)
        return memories * layout.length(1 + dim * (2 if self.indicators else 1))

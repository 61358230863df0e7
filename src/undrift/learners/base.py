"""Learner: what every learner is, so that saving, copying, comparing and shipping need no code of its own."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, kernels, store
from undrift._internal import html, thread_lock
from undrift._internal.discount import Discount, make_discount
from undrift._typing import Arrays, Matrix, Scalar, Vector
from undrift.errors import ConditionError, InputError, ModelFileError
from undrift.learners.row_context import ORDINARY, Delay, RowContext, check_context
from undrift.learners.save_point import SavePoint
from undrift.learners.serializable import Construction, Serializable, fill_arrays
from undrift.learners.served import PREFIX, PendingRecords, ServedPrediction
from undrift.losses import Loss, logistic, squared
from undrift.template import Leaf, Template
from undrift.trace import Trace

RowsLike = Any
"""Rows as a learner takes them: an array (n, d); online estimators take mappings and data frames too."""
Prediction = Any
"""A float for one row, a vector for rows."""
MOST_FEATURES = 1_000_000
MOST_ROUNDS = 2**53
"""What a saved learner can have: float64 counts that far."""
RECORD_LAYOUT = 3
"""Number of the layout of records; raised when what they hold changes."""
EXTRA_AGE = "extra_age"
"""Name of the saved array that holds a learner's age beyond its rounds; left out where that is 0."""


class Columns(NamedTuple):
    """What `_play` gives back for the rounds it closed."""

    yhat: Vector
    """Predictions."""
    stability: Vector | None = None
    """Price of each round; None for learners without a guarantee."""
    potential: Vector | None = None
    """Weight of |u|^2/2 after each round; None likewise."""


class Learner(Serializable):
    """Parameters (scalars) and named float64 arrays, changed by `learn`, `play`, `ask` and `tell` only.

    A learner of your own derives from this class, hands its parameters to `super().__init__`, and provides

    - `_begin(dim)`: set up its arrays, called before the first row is learned;
    - `_predict(Z, elapsed=1.0)`: predictions for rows that might come next, after this time, changing nothing;
    - `_play(Z, y, context)`: close the rounds and return `Columns`;
    - `_arrays()`: its arrays by name, the very objects, so that a saved file can fill them.

    `context` (`RowContext`) has the weights of rows and the times between them. A learner that knows what these mean
    lists them in `supports`; all others refuse them, and only ever get an ordinary context and the time 1.

    Late labels work as they are: a record is the prediction and the row, and settling it is learning the row. A learner
    whose `_play` depends on what was predicted (a mixer) also provides `_serve`, `_settle` and `_fits_record`.

    Input is checked before it gets there: `Z` (rounds, dim) and `y` (rounds,) are contiguous float64, finite, and at
    most 1e75 in size; labels of binary learners are -1 and +1.

    A learner whose `Columns` have `stability` and `potential` makes a promise, which `certify` holds it to; if it
    forgets, it also says by `discount` how fast.
    """

    supports: frozenset[str] = frozenset()
    """What it takes beside rows and labels, of "weight", "elapsed" and "quantiles"; an ensemble what all members do."""
    accepts_nan: ClassVar[bool] = False
    """Whether missing features (NaN) are part of the learner's job."""
    mixes_columns: ClassVar[bool] = False
    """Whether predictions are combinations of the row's numbers, which are on the scale of labels."""
    grows: ClassVar[bool] = False
    """Whether new named features may appear later."""
    least_dim: ClassVar[int] = 1
    """Fewest features it can work with; 0 for learners that look at labels alone."""
    needs_model: bool = False
    """Whether its files hold rows for a model of the user's, which `load` must be given; not for fleets."""
    keeps_rows: bool = False
    """Whether it keeps rows to learn from them again, up to a fixed number; not in fleets."""
    binary: bool = False
    """Whether labels are two classes and predictions log-odds."""
    any_labels: ClassVar[bool] = False
    """Whether labels of classes may be texts and numbers of any kind."""
    _kernel: kernels.EnsembleKernel | None = None
    """Whole rounds over the learner's own arrays, the short way for one row at a time; None where there is none."""
    outputs: int = 1
    """Numbers in a prediction: 1, or the number of classes of a learner of several."""

    def __init__(self, **parameters: Scalar) -> None:
        self.parameters: dict[str, Scalar] = parameters
        self.rounds = 0
        self.dim: int | None = None
        self._exclusive_lock = kernels.Lock()  # for what changes the learner,
        self._shared_lock = self._exclusive_lock.shared  # and for what only reads it
        self._pending = PendingRecords()
        self._extra_age = 0.0  # the time that passed so far less the rounds

    def predict(self, z: ArrayLike, *, elapsed: float | None = None) -> Prediction:
        """Return the prediction for the coming round, a vector for several candidate rows; nothing changes.

        Binary learners predict the log-odds of the label +1. `elapsed`: the time since the row before, 1 by default.
        """
        if elapsed is None and self._kernel is not None and (yhat := self._kernel.predict(self, z)) is not None:
            return yhat
        return self._predict_rows(z, elapsed)

    @thread_lock.hold_shared
    def _predict_rows(self, z: ArrayLike, elapsed: float | None) -> Prediction:
        Z, single = self._rows(z)
        yhat = self._predictor(Z)._predict(Z, self._time(elapsed))
        return float(yhat[0]) if single else yhat

    def learn(self, z: ArrayLike, y: float, *, weight: float | None = None, elapsed: float | None = None) -> None:
        """Close one round: the label `y` of row `z` has become known.

        The row counts `weight` times, once by default (in an ensemble: in the members, and once in the mixer);
        `elapsed` is the time since the row before, 1 by default.
        """
        ordinary = weight is None and elapsed is None
        if not ordinary or self._kernel is None or not self._kernel.learn(self, z, y):
            self._learn_row(z, y, weight, elapsed)

    @thread_lock.hold_exclusive
    def _learn_row(self, z: ArrayLike, y: float, weight: float | None, elapsed: float | None) -> None:
        Z = self._row(z)
        labels = self._labels(y, 1)
        context = self._check_context(1, weight=weight, elapsed=elapsed)
        self._close(Z, lambda: self._play(Z, labels, context), context)

    def play(
        self,
        Z: RowsLike,
        y: ArrayLike,
        *,
        delay: Delay = 0,
        weight: ArrayLike | None = None,
        elapsed: ArrayLike | None = None,
    ) -> Trace:
        """Close a block of rounds; the same bits as `predict` then `learn`, row by row.

        With `delay`, a label is learned after that many further rows were served; the last rows wait for the next call.
        It is one number, or one for each row: `23 - hour` where the labels of a day become known together, at its end.
        A row counts `weight` times, and comes the time `elapsed` after the one before; both have a number for each row.
        """
        return self._play_block(Z, y, delay=delay, weight=weight, elapsed=elapsed)

    @thread_lock.hold_exclusive
    def _play_block(self, /, Z: RowsLike, y: ArrayLike, **given: Any) -> Trace:
        """Close a block of rounds in the context that is given."""
        block = self._block(Z)
        labels = self._labels(y, len(block))
        context = self._check_context(len(block), **given)
        if self._waits(context):
            return self._play_late(block, labels, context)
        return self._close(block, lambda: self._play(block, labels, context), context)

    @thread_lock.hold_exclusive
    def ask(self, z: ArrayLike, *, elapsed: float | None = None) -> ServedPrediction:
        """Serve a row that has really come: return its prediction, and keep a record of it until `tell`.

        Nothing that a label could change is changed. `ask` and `tell` at once are the same as `learn`. `elapsed` is the
        time since the row before, 1 by default; the past grows older by it when the label is learned.
        """
        return self._ask(self._row(z, "ask"), self._time(elapsed))

    @thread_lock.hold_exclusive
    def tell(self, served: ServedPrediction, y: float, *, weight: float | None = None) -> None:
        """Learn the label of a row that was served, from what was served; NaN says that it will never come.

        The row counts `weight` times, once by default.
        """
        if not isinstance(served, ServedPrediction):
            raise InputError(f"{_check.name_of(self)}: tell takes what ask returned, got {_check.describe(served)}")
        serial = self._pending.check(self, served, self._fingerprint, self.served_rows)
        context = self._check_context(1, weight=weight)
        missing = isinstance(y, (float, np.floating)) and math.isnan(y)
        label = math.nan if missing else float(self._labels([y], 1)[0])
        self._tell(serial, label, context.weights(1).item())

    @thread_lock.hold_shared
    def find_pending(self, serial: int) -> ServedPrediction:
        """Return the prediction with this serial number, if its label was not learned yet."""
        if serial not in self._pending:
            raise InputError(f"{_check.name_of(self)}: no row {serial} waits for its label")
        return self._make_served(serial, self._pending[serial])

    @property
    @thread_lock.hold_shared
    def pending(self) -> list[ServedPrediction]:
        """Predictions that were served and whose label was not learned yet, oldest first."""
        return [self._make_served(serial, self._pending[serial]) for serial in self._pending]

    def lacks_label(self, serial: int) -> bool:
        """Whether the row with this serial number was asked and waits for its label."""
        return self._pending.lacks_label(serial)

    def unlabelled_rows(self, most: int | None = None) -> list[int]:
        """Return the serial numbers of rows that were asked and wait for their label, oldest first, `most` of them."""
        return list(islice(self._pending.list_unlabelled(), most))

    @property
    def unlabelled_count(self) -> int:
        """How many rows were asked and wait for their label."""
        return self._pending.unlabelled

    @property
    def served_rows(self) -> int:
        """Rows served so far: the serial number of the last one."""
        return self.rounds + self._pending.unlearned

    def require(self, *needs: str) -> None:
        """Refuse what comes beside rows and labels, such as "weight", unless the learner supports it."""
        missing = [need for need in needs if need not in self.supports]
        if missing:
            are, it = ("are", "them") if len(missing) > 1 or "quantiles" in missing else ("is", "it")
            other = "OnlineRegressor" if "quantiles" in missing else "DiscountedVAW"
            raise InputError(
                f"{_check.name_of(self)}: {' and '.join(missing)} {are} not supported; leave {it} out, or use a "
                f"learner that takes {it}, such as {other}"
            )

    @property
    def discount(self) -> Discount:
        """The discount of its promise; 1, nothing is forgotten, unless the learner says otherwise."""
        return Discount(1.0, 0.0)

    @property
    def loss(self) -> Loss:
        """The loss it is for."""
        return logistic if self.binary else squared

    def template(self, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> Template:
        """Return the promise that covers a run over these rows and labels from the first round on.

        A fresh clone plays them; its `stability` and `potential` are the promise.
        """
        replayed = self.clone().play(Z, y, weight=context.weight, elapsed=context.elapsed)
        if replayed.stability is None or replayed.potential is None:
            raise ConditionError(
                f"certify: {_check.name_of(self)} makes no promise; pass a learner with a guarantee, a Template, or an "
                "object with template(Z, y)"
            )
        betas = None if context.ordinary else context.discounts(self.discount, len(y))
        return Template(self.discount, betas=betas, weights=context.weight, loss=self.loss, replayed=replayed)

    def leaf(self, Z: Matrix, y: Vector, u: Matrix | None) -> Leaf:
        """Return this learner as a leaf of a composite's certificate: a fresh clone plays the rows as they are."""
        return Leaf(repr(self), self, Z, y, self.clone().play(Z, y), u)

    def _construction(self) -> Construction:
        return Construction((), self.parameters)

    @classmethod
    def _saved_construction(cls, header: store.Header) -> Construction:
        return Construction((), header["parameters"])  # type: ignore[arg-type]  # __init__ checks every one of them

    def _composition(self) -> store.Header:
        """Return what a header says besides the parameters about what the learner is made of; nothing unless others."""
        return {}

    def _identity(self) -> list[object]:
        """Return what a record's layout and meaning depend on, as JSON values."""
        composition = self._composition()
        return [type(self).__name__, dict(self.parameters), *([composition] if composition else [])]

    @cached_property
    def _fingerprint(self) -> str:
        """A short text that learners of other classes, parameters or record layouts do not share."""
        text = json.dumps([RECORD_LAYOUT, *self._identity()], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @thread_lock.hold_exclusive
    def snapshot(self) -> tuple[store.Header, Arrays]:
        """Return everything the learner is: a JSON header and its arrays, copied."""
        header: store.Header = {
            "class": type(self).__name__,
            "parameters": dict(self.parameters),
            "rounds": self.rounds,
            "dim": self.dim,
            **self._composition(),
        }
        arrays = {} if self.dim is None else self._arrays()
        older = {EXTRA_AGE: np.array([self._extra_age])} if self._extra_age else {}
        return header, {name: np.array(array) for name, array in arrays.items()} | self._pending.arrays() | older

    def _load_snapshot(self, header: store.Header, arrays: Arrays) -> None:
        self._load_state(header["rounds"], header["dim"], arrays)

    def _load_state(self, rounds: object, dim: object, arrays: Arrays) -> None:
        """Take over the rounds, width and arrays of a snapshot; refuse what does not fit, before making room for it."""
        who = _check.name_of(self)
        try:
            self.rounds = _check.integer(self, "rounds", rounds, 0, MOST_ROUNDS)
            width = None if dim is None else _check.integer(self, "dim", dim, self.least_dim, MOST_FEATURES)
        except InputError as error:
            raise ModelFileError(f"{who}: the saved parameters cannot be used ({error})") from None
        if width is not None:
            self._refuse_small_arrays(width, arrays)
            self._begin(width)
            self.dim = width
            self._load_arrays(arrays)
        elif self.rounds or arrays:
            raise ModelFileError(f"{who}: it has rounds or arrays but no number of features")
        else:
            self._pending = PendingRecords()

    def _refuse_small_arrays(self, dim: int, arrays: Arrays) -> None:
        """Refuse saved arrays that hold fewer numbers than `dim` features need: a header alone makes no room."""
        if sum(array.size for array in arrays.values()) < self._min_array_size(dim):
            raise ModelFileError(f"{_check.name_of(self)}: the saved arrays are too small for {dim} features")

    def _min_array_size(self, dim: int) -> int:
        """Return a number that `dim` features need at least in the arrays, and that what `_begin` makes grows with."""
        return 0

    def _load_arrays(self, arrays: Arrays) -> None:
        """Fill the arrays that `_begin` set up, and take over unsettled records; refuse what does not fit."""
        records = {name: array for name, array in arrays.items() if name.startswith(PREFIX)}
        self._pending = PendingRecords.from_arrays(self, records, self.rounds, self._fits_record)
        self._extra_age = self._saved_age(arrays)
        arrays = {name: array for name, array in arrays.items() if name not in records and name != EXTRA_AGE}
        who, own = _check.name_of(self), self._arrays()
        for name in sorted(own.keys() ^ arrays.keys()):
            what = "lack" if name in own else "hold an unknown"
            raise ModelFileError(f"{who}: the saved arrays {what} {name!r:.60}")
        fill_arrays(who, own, arrays)

    def _saved_age(self, arrays: Arrays) -> float:
        """Return the age beyond the rounds that saved arrays hold; refuse what no learner writes."""
        saved = arrays.get(EXTRA_AGE, np.zeros(1))
        if saved.shape != (1,) or not np.isfinite(saved).all() or not saved[0] >= -self.rounds:
            raise ModelFileError(f"{_check.name_of(self)}: the saved array '{EXTRA_AGE}' cannot be used")
        return float(saved[0])

    def _begin(self, dim: int) -> None:
        raise NotImplementedError

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        raise NotImplementedError

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        raise NotImplementedError

    def _arrays(self) -> Arrays:
        raise NotImplementedError

    def _predictor(self, Z: Matrix) -> Self:
        """Return self, or before the first round a fresh learner of the width of `Z` to predict with."""
        if self.dim is not None:
            return self
        fresh = self.clone()
        fresh._begin(Z.shape[1])
        return fresh

    def _rows(self, z: ArrayLike) -> tuple[Matrix, bool]:
        """Return checked rows, and whether `z` was a single one."""
        Z = _check.rows(self, z, self.dim, nan=self.accepts_nan)
        if Z.shape[1] < self.least_dim:
            raise InputError(f"{_check.name_of(self)}: z must have at least one feature, got none")
        return Z, len(Z) == 1 and np.ndim(_check.fill_masked(z)) == 1

    def _row(self, z: ArrayLike, verb: str = "learn") -> Matrix:
        Z, _ = self._rows(z)
        if len(Z) != 1:
            raise InputError(f"{_check.name_of(self)}: {verb} takes one row, got {len(Z)}; use play(Z, y) for a block")
        return Z

    def _block(self, Z: ArrayLike) -> Matrix:
        if isinstance(Z, (list, tuple)) and not len(Z):
            return np.empty((0, self.dim or self.least_dim))
        rows, single = self._rows(Z)
        if single:
            raise InputError(f"{_check.name_of(self)}: play takes rows (n, d), got one row; use learn(z, y)")
        return rows

    def _labels(self, y: ArrayLike, count: int) -> Vector:
        return _check.signs(self, y, count) if self.binary else _check.column(self, "y", y, count)

    def _check_context(
        self,
        count: int,
        *,
        weight: ArrayLike | None = None,
        elapsed: ArrayLike | None = None,
        delay: Delay = 0,
        levels: Vector | None = None,
    ) -> RowContext:
        """Return the checked context of `count` rows; refuse what the learner does not support."""
        context = check_context(self, count, weight=weight, elapsed=elapsed, delay=delay, levels=levels)
        self.require(*context.needs)
        alike = isinstance(context.delay, list) and not self._pending.has_delays and len(set(context.delay)) < 2
        return context._replace(delay=context.longest_delay) if alike else context

    def _time(self, elapsed: float | None) -> float:
        """Return the checked time since the row before."""
        return 1.0 if elapsed is None else self._check_context(1, elapsed=elapsed).times(1).item()

    def _close(self, Z: Matrix, rounds: Callable[[], Columns], context: RowContext = ORDINARY) -> Trace:
        """Run checked rounds and count them; the past is older by the times of the rows."""
        first, who = self.rounds, (type(self).__name__, dict(self.parameters))
        if not len(Z):
            return Trace(np.empty(0 if self.outputs == 1 else (0, self.outputs)), np.empty(0), np.empty(0), *who, first)
        with self._save_point():
            self._fix_width(Z.shape[1])
            columns = rounds()
            self.rounds = first + len(Z)
            self._grow_older(context)
        known = np.ones(len(Z), bool)
        known[0] = first > 0
        return Trace(*columns, *who, first, known=known)

    def _save_point(self, committed: Callable[[], bool] | None = None) -> AbstractContextManager[object]:
        """Return what undoes a `with` block that raises, unless it was `committed`; rows that wait are left alone."""
        return SavePoint(self, leave=("_pending",), committed=committed)

    def _grow_older(self, context: RowContext) -> None:
        """Count the time that rows took beyond one round each; added up one by one, however they are cut."""
        if not context.ordinary:
            self._extra_age = float(np.cumsum(np.concatenate(([self._extra_age], context.extra_age)))[-1])

    def _advance(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        """Close rounds as a part of another learner, and count them."""
        columns = self._play(Z, y, context)
        self.rounds += len(y)
        self._grow_older(context)
        return columns

    def _adopt_arrays(self, whole: Learner) -> None:
        """Check the arrays, which the learner that this one is a part of has filled, and take over its age."""
        self._load_arrays({name: array.copy() for name, array in self._arrays().items()})
        self.rounds, self._extra_age = whole.rounds, whole._extra_age

    def _fix_width(self, dim: int) -> None:
        """Set up the arrays when the first row comes."""
        if self.dim is None:
            self._begin(dim)
            self.dim = dim

    def _waits(self, context: RowContext) -> bool:
        """Whether labels of a block are learned later than their rows, or earlier ones are due meanwhile."""
        return context.delay != 0 or self._pending.scheduled

    def _play_late(self, Z: Matrix, y: Vector, context: RowContext) -> Trace:
        """Serve rows one by one, and settle each label when it is due; all of it or nothing."""
        first = self.rounds
        served: list[ServedPrediction] = []
        with SavePoint(self):
            for t, elapsed in enumerate(context.times(len(Z)).tolist()):
                served.append(self._ask(Z[t : t + 1], elapsed))
                self._schedule(served[-1].serial, float(y[t]), context, t)
        return self._trace_served(served, first, context.longest_delay)

    def _trace_served(self, served: list[ServedPrediction], first: int, latest: int) -> Trace:
        """Return the trace of rows served after `first` rounds; the latest label comes after `latest` further rows."""
        yhat, known = np.array([row.yhat for row in served]), np.array([row.known for row in served], bool)
        return Trace(yhat, None, None, type(self).__name__, dict(self.parameters), first, known=known, delay=latest)

    def _schedule(self, serial: int, label: float, context: RowContext, t: int) -> None:
        """Keep the label of a block's row t, which was just served, and settle all that is due."""
        own = context.delay[t] if isinstance(context.delay, list) else None
        self._pending.schedule(serial, label, 1.0 if context.weight is None else float(context.weight[t]), own)
        for due, y in self._pending.due(serial, context.longest_delay if own is None else own):
            self._tell_waiting(due, y, self._pending.weight(due))

    def _ask(self, Z: Matrix, elapsed: float = 1.0) -> ServedPrediction:
        """Serve a checked row that comes after this time, and keep its record."""
        self._fix_width(Z.shape[1])
        serial, record = self.served_rows + 1, self._serve(Z, elapsed)
        self._pending.add(serial, record, elapsed)
        return self._make_served(serial, record)

    def _tell(self, serial: int, y: float, weight: float = 1.0) -> None:
        """Settle a record with a checked label, or close it if the label is NaN; all of it or nothing."""
        facts = self._pending.facts(serial)
        try:
            with self._save_point(committed=lambda: serial not in self._pending):
                self._tell_waiting(serial, y, weight)
        except BaseException:
            if serial in self._pending:
                self._pending.put_back(serial, *facts)
            raise

    def _tell_waiting(self, serial: int, y: float, weight: float) -> None:
        if np.isnan(y):
            self._pending.close(serial)
            return
        context = self._pending.context(serial, weight)
        self.require(*context.needs)
        newest = self._pending.is_newest(serial, self.served_rows)
        self._settle(self._pending[serial], y, context, newest=newest)
        self.rounds += 1
        self._grow_older(context)
        self._pending.settle(serial)

    def _serve(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        """Return the record of a row: whether a label was learned before, the prediction, and the row."""
        return np.concatenate(([float(self.rounds > 0)], self._predict(Z, elapsed).ravel(), Z[0]))

    def _settle(self, record: Vector, y: float, context: RowContext, *, newest: bool) -> None:
        """Learn a label from the record of its row; `newest` unless a row that was served later is settled already."""
        self._play(np.ascontiguousarray(record[None, 1 + self.outputs :]), np.array([y]), context)

    def _make_served(self, serial: int, record: Vector) -> ServedPrediction:
        """Return what was served, from its record."""
        return ServedPrediction(float(record[1]), bool(record[0]), serial, record.copy(), self._fingerprint)

    def _fits_record(self, record: Vector) -> bool:
        """Whether numbers of a file can be a record of this learner."""
        within = np.abs(record) <= _check.LIMIT
        size = 1 + self.outputs + (self.dim or 0)
        return len(record) == size and bool((within | (self.accepts_nan & np.isnan(record))).all())

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items() if value is not None)
        return f"{type(self).__name__}({given})"

    def _repr_html_(self) -> str:
        return html.facts_table(type(self).__name__, self._facts())

    def _facts(self) -> dict[str, str]:
        """Return what to say about the learner, in short."""
        given = {
            name: f"{value:.6g}" if isinstance(value, float) else str(value)
            for name, value in self.parameters.items()
            if value is not None
        }
        facts = given | {"rounds": f"{self.rounds:,}"}
        return facts if self.dim is None else facts | {"features": f"{self.dim:,}"}


class DiscountedLearner(Learner):
    """A learner in which a round of age $k$ counts $\\beta^k$."""

    _ridges: ClassVar[str] = "[1e-140, 1e140]"  # the values `reg` may take

    def __init__(self, *, beta: float | None, half_life: float | None, reg: float, **parameters: Scalar) -> None:
        if beta is None and half_life is None:
            beta = 0.99
        self._discount = make_discount(self, beta, half_life)
        self.reg = _check.interval(self, "reg", reg, self._ridges)
        super().__init__(beta=beta, half_life=half_life, reg=reg, **parameters)

    def _potential(self, count: int, context: RowContext) -> Vector:
        """Return the ridge after each of the coming rounds: it is forgotten like the data."""
        return self._discount.potential(self.reg, self.rounds + self._extra_age, count, context.elapsed)

    @property
    def discount(self) -> Discount:
        """The discount with 1 - beta to full precision."""
        return self._discount

    @property
    def beta(self) -> float:
        """Discount factor."""
        return self._discount.beta

    @property
    def half_life(self) -> float:
        """Rounds after which a round counts half; infinity for beta = 1."""
        return self._discount.half_life

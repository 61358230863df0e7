"""OnlineEstimator: what both online estimators are: columns, a core, rows that wait, and a view to inspect them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, kernels, store
from undrift._internal import thread_lock
from undrift._internal.discount import make_discount
from undrift._internal.rows import Rows, read_series
from undrift._typing import Arrays, Matrix, Vector
from undrift.errors import InputError, ModelFileError
from undrift.kernels.definitions import RecordPart
from undrift.learners.base import MOST_FEATURES, MOST_ROUNDS, Columns, Learner, Prediction
from undrift.learners.intervals import QUANTILES, Limits, quantiles_at
from undrift.learners.row_context import ORDINARY, WEIGHT_AND_TIME, RowContext
from undrift.learners.save_point import HeldInterrupt, SavePoint, put_back
from undrift.learners.serializable import number_items
from undrift.learners.served import PREFIX, PendingRecords, ServedPrediction
from undrift.online.classes import ClassCore
from undrift.online.columns import ArrivingRows, Candidates, FeatureColumns
from undrift.online.core import Core, CoreAnswers, least_array_size
from undrift.online.design import Design, label_center, make_design, make_leaves
from undrift.online.inspection import Inspection, read, reading
from undrift.online.plan import SPEEDS, PlanSettings
from undrift.regret import Leaf
from undrift.trace import Trace


class OneCall:
    """A `with` block around one compiled call: if it raises, the estimator is as before, or as after if that call ran.

    The core says which: rows are counted in its state. Nothing is copied, as the call changes all of the state or none
    of it. A single row of forests or several classes takes more than one call, and copying their states would cost more
    than the row: Ctrl-C waits for its end there.
    """

    def __init__(self, owner: OnlineEstimator, finish: Callable[[], object] | None = None) -> None:
        self._owner, self._finish, self._fields = owner, finish, dict(vars(owner))
        self._names, self._core = owner.names, None if owner.dim is None else owner._core
        self._counts = None if self._core is None else self._core.counts()
        single = None if self._core is None else self._core.single
        self._state = None if single is None or single.forests is not None else (single.plan, single.state)
        self._held = None if self._core is None or self._state is not None else HeldInterrupt()

    def __enter__(self) -> None:
        if self._held is not None:
            self._held.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._put_back()
        if self._held is not None:
            self._held.__exit__(kind, error, trace)

    def _put_back(self) -> None:
        owner = self._owner
        if owner.dim is not None and owner._core.counts() != (self._counts or (0.0, 0.0, 0.0)):
            if self._finish is not None:
                self._finish()
            owner._count()
            return
        put_back(owner, self._fields)
        owner._columns.names = self._names
        if self._state is not None and (single := owner._core.single) is not None:
            single._take_over(*self._state)
        owner._after_restore()


class OnlineEstimator(Learner):
    """Columns, a core that serves and settles rows, and the rows that wait for their labels.

    Subclasses say what labels and predictions mean.
    """

    accepts_nan: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    supports = WEIGHT_AND_TIME
    _limits: Limits = (None, None)
    _core: Core | ClassCore
    _bound: Core | None = None
    """The core whose plain single rows are served and learned by one call."""

    def __init__(
        self,
        *,
        speed: str = "best",
        indicators: bool = False,
        seed: int = 0,
        half_life: float | None = None,
        candidates: Candidates | None = None,
        trees: bool = True,
        loss: float | None = None,
    ) -> None:
        self.speed = _check.choice(self, "speed", speed, tuple(SPEEDS))
        self.trees = _check.flag(self, "trees", trees)
        self.indicators = _check.flag(self, "indicators", indicators)
        self.seed = _check.integer(self, "seed", seed, 0, 2**53)
        betas = None if half_life is None else (make_discount(self, None, half_life).beta,)
        self._columns = FeatureColumns(self, candidates, self.binary)
        self._settings = PlanSettings(
            self.binary, self.speed, self.seed, self.indicators, betas, self._columns.candidates, loss, self.trees
        )
        self.keeps_rows = self._settings.forests is not None
        more: dict[str, Any] = {} if candidates is None else {"candidates": _as_json(candidates)}
        more |= {} if self.trees else {"trees": False}
        super().__init__(speed=speed, indicators=self.indicators, seed=self.seed, half_life=half_life, **more)
        self._one_row = kernels.EstimatorRow(self._exclusive_lock)

    def without_trees(self) -> Self:
        """Return a fresh estimator with the same parameters that grows no trees."""
        return type(self)(**{**self._construction().named, "trees": False}) if self.keeps_rows else self.clone()

    @property
    def names(self) -> list[str] | None:
        """Names of the features, in order of appearance; None while rows had none."""
        return self._columns.names

    def name_features(self, names: Sequence[str]) -> None:
        """Give the features names before the first row."""
        self._columns.names = list(names)

    # ---- rounds ------------------------------------------------------------------------------------------------

    def _score(self, z: Rows, elapsed: float | None) -> Prediction:
        """Return predictions as the core makes them: numbers, log-odds, or log-probabilities by class number."""
        time = 1.0 if elapsed is None else self._time(elapsed)
        yhat = self._one_row.predict(z, time)
        if yhat is None:
            yhat = self._one_row.predict(z := read_series(z), time)
        return self._score_any(z, time) if yhat is None else yhat

    @thread_lock.hold_shared
    def _score_any(self, z: Rows, elapsed: float = 1.0) -> Prediction:
        Z, _, single = self._columns.read(z, self.dim, learned=False)
        yhat = self._predictor(Z)._predict(Z, elapsed)
        return (float(yhat[0]) if yhat.ndim == 1 else yhat[0]) if single else yhat

    def learn(
        self,
        z: Rows,
        y: Any,
        *,
        weight: float | None = None,
        elapsed: float | None = None,
        served: ServedPrediction | None = None,
    ) -> None:
        """Close one round: the label `y` of row `z` has become known. A NaN label only updates last-seen values.

        The row counts `weight` times in the memories, once by default; `elapsed` is the time since the row before, 1 by
        default. With `served`, which `peek` returned for this row, the label is learned from what was predicted then,
        as by `ask` then and `tell` now, but for what depends on features alone, which advances now.
        """
        label, context = self._plain_label(y), ORDINARY
        if weight is not None or elapsed is not None:
            context = self._check_context(1, weight=weight, elapsed=elapsed)
        if label is None or not (
            self._learn_quickly(z, label, context, served)
            or self._learn_quickly(z := read_series(z), label, context, served)
        ):
            self._learn_any(z, y, context, served)

    def _learn_quickly(self, z: Rows, y: float, context: RowContext, served: ServedPrediction | None) -> bool:
        """Learn a plain row and label by one compiled call; False if they are not plain, and nothing was done."""
        weight = 1.0 if context.weight is None else context.weight.item()
        if served is None:
            elapsed = 1.0 if context.elapsed is None else context.elapsed.item()
            return self._one_row.learn(self, z, y, weight, elapsed)
        if not len(served.record):
            return False
        record = served.record.copy()
        record[RecordPart.WEIGHT] = weight
        return self._one_row.learn_peeked(self, z, y, record, served.rounds)

    @thread_lock.hold_exclusive
    def _learn_any(
        self, z: Rows, y: Any, context: RowContext = ORDINARY, served: ServedPrediction | None = None
    ) -> None:
        arriving = self._read_row(z, "learn", "use play(Z, y) for a block")
        if served is None:
            self._close_rounds(arriving, y, context)
            return
        several = self.dim is not None and self._core.single is None  # whose states are too large to copy for a row
        with OneCall(self) if several else SavePoint(self, leave=("_pending",)):
            label = self._encode(y, arriving)
            both = context.weights(1).item(), context.times(1).item()
            self._core.settle_peeked(arriving.values, served.record, served.rounds, label, *both)
            self._count()

    @thread_lock.hold_exclusive
    def _play_block(self, /, Z: Rows, y: ArrayLike, **given: Any) -> Trace:
        arriving = self._columns.read(Z, self.dim, learned=True)
        if arriving.single:
            raise InputError(f"{_check.name_of(self)}: play takes rows (n, d), got one row; use learn(z, y)")
        return self._close_rounds(arriving, y, self._check_context(len(arriving.values), **given))

    def _close_rounds(self, arriving: ArrivingRows, y: Any, context: RowContext) -> Trace:
        """Check labels and close the rounds of checked rows."""
        rows, first, waits = arriving.values, self.rounds, self._waits(context)
        labels = self._labels(y, len(rows))
        if not len(rows):
            nothing = CoreAnswers(np.empty(0), np.empty(0, bool), np.empty((0, len(QUANTILES))))
            return self._trace(nothing, first, context)
        several_calls = waits or (self.keeps_rows and len(rows) > 1)
        with SavePoint(self) if several_calls else OneCall(self):
            self._note_labels(y)
            self._admit(arriving)
            answers = self._play_late_rows(rows, labels, context) if waits else self._core.play(rows, labels, context)
            self._count()
        return self._trace(answers, first, context)

    def _trace(self, answers: CoreAnswers, first: int, context: RowContext) -> Trace:
        who = type(self).__name__, dict(self.parameters)
        quantiles = None
        if answers.tracked is not None and context.levels is not None:
            quantiles = quantiles_at(answers.tracked, context.levels, self._limits)
        return Trace(
            answers.yhat, None, None, *who, first, quantiles=quantiles, known=answers.known, delay=context.longest_delay
        )

    def _play_late_rows(self, Z: Matrix, y: Vector, context: RowContext) -> CoreAnswers:
        """Serve rows, and settle every label when it is due: in one call where no other rows wait, else row by row."""
        core, pending = self._core, self._pending
        waiting, scheduled, delay = list(pending), pending.scheduled_labels, context.delay
        alike = isinstance(core, Core) and all(len(pending[serial]) == core.record_size for serial in waiting)
        ready = not pending.has_delays and len(scheduled) == len(waiting)
        if not (isinstance(core, Core) and alike and ready and isinstance(delay, int) and len(waiting) <= delay):
            records, weights = [], context.weights(len(Z))
            for t, elapsed in enumerate(context.times(len(Z)).tolist()):
                record = core.serve(Z[t : t + 1], elapsed)
                if core.single is not None:
                    record[RecordPart.WEIGHT] = weights[t]
                records.append(self._keep(record).record)
                self._schedule(int(record[RecordPart.SERIAL]), float(y[t]), context, t)
            return core.read_rows(records, context)
        labels = np.concatenate(([scheduled[serial] for serial in waiting], y))
        before = np.array([pending[serial] for serial in waiting]).reshape(-1, core.record_size)
        every = core.play_late(Z, labels, before, context)
        self._pending = PendingRecords()
        late = slice(max(0, len(labels) - delay), None)
        for record, label in zip(every[late], labels[late], strict=True):
            serial = self._keep(record.copy()).serial
            self._pending.schedule(serial, float(label), float(record[RecordPart.WEIGHT]))
        return core.read_rows(every[len(waiting) :], context)

    # ---- rows that wait ----------------------------------------------------------------------------------------

    @thread_lock.hold_exclusive
    def ask(self, z: Rows, *, elapsed: float | None = None) -> ServedPrediction:
        """Serve a row that has really come: return its prediction, and keep a record of it until `tell`.

        What depends on features alone advances (last-seen values, scaling); nothing that a label could change does.
        `elapsed` is the time since the row before, 1 by default.
        """
        time = 1.0 if elapsed is None else self._time(elapsed)
        if self.dim is not None:
            record = np.zeros(self._core.record_size)
            if self._serve_quickly(z, record, True, time):
                return self._keep(record)
        arriving = self._read_row(z, "ask", "use ask_rows for a block")
        self._admit(arriving)
        return self._keep(self._serve_row(arriving.values[0], time))

    @thread_lock.hold_exclusive
    def ask_rows(self, Z: Rows, *, elapsed: ArrayLike | None = None) -> list[ServedPrediction]:
        """Serve a block of rows that have come, each as `ask` would."""
        arriving = self._columns.read(Z, self.dim, learned=True)
        rows = arriving.values
        times = self._check_context(len(rows), elapsed=elapsed).times(len(rows)).tolist()
        if not len(rows):
            return []
        self._admit(arriving)
        return [self._keep(self._serve_row(rows[t], time)) for t, time in enumerate(times)]

    @thread_lock.hold_exclusive
    def tell(self, served: ServedPrediction, y: Any, *, weight: float | None = None) -> None:
        """Learn the label of a row that was served, from what was served; NaN says that it will never come.

        The row counts `weight` times in the memories, once by default.
        """
        if not isinstance(served, ServedPrediction):
            raise InputError(f"{_check.name_of(self)}: tell takes what ask returned, got {_check.describe(served)}")
        serial = self._pending.check(self, served, self._fingerprint, self.served_rows)
        count = 1.0 if weight is None else self._check_context(1, weight=weight).weights(1).item()
        label = self._plain_label(y)
        if label is None or count != 1.0 or not self._settle_quickly(serial, label):
            with SavePoint(self) if self._changes_core(y) else OneCall(self):
                label = self._encode(y)
            self._tell(serial, label, count)

    @thread_lock.hold_exclusive
    def settle_due(self, delay: int) -> None:
        """Learn the labels of played rows that are due if labels are `delay` rows late, after rows that were asked."""
        if self._pending.scheduled:
            for serial, y in self._pending.due(self.served_rows, delay):
                self._tell(serial, y, self._pending.weight(serial))

    @thread_lock.hold_exclusive
    def tell_rows(self, served: Sequence[ServedPrediction], y: Sequence[Any]) -> None:
        """Learn the labels of rows that were served, in this order, each as `tell` would; all are checked first."""
        for row in served:
            self._pending.check(self, row, self._fingerprint, self.served_rows)
        self._refuse_labels(y)
        for row, label in list(zip(served, y, strict=True)):
            self.tell(row, label)

    def _settle_quickly(self, serial: int, y: float) -> bool:
        """Learn a plain label of a row that waits by one compiled call; False if that cannot be done."""
        single = self._core.single
        if single is None:
            return False
        before = single.count_closed()
        try:
            if not self._one_row.settle(self, self._pending[serial], y):
                return False
            self._pending.close(serial)
            self._pending.unlearned -= y == y
        except BaseException:
            if single.count_closed() != before:  # an interrupt after the call
                self._pending.discard(serial)
                self._count()
            raise
        return True

    def _tell(self, serial: int, y: float, weight: float = 1.0) -> None:
        with OneCall(self, finish=lambda: self._pending.discard(serial)):
            self._tell_waiting(serial, y, weight)

    def _tell_waiting(self, serial: int, y: float, weight: float) -> None:
        self._core.settle(self._pending[serial], y, weight)
        self._count()
        self._pending.close(serial)

    def peek(self, z: Rows, *, elapsed: float | None = None) -> ServedPrediction:
        """Return what would be served for one row that might come next; nothing changes.

        It is for hosts that cannot say which row has come, only predict and learn, as River does: they keep what `peek`
        returned beside the row, and learn it by `learn(z, y, served=...)`. Its serial number is 0.
        """
        rounds = self.rounds  # labels that come meanwhile make the record seem later than it is, never earlier
        time = 1.0 if elapsed is None else self._time(elapsed)
        if self.dim is not None:
            record = np.zeros(self._core.record_size)
            if self._serve_quickly(z, record, False, time):
                return self._make_served(0, record, rounds)
        return self._peek_any(z, time)

    @thread_lock.hold_shared
    def _peek_any(self, z: Rows, elapsed: float) -> ServedPrediction:
        Z = self._columns.read(z, self.dim, learned=False).values
        if len(Z) != 1:
            raise InputError(f"{_check.name_of(self)}: peek takes one row, got {len(Z)}; peek row by row")
        if self.dim is None:
            return ServedPrediction(0.0, False, 0, np.empty(0), self._fingerprint)
        return self._make_served(0, self._core.serve(Z, elapsed, commit=False), self.rounds)

    @thread_lock.hold_exclusive
    def release_record(self, serial: int) -> Vector:
        """Return all that is kept of a row that waits for its label, as one vector, and keep it no longer.

        Give it back with `adopt_record` before the label is told, whatever was learned since.
        """
        return self._pending.release(serial)

    @thread_lock.hold_exclusive
    def adopt_record(self, serial: int, record: Vector) -> ServedPrediction:
        """Keep a row again that `release_record` gave away, and return what was served; refuse other numbers."""
        if not self._fits_record(record) or record[RecordPart.SERIAL] != serial:
            raise ModelFileError(f"{_check.name_of(self)}: the saved record of row {serial} cannot be used")
        self._pending.adopt(serial, record)
        return self._make_served(serial, record)

    def _serve_quickly(self, z: Rows, record: Vector, commit: bool, elapsed: float) -> bool:
        """Fill the record of a plain row by one compiled call; False if it is not plain, and nothing was done."""
        serve = self._one_row.serve
        return serve(z, record, commit, elapsed) or serve(read_series(z), record, commit, elapsed)

    def _serve_row(self, row: Vector, elapsed: float) -> Vector:
        """Return the record of a checked row (d,) that has come."""
        record = np.zeros(self._core.record_size)
        return record if self._one_row.serve(row, record, True, elapsed) else self._core.serve(row[None], elapsed)

    def _keep(self, record: Vector) -> ServedPrediction:
        """Keep the record of a row that was just served, and return what it says."""
        record.setflags(write=False)
        serial = int(record.item(RecordPart.SERIAL))
        self._pending.add(serial, record)
        return self._make_served(serial, record)

    def _make_served(self, serial: int, record: Vector, rounds: int = 0) -> ServedPrediction:
        yhat, known, at = self._core.read(record)
        return ServedPrediction(yhat, known, serial, record, self._fingerprint, rounds, at, self._limits)

    def _fits_record(self, record: Vector) -> bool:
        return self._core.fits(record)

    # ---- what subclasses say -----------------------------------------------------------------------------------

    def _plain_label(self, y: object) -> float | None:
        """Return a label as the core learns it if there is nothing to check or to remember about it, else None."""
        raise NotImplementedError

    def _note_labels(self, y: object) -> None:
        """Remember how checked labels are called; numbers have no names."""

    def _changes_core(self, y: object) -> bool:
        """Whether a label needs another core."""
        return False

    def _encode(self, y: Any, arriving: ArrivingRows | None = None) -> float:
        """Return one label as the core learns it, once it was checked and remembered; `arriving` is its row, if new."""
        label = float(self._labels(y, 1)[0])
        self._note_labels(y)
        if arriving is not None:
            self._admit(arriving)
        return label

    def _refuse_labels(self, y: Sequence[Any]) -> None:
        """Refuse labels of which one cannot be learned."""
        self._labels(y, len(y))

    def _labels(self, y: ArrayLike, count: int) -> Vector:
        return _check.column(self, "y", y, count, nan=True)

    # ---- the core ----------------------------------------------------------------------------------------------

    def _read_row(self, z: Rows, verb: str, cure: str) -> ArrivingRows:
        arriving = self._columns.read(z, self.dim, learned=True)
        if len(arriving.values) != 1:
            raise InputError(f"{_check.name_of(self)}: {verb} takes one row, got {len(arriving.values)}; {cure}")
        return arriving

    def _admit(self, arriving: ArrivingRows) -> None:
        """Set up the core when the first rows come, and make room for names that are new."""
        names, width = arriving.names, arriving.values.shape[1] - self._columns.given
        self._columns.names = names
        if self.dim is None:
            self._fix_width(width)
        elif width > self.dim:
            self._core.grow(width - self.dim)
            self.dim = width
            self._bind()

    def _begin(self, dim: int) -> None:
        self._core = Core(self._settings, dim)
        self._bind()

    def _predictor(self, Z: Matrix) -> Self:
        return super()._predictor(Z[:, : Z.shape[1] - self._columns.given])

    def _bind(self) -> None:
        """Serve and learn plain single rows by a call of their own; others are brought into order first."""
        self._bound = core = self._core.single
        self._one_row = kernels.EstimatorRow(self._exclusive_lock)
        if core is not None and not self._columns.given:
            names = None if self.names is None else tuple(self.names)
            self._one_row.bind(core.plan.kernel, core.state, names, None if core.forests is None else core.forests.row)

    def _after_restore(self) -> None:
        """Serve and learn single rows by the state that was put back."""
        if self.dim is not None:
            self._bind()

    def _save_point(self, committed: Callable[[], bool] | None = None) -> AbstractContextManager[object]:
        return OneCall(self)

    def _count(self) -> None:
        """Take the counts of rounds and of rows never learned from the core."""
        self.rounds = self._core.rounds
        self._pending.unlearned = self._core.served - self.rounds
        if self._bound is not self._core.single:
            self._bind()

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Any:
        return self._core.predict(Z, elapsed)

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        return Columns(self._core.play(Z, y, context).yhat)

    # ---- files -------------------------------------------------------------------------------------------------

    def _arrays(self) -> Arrays:
        return self._core.arrays()

    @thread_lock.hold_exclusive
    def snapshot(self) -> tuple[store.Header, Arrays]:
        """Return everything the estimator is: a JSON header and its arrays, copied."""
        header, arrays = super().snapshot()
        if self.names is not None:
            header["names"] = number_items(self.names)
        return header | ({} if self.dim is None else self._core.facts()), arrays

    def _load_snapshot(self, header: store.Header, arrays: Arrays) -> None:
        who, dim, names = type(self).__name__, header.get("dim"), header.get("names")
        if dim is None:
            super()._load_snapshot(header, arrays)
            return
        if not (isinstance(dim, int) and 1 <= dim <= MOST_FEATURES):
            raise ModelFileError(f"{who}: the saved number of features cannot be used")
        self._refuse_small_arrays(dim, arrays)
        self.rounds = _check.integer(self, "rounds", header["rounds"], 0, MOST_ROUNDS)
        self._core, self.dim = self._core_of(header, dim), dim
        if names is not None:
            saved = [names.get(str(j)) for j in range(dim)] if isinstance(names, dict) else []
            if len(set(map(str, saved))) != dim or not all(isinstance(name, str) for name in saved):
                raise ModelFileError(f"{who}: the saved names do not fit the features")
            self._columns.names = [str(name) for name in saved]
        self._load_arrays(arrays)

    def _core_of(self, header: store.Header, dim: int) -> Core | ClassCore:
        """Return a fresh core as a saved header describes it."""
        return Core.from_facts(self, self._settings, header, dim)

    def _load_arrays(self, arrays: Arrays) -> None:
        records = {name: array for name, array in arrays.items() if name.startswith(PREFIX)}
        self._core.load_arrays(self, {name: array for name, array in arrays.items() if name not in records})
        if self._core.rounds != self.rounds:
            raise ModelFileError(f"{type(self).__name__}: the saved counts cannot be used")
        self._pending = PendingRecords.from_arrays(self, records, self.rounds, self._fits_record)
        self._adopt_state()
        self._bind()

    def _adopt_state(self) -> None:
        """Take over what a loaded state says about the estimator."""
        self._count()

    def _min_array_size(self, dim: int) -> int:
        return least_array_size(self._settings, dim)

    # ---- reading it --------------------------------------------------------------------------------------------

    @property
    def inspect(self) -> Inspection:
        """A view of what was learned: candidates, weights, bounds, memories, coefficients, counts."""
        core = None if self.dim is None else self._core
        return Inspection(core if isinstance(core, Core) else None, self._columns, self._shared_lock)

    plan, part = read(Inspection.plan), reading(Inspection.part)
    candidates, weights, losses = read(Inspection.candidates), read(Inspection.weights), read(Inspection.losses)
    cost, spectrum, line = reading(Inspection.cost), reading(Inspection.spectrum), reading(Inspection.line)
    effects, combination = reading(Inspection.effects), reading(Inspection.combination)
    arms = reading(Inspection.arms)
    floored, missing, unlabelled = read(Inspection.floored), read(Inspection.missing), read(Inspection.unlabelled)

    def design(self, Z: Rows, y: ArrayLike, family: str = "linear") -> Design:
        """Return the rows of a whole run as the learners inside saw them: where comparators of `certify` live."""
        return make_design(self, Z, y, family)

    def leaves(self, Z: Rows, y: ArrayLike, u: Matrix | None) -> list[Leaf]:
        """Return every memory of every family as a leaf of this estimator's certificate; `u` lives in `design`."""
        return make_leaves(self, Z, y, u)

    def label_center(self, y: Vector) -> float:
        """Return what the families take off the labels of a whole run; 0 for two classes."""
        return label_center(self, y)

    def _facts(self) -> dict[str, str]:
        facts = super()._facts()
        if self.names:
            facts["features"] = self.inspect.shown_names()
        return facts | (self.inspect.facts() if self.rounds else {})


def _as_json(candidates: Candidates) -> Any:
    """Return candidates as a header holds them."""
    if isinstance(candidates, Mapping):
        return {name: {str(label): column for label, column in each.items()} for name, each in candidates.items()}
    return list(candidates)

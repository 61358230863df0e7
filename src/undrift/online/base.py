"""OnlineLearner: what both online estimators are, around one state vector and the compiled round that advances it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, kernels, store
from undrift._internal import thread_lock
from undrift._internal.discount import make_discount
from undrift._typing import Arrays, Matrix, Vector
from undrift.errors import InputError, ModelFileError
from undrift.kernels import layout
from undrift.kernels.definitions import EstimatorNumber, RecordPart
from undrift.learners.base import MOST_FEATURES, MOST_ROUNDS, Columns, Prediction
from undrift.learners.row_context import ORDINARY, WEIGHT_AND_TIME, Delay, RowContext
from undrift.learners.save_point import HeldInterrupt, SavePoint, put_back
from undrift.learners.serializable import number_items
from undrift.learners.served import PendingRecords, ServedPrediction
from undrift.online.design import DesignedLearner
from undrift.online.forests import PREFIX as FORESTS_PREFIX
from undrift.online.forests import Forests
from undrift.online.growth import grow_state, widen_record
from undrift.online.inspection import Inspection
from undrift.online.intervals import Limits, read_quantiles
from undrift.online.memories import BETAS
from undrift.online.named_rows import GivenCandidates, check_candidates
from undrift.online.peeked import PeekedRows
from undrift.online.plan import SPEEDS, EstimatorPlan, make_plan
from undrift.online.refit_schedule import ForestPlan
from undrift.online.rows import Rows, read_series
from undrift.trace import Trace


class OneCall:
    """A `with` block around one compiled call: if it raises, the estimator is as before, or as after if that call ran.

    The state says which: rows are counted in it. Nothing is copied, as the call changes all of the state or none of it.
    A single row of forests or several classes takes more than one call, and copying their states would cost more than
    the row: Ctrl-C waits for its end there.
    """

    def __init__(self, owner: OnlineLearner, finish: Callable[[], object] | None = None) -> None:
        self._owner, self._finish, self._fields = owner, finish, dict(vars(owner))
        self._counts = None if owner.dim is None else owner._row_counts()
        self._held = HeldInterrupt() if owner._takes_several_calls() else None

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
        owner, fresh = self._owner, (0.0, 0.0, 0.0)
        if owner.dim is not None and owner._row_counts() != (self._counts or fresh):
            if self._finish is not None:
                self._finish()
            owner._count()
        else:
            put_back(owner, self._fields)
            owner._after_restore()


class OnlineLearner(Inspection, PeekedRows, DesignedLearner):
    """One state vector, a plan that says what its parts are, and the round that serves and settles rows.

    Subclasses say what labels and predictions mean.
    """

    accepts_nan: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    supports = WEIGHT_AND_TIME
    _limits: Limits = (None, None)
    _loss: float | None = None
    """Level of the pinball loss by which given candidates are combined; None: that of the task."""

    def __init__(
        self,
        *,
        speed: str = "best",
        indicators: bool = False,
        seed: int = 0,
        half_life: float | None = None,
        candidates: Sequence[str] | Sequence[int] | None = None,
        trees: bool = True,
    ) -> None:
        self.speed = _check.choice(self, "speed", speed, tuple(SPEEDS))
        self.trees = _check.flag(self, "trees", trees)
        self.indicators = _check.flag(self, "indicators", indicators)
        self.seed = _check.integer(self, "seed", seed, 0, 2**53)
        self._betas = None if half_life is None else (make_discount(self, None, half_life).beta,)
        self.keeps_rows = self._forest_plan is not None
        columns = check_candidates(self, candidates)
        self._given = GivenCandidates(self, columns, self.binary)
        more = ({} if columns is None else {"candidates": columns}) | ({} if self.trees else {"trees": False})
        super().__init__(speed=speed, indicators=self.indicators, seed=self.seed, half_life=half_life, **more)  # type: ignore[arg-type]  # a list of names or numbers, which JSON holds too
        self.names = None
        self._forests: Forests | None = None
        self._one_row = kernels.EstimatorRow(self._exclusive_lock)

    @property
    def _forest_plan(self) -> ForestPlan | None:
        return SPEEDS[self.speed].forests if self.trees else None

    def without_trees(self) -> Self:
        """Return a fresh estimator with the same parameters that grows no trees."""
        if not self.keeps_rows:
            return self.clone()
        return type(self)(**{**self.parameters, "trees": False})  # type: ignore[arg-type]  # its own parameters

    def _make_forests(self, dim: int) -> Forests | None:
        """Return the forests to be grown beside the estimator, if any."""
        plan = self._forest_plan
        return None if plan is None else Forests(plan, dim, self.binary, self.seed)

    def _plan_for(self, dim: int, began: int) -> EstimatorPlan:
        forests = self._forest_plan
        trees = () if forests is None else forests.names
        offered = self._given.labels
        return make_plan(
            self.binary, dim, began, self.speed, self.seed, self.indicators, self._betas, offered, trees, self._loss
        )

    def _plan_at(self, width: int) -> EstimatorPlan:
        """Return the plan as it was when rows had this width: until the end of the warm-up the core grows with them."""
        return self._plan_for(width, min(width, self._plan.began))

    def _plan_of(self, record: Vector) -> EstimatorPlan:
        """Return the plan by which a record was written, which says where its parts are."""
        width = int(record.item(RecordPart.WIDTH))
        return self._plan if width == self._plan.dim else self._plan_at(width)

    def _begin(self, dim: int) -> None:
        plan = self._plan_for(dim, dim)
        self._forests = self._make_forests(dim)
        self._take_over(plan, plan.blank())

    def _take_over(self, plan: EstimatorPlan, state: Vector) -> None:
        """Work with this state from now on; single rows, too, which are served and learned by a call of their own."""
        self._plan, self._state = plan, state
        if len(self._given):
            return  # rows are brought into order by the general code first
        forests = None if self._forests is None else self._forests.row
        self._one_row.bind(plan.kernel, state, None if self.names is None else tuple(self.names), forests)

    def _number(self, which: EstimatorNumber) -> float:
        return float(self._state[self._plan.layout.starts["numbers"] + which])

    def _row_counts(self) -> tuple[float, ...]:
        """Return how many rows were served, learned, and closed without a label."""
        which = EstimatorNumber.SERVED, EstimatorNumber.ROUNDS, EstimatorNumber.UNLABELLED
        return tuple(self._number(number) for number in which)

    def _count(self) -> None:
        """Take the counts of rounds and of rows never learned from the state."""
        self.rounds = int(self._number(EstimatorNumber.ROUNDS))
        self._pending.unlearned = int(self._number(EstimatorNumber.SERVED)) - self.rounds

    def learn(self, z: Rows, y: float, *, weight: float | None = None, elapsed: float | None = None) -> None:
        """Close one round: the label `y` of row `z` has become known. A NaN label only updates last-seen values.

        The row counts `weight` times in the memories, once by default; `elapsed` is the time since the row before, 1 by
        default.
        """
        label = self._plain_label(y)
        context = self._check_context(1, weight=weight, elapsed=elapsed)
        if context.ordinary and label is not None:
            if self._one_row.learn(self, z, label):
                return
            z = read_series(z)
            if self._one_row.learn(self, z, label):
                return
        self._learn_any(z, y, context)

    @thread_lock.hold_exclusive
    def _learn_any(self, z: Rows, y: float, context: RowContext = ORDINARY) -> None:
        arriving = self._rows_to_learn(z)
        if len(arriving.values) != 1:
            raise InputError(
                f"{_check.name_of(self)}: learn takes one row, got {len(arriving.values)}; use play(Z, y) for a block"
            )
        labels = self._labels(y, 1)
        with self._save_point():
            self._name_labels(y)
            self._admit(arriving.names)
            self._close(arriving.values, lambda: self._play(arriving.values, labels, context), context)

    @thread_lock.hold_exclusive
    def ask(self, z: Rows, *, elapsed: float | None = None) -> ServedPrediction:
        """Serve a row that has really come: return its prediction, and keep a record of it until `tell`.

        What depends on features alone advances (last-seen values, scaling); nothing that a label could change does.
        `elapsed` is the time since the row before, 1 by default.
        """
        time = self._time(elapsed)
        if self.dim is not None and time == 1.0:
            record = np.zeros(self._plan.kernel.record_size)
            if self._one_row.serve(z, record, True) or self._one_row.serve(z := read_series(z), record, True):
                return self._keep(record)
        arriving = self._rows_to_learn(z)
        if len(arriving.values) != 1:
            raise InputError(f"{_check.name_of(self)}: ask takes one row, got {len(arriving.values)}; ask row by row")
        self._admit(arriving.names)
        return self._ask(arriving.values, time)

    def play(
        self,
        Z: Rows,
        y: ArrayLike,
        *,
        delay: Delay = 0,
        weight: ArrayLike | None = None,
        elapsed: ArrayLike | None = None,
    ) -> Trace:
        """Close a block of rounds; the same bits as `predict` then `learn`, row by row.

        With `delay`, a label is learned after that many further rows were served; the last rows wait for the next call.
        It is one number, or one for each row: `23 - hour` where the labels of a day become known together, at its end.
        A row counts `weight` times in the memories, and comes the time `elapsed` after the one before.
        """
        return self._play_block(Z, y, delay, None, weight, elapsed)

    @thread_lock.hold_exclusive
    def _play_block(
        self,
        Z: Rows,
        y: ArrayLike,
        delay: Delay,
        levels: Vector | None = None,
        weight: ArrayLike | None = None,
        elapsed: ArrayLike | None = None,
    ) -> Trace:
        arriving = self._rows_to_learn(Z)
        if arriving.single:
            raise InputError(f"{_check.name_of(self)}: play takes rows (n, d), got one row; use learn(z, y)")
        rows = arriving.values
        labels = self._labels(y, len(rows))
        context = self._check_context(len(rows), weight=weight, elapsed=elapsed, delay=delay)
        if not len(rows):
            empty = None if levels is None else np.empty((0, len(levels)))
            return replace(self._close(rows, lambda: Columns(np.empty(0))), quantiles=empty)
        first, who, waits = self.rounds, (type(self).__name__, dict(self.parameters)), self._waits(context)
        several_calls = waits or (self._forests is not None and len(rows) > 1)
        with SavePoint(self) if several_calls else OneCall(self):
            self._name_labels(y)
            self._admit(arriving.names)
            self._fix_width(rows.shape[1])
            if waits:
                records = self._serve_and_settle(rows, labels, context)
                yhat, known = records[:, RecordPart.YHAT].copy(), records[:, RecordPart.KNOWN] > 0.0
                tracked = read_quantiles(records, self._plan.kernel.quantiles_at) if levels is not None else None
            else:
                yhat, some_known = np.empty(len(rows)), np.empty(len(rows))
                tracked = np.empty((0 if levels is None else len(rows), self._plan.quantiles))
                self._play_at_once(rows, labels, yhat, tracked, some_known, context)
                known = some_known > 0.0
                self._count()
        quantiles = None if levels is None or tracked is None else self._quantiles_at(tracked, levels)
        return Trace(yhat, None, None, *who, first, quantiles=quantiles, known=known, delay=context.longest_delay)

    def _quantiles_at(self, tracked: Matrix, levels: Vector) -> Matrix:
        """Return the quantiles of some levels (n, levels) from the tracked ones."""
        raise NotImplementedError

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        yhat, rows = np.empty(len(Z)), self._add_answers(Z)
        status = self._plan.kernel.predict_rows(self._state, rows, yhat, elapsed)
        _check.raise_on_status(self, status, rows.shape[1])
        return yhat

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        yhat, none = np.empty(len(y)), np.empty((0, self._plan.quantiles))
        self._play_at_once(Z, y, yhat, none, np.empty(0), context)
        return Columns(yhat)

    def _serve_and_settle(self, Z: Matrix, y: Vector, context: RowContext) -> Matrix:
        """Serve rows and settle what was served `delay` rows before each; return the records of the rows."""
        delay = context.delay
        waiting, size, before = list(self._pending), self._plan.kernel.record_size, len(self._pending)
        scheduled, others = self._pending.scheduled_labels, self._pending.has_delays
        if isinstance(delay, list) or others or before > delay or len(scheduled) < before:
            return self._serve_and_settle_singly(Z, y, context)
        if any(len(self._pending[k]) != size for k in waiting):
            return self._serve_and_settle_singly(Z, y, context)
        records = np.zeros((before + len(y), size))
        for k, serial in enumerate(waiting):
            records[k] = self._pending[serial]
        labels = np.concatenate(([scheduled[serial] for serial in waiting], y))
        contexts = self._play_late_blocks(Z, labels, records, waiting, delay, context)
        self._pending = PendingRecords()
        settled = max(0, len(labels) - delay)
        for k in range(settled, len(labels)):
            serial = int(records[k, RecordPart.SERIAL])
            self._pending.add(serial, records[k].copy())
            self._pending.schedule(serial, float(labels[k]), float(records[k, RecordPart.WEIGHT]))
            if self._forests is not None:
                self._forests.keep(serial, contexts[k].copy())
        self._count()
        return records[before:]

    def _serve_and_settle_singly(self, Z: Matrix, y: Vector, context: RowContext) -> Matrix:
        """Do the same where other records wait too: row by row, every scheduled label when it is due."""
        records = []
        for t, elapsed in enumerate(context.times(len(Z)).tolist()):
            served = self._ask(Z[t : t + 1], elapsed)
            records.append(served.record)
            self._pending[served.serial][RecordPart.WEIGHT] = context.weights(len(Z))[t]
            self._schedule(served.serial, float(y[t]), context, t)
        return np.stack(records)

    def _ask(self, Z: Matrix, elapsed: float = 1.0) -> ServedPrediction:
        self._fix_width(Z.shape[1])
        return self._keep(self._serve_row(Z, elapsed))

    def _keep(self, record: Vector) -> ServedPrediction:
        """Keep the record of a row that was just served, and return what it says."""
        serial = int(record[RecordPart.SERIAL])
        self._pending.add(serial, record)
        self._count()
        return self._make_served(serial, record)

    def _takes_several_calls(self) -> bool:
        """Whether a single row is learned by more than one compiled call."""
        return self._forests is not None

    def _save_point(self, committed: Callable[[], bool] | None = None) -> AbstractContextManager[object]:
        return OneCall(self)

    def _after_restore(self) -> None:
        """Serve and learn single rows by the state that was put back."""
        self._one_row = kernels.EstimatorRow(self._exclusive_lock)
        if self.dim is not None:
            self._take_over(self._plan, self._state)

    def _tell(self, serial: int, y: float, weight: float = 1.0) -> None:
        with OneCall(self, finish=lambda: self._pending.discard(serial)):
            self._tell_waiting(serial, y, weight)

    def _tell_waiting(self, serial: int, y: float, weight: float) -> None:
        record = self._pending[serial]
        record = widen_record(record, self._plan_of(record), self._plan)
        if weight != record.item(RecordPart.WEIGHT):
            record = record.copy()
            record[RecordPart.WEIGHT] = weight
        newest = serial > self._number(EstimatorNumber.LAST_SERIAL)
        _check.raise_on_status(self, self._plan.kernel.settle(self._state, record, y), self._plan.dim)
        if self._forests is not None:
            self._forests.settle(self._forests.release(serial), y, weight, newest=newest)
        self._count()
        self._pending.close(serial)

    def _release_record(self, serial: int) -> Vector:
        """Return all that is kept of a row that waits as one vector, and keep it no longer.

        The vector is the length of the record, the record, and the row in the forests' context.
        """
        record = self._pending.release(serial)
        context = np.empty(0) if self._forests is None else self._forests.release(serial)
        return np.concatenate(([len(record)], record, context))

    def _adopt_record(self, serial: int, kept: Vector) -> None:
        """Keep a row again that `_release_record` gave away; refuse numbers that are no record."""
        size = int(kept[0]) if len(kept) and 0.0 <= kept[0] < len(kept) else 0
        record, context = kept[1 : 1 + size], kept[1 + size :]
        fits = self._fits_record(record) and record[RecordPart.SERIAL] == serial
        if not fits or (self._forests is None and len(context)):
            raise ModelFileError(f"{_check.name_of(self)}: the saved record of row {serial} cannot be used")
        self._pending.adopt(serial, record)
        if self._forests is not None:
            self._forests.adopt(serial, context)

    def _make_served(self, serial: int, record: Vector) -> ServedPrediction:
        known = bool(record[RecordPart.KNOWN])
        return ServedPrediction(float(record[RecordPart.YHAT]), known, serial, record.copy(), self._fingerprint)

    def _fits_record(self, record: Vector) -> bool:
        plan, width = self._plan, int(record[RecordPart.WIDTH]) if len(record) > len(RecordPart) else -1
        fits = 1 <= width <= plan.dim and len(record) == self._plan_at(width).kernel.record_size
        return fits and bool(np.isfinite(record).all())

    def _close(self, Z: Matrix, rounds: object, context: RowContext = ORDINARY) -> Trace:
        trace = super()._close(Z, rounds)  # type: ignore[arg-type]
        if len(Z):
            self._count()  # a round is a labelled row
        return trace

    def _grow(self, count: int) -> None:
        began = self._plan.began + count if self.rounds < self._plan.warmup else self._plan.began
        plan = self._plan_for(self._plan.dim + count, began)
        if self._forests is not None:
            self._forests.grow(count)
        self._take_over(plan, grow_state(self._state, self._plan, plan, self.rounds))

    def _labels(self, y: ArrayLike, count: int) -> Vector:
        labels = _check.column(self, "y", y, count, nan=True)
        if not self.binary:
            return labels
        known = ~np.isnan(labels)
        out = labels.copy()
        out[known] = _check.signs(self, labels[known])
        return out

    def _arrays(self) -> Arrays:
        return self._plan.layout.arrays(self._state)

    @thread_lock.hold_exclusive
    def snapshot(self) -> tuple[store.Header, Arrays]:
        """Return everything the estimator is: a JSON header and its arrays, copied."""
        header, arrays = super().snapshot()
        if self.names is not None:
            header["names"] = number_items(self.names)
        if self.dim is not None:
            header["began"] = self._plan.began
        return header, arrays | ({} if self._forests is None else self._forests.arrays())

    def _load_snapshot(self, header: store.Header, arrays: Arrays) -> None:
        who, saved, dim, began = type(self).__name__, header.get("names"), header.get("dim"), header.get("began")
        if dim is None:
            super()._load_snapshot(header, arrays)
            return
        if not (isinstance(began, int) and isinstance(dim, int) and 1 <= began <= dim <= MOST_FEATURES):
            raise ModelFileError(f"{who}: the saved number of features cannot be used")
        self._refuse_small_arrays(dim, arrays)
        self.rounds = _check.integer(self, "rounds", header["rounds"], 0, MOST_ROUNDS)
        plan = self._plan_for(dim, began)
        self._take_over(plan, plan.blank())
        self.dim = dim
        self._load_arrays(arrays)
        if self._number(EstimatorNumber.ROUNDS) != self.rounds or not self._counts_are_whole():
            raise ModelFileError(f"{who}: the saved counts cannot be used")
        if saved is not None:
            names = [saved.get(str(j)) for j in range(dim)] if isinstance(saved, dict) else []
            if len(set(map(str, names))) != dim or not all(isinstance(name, str) for name in names):
                raise ModelFileError(f"{who}: the saved names do not fit the features")
            self.names = [str(name) for name in names]
            self._take_over(plan, self._state)

    def _counts_are_whole(self) -> bool:
        """Whether the numbers by which rows are counted can be counts: the kernels index with them."""
        counts = [self._number(which) for which in (
            EstimatorNumber.ROUNDS, EstimatorNumber.SKIPPED, EstimatorNumber.UNLABELLED, EstimatorNumber.SERVED,
        )]  # fmt: skip
        whole = all(count % 1.0 == 0.0 and 0.0 <= count <= MOST_ROUNDS for count in counts)
        return whole and counts[1] <= counts[0] and counts[0] + counts[2] <= counts[3]

    def _load_arrays(self, arrays: Arrays) -> None:
        saved = {name: array for name, array in arrays.items() if name.startswith(FORESTS_PREFIX)}
        ordinary = {"row_weights": np.ones(self._plan.layout.shapes["row_weights"])}  # in files of before weights
        super()._load_arrays({**ordinary, **{name: array for name, array in arrays.items() if name not in saved}})
        self._adopt_state()
        self._forests = None if self.dim is None else self._make_forests(self.dim)
        if self._forests is not None:
            self._forests.load_arrays(saved, self.rounds, list(self._pending))
            self._take_over(self._plan, self._state)
        elif saved:
            raise ModelFileError(f"{_check.name_of(self)}: the saved arrays hold forests, which this model does not")

    def _adopt_state(self) -> None:
        """Take over what a loaded state says about the estimator."""
        self._count()

    def _min_array_size(self, dim: int) -> int:
        """One linear family's memories, a constant and the features each; the others are as large."""
        memories = len(BETAS) if self._betas is None else len(self._betas)
        return memories * layout.length(1 + dim * (2 if self.indicators else 1))

    def predict(self, z: Rows, *, elapsed: float | None = None) -> Prediction:
        """Return the prediction for the coming round, a vector for several candidate rows; nothing changes.

        `elapsed` is the time since the row before, 1 by default.
        """
        return self._score(z, elapsed)

    def _score(self, z: Rows, elapsed: float | None = None) -> Prediction:
        """Return predictions as the stages make them: numbers, or log-odds."""
        if elapsed is None:
            yhat = self._one_row.predict(z)
            if yhat is None:
                yhat = self._one_row.predict(z := read_series(z))
            if yhat is not None:
                return yhat
        return self._score_any(z, elapsed)

    @thread_lock.hold_shared
    def _score_any(self, z: Rows, elapsed: float | None = None) -> Prediction:
        Z, single = self._rows_to_predict(z)
        yhat = self._predictor(Z)._predict(Z, self._time(elapsed))
        return float(yhat[0]) if single else yhat

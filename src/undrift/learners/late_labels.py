"""LateLabels: rows are served when they come and settled when their label comes, at once or late."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check, kernels
from undrift._internal import thread_lock
from undrift._typing import Matrix, Scalar, Vector
from undrift.errors import InputError
from undrift.learners.row_weights import RowWeights
from undrift.learners.save_point import SavePoint
from undrift.learners.served import PendingRecords, ServedPrediction
from undrift.trace import Trace

Delay = int | Sequence[int] | NDArray[np.int64]
"""Rows that are served before a label is learned: of every row, or one for each."""
RECORD_LAYOUT = 2
"""Number of the layout of records; raised when what they hold changes."""


def longest_delay(delay: int | list[int]) -> int:
    """Return the delay of the label that comes latest after its row."""
    return max(delay) if isinstance(delay, list) else delay


class LateLabels:
    """The part of a learner that waits for labels: `ask`, `tell`, and `play` with a delay.

    By default a record is the prediction and the row, and settling it is learning the row. A learner whose `_play`
    depends on what was predicted (an ensemble) provides `_serve`, `_settle` and `_fits_record` of its own.
    """

    accepts_nan: ClassVar[bool]
    parameters: dict[str, Scalar]
    rounds: int
    dim: int | None
    _pending: PendingRecords
    _exclusive_lock: kernels.Lock
    _shared_lock: AbstractContextManager[None]

    if TYPE_CHECKING:  # provided by `Learner`

        def _save_point(self, committed: Callable[[], bool] | None = ...) -> AbstractContextManager[object]: ...
        def _row(self, z: ArrayLike, verb: str = ...) -> Matrix: ...
        def _labels(self, y: ArrayLike, count: int) -> Vector: ...
        def _fix_width(self, dim: int) -> None: ...
        def _check_row_weight(self, weight: float | None, elapsed: float | None) -> RowWeights | None: ...
        def _time(self, elapsed: float | None) -> float: ...
        def _predict_at(self, Z: Matrix, elapsed: float) -> Vector: ...
        def _play_rows_with(self, Z: Matrix, y: Vector, rows: RowWeights | None) -> Any: ...
        def _grow_older(self, rows: RowWeights | None) -> None: ...

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
        serial = self._check_served(served)
        missing = isinstance(y, (float, np.floating)) and math.isnan(y)
        rows = self._check_row_weight(weight, None)
        label = float("nan") if missing else float(self._labels([y], 1)[0])
        self._tell(serial, label, 1.0 if rows is None else float(rows.weight[0]))

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

    def _read_delay(self, delay: Delay, count: int) -> int | list[int]:
        """Return the delay of a block's labels, or one for each of its `count` rows."""
        if isinstance(delay, (list, tuple)) or (isinstance(delay, np.ndarray) and delay.ndim):
            listed = delay.tolist() if isinstance(delay, np.ndarray) else list(delay)
            if len(listed) != count:
                raise InputError(
                    f"{_check.name_of(self)}: delay must be an integer, or one for each of the {count} rows, got "
                    f"{len(listed)}"
                )
            late = [_check.integer(self, f"delay[{t}]", one, 0) for t, one in enumerate(listed)]
            return late if len(set(late)) > 1 or self._pending.has_delays else late[0] if late else 0
        return _check.integer(self, "delay", delay, 0)

    def _waits(self, delay: int | list[int]) -> bool:
        """Whether labels of a block are learned later than their rows, or earlier ones are due meanwhile."""
        return delay != 0 or self._pending.scheduled

    def _schedule(self, serial: int, label: float, weight: float, delay: int | list[int], t: int) -> None:
        """Keep the label of the block's row t, which was just served, and settle all that is due."""
        late = delay[t] if isinstance(delay, list) else delay
        self._pending.schedule(serial, label, weight, late if isinstance(delay, list) else None)
        for due, y in self._pending.due(serial, late):
            self._tell_waiting(due, y, self._pending.weight(due))

    def _play_late(self, Z: Matrix, y: Vector, delay: int | list[int], rows: RowWeights | None = None) -> Trace:
        """Serve rows one by one, and settle each label when `delay` further rows were served; all of it or nothing."""
        first = self.rounds
        served: list[ServedPrediction] = []
        with SavePoint(self):
            for t in range(len(Z)):
                served.append(self._ask(Z[t : t + 1], 1.0 if rows is None else float(rows.elapsed[t])))
                weight = 1.0 if rows is None else float(rows.weight[t])
                self._schedule(served[-1].serial, float(y[t]), weight, delay, t)
        return self._trace_served(served, first, longest_delay(delay))

    def _trace_served(self, served: list[ServedPrediction], first: int, latest: int) -> Trace:
        """Return the trace of rows served after `first` rounds; the latest label comes after `latest` further rows."""
        yhat, known = np.array([one.yhat for one in served]), np.array([one.known for one in served], bool)
        return Trace(yhat, None, None, type(self).__name__, dict(self.parameters), first, known=known, delay=latest)

    def _ask(self, Z: Matrix, elapsed: float = 1.0) -> ServedPrediction:
        """Serve a checked row that comes after this time, and keep its record."""
        self._fix_width(Z.shape[1])
        record = self._serve(Z) if elapsed == 1.0 else self._serve(Z, elapsed)
        serial = self.served_rows + 1
        self._pending.add(serial, record, elapsed)
        return self._make_served(serial, record)

    @property
    def served_rows(self) -> int:
        """Rows served so far: the serial number of the last one."""
        return self.rounds + self._pending.unlearned

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
        rows = self._check_row_weight(weight, self._pending.time_before(serial))
        newest = self._pending.is_newest(serial, self.served_rows)
        if rows is None:
            self._settle(self._pending[serial], y, newest=newest)
        else:
            self._settle(self._pending[serial], y, newest=newest, rows=rows)
        self.rounds += 1
        self._grow_older(rows)
        self._pending.settle(serial)

    def _serve(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        """Return the record of a row: whether a label was learned before, the prediction, and the row."""
        return np.concatenate(([float(self.rounds > 0)], self._predict_at(Z, elapsed), Z[0]))

    def _settle(self, record: Vector, y: float, *, newest: bool, rows: RowWeights | None = None) -> None:
        """Learn a label from the record of its row; `newest` unless a row that was served later is settled already.

        `rows`: the row's weight and the time before it, unless both are 1.
        """
        self._play_rows_with(np.ascontiguousarray(record[None, 2:]), np.array([y]), rows)

    def _make_served(self, serial: int, record: Vector) -> ServedPrediction:
        """Return what was served, from its record."""
        return ServedPrediction(float(record[1]), bool(record[0]), serial, record.copy(), self._fingerprint)

    def _fits_record(self, record: Vector) -> bool:
        """Whether numbers of a file can be a record of this learner."""
        within = np.abs(record) <= _check.LIMIT
        return len(record) == 2 + (self.dim or 0) and bool((within | (self.accepts_nan & np.isnan(record))).all())

    def _identity(self) -> list[object]:
        """Return what a record's layout and meaning depend on, as JSON values."""
        return [type(self).__name__, dict(self.parameters)]

    @cached_property
    def _fingerprint(self) -> str:
        """A short text that learners of other classes, parameters or record layouts do not share."""
        text = json.dumps([RECORD_LAYOUT, *self._identity()], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def _check_served(self, served: ServedPrediction) -> int:
        """Return the serial number of a record that waits here; refuse all others."""
        who, serial = _check.name_of(self), served.serial
        if served.fingerprint != self._fingerprint or serial > self.served_rows:
            raise InputError(f"{who}: tell was given the record of another model or layout; pass its row to learn")
        if serial not in self._pending:
            raise InputError(f"{who}: row {serial} was told or closed before; each row has one label")
        if self._pending[serial].tobytes() != served.record.tobytes():
            raise InputError(f"{who}: tell was given the record of another model or layout; pass its row to learn")
        return serial

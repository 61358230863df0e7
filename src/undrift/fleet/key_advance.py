"""KeyAdvance: takes one key's records in order, and gives its new state and a row of output for each record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.fleet import outputs
from undrift.fleet.key_state import ASK, LABEL, ROW, UNUSABLE, KeyState, WaitingRecord, fill_lags
from undrift.fleet.model_pool import ModelPool
from undrift.fleet.outputs import ABSENT, STATUSES, Key, OutputRow
from undrift.fleet.record_batch import RecordBatch
from undrift.learners import Learner
from undrift.learners.intervals import Interval
from undrift.learners.served import ServedPrediction
from undrift.metrics import round_losses
from undrift.online import OnlineRegressor
from undrift.trace import Trace

NAN = math.nan


class KeyAdvance:
    """One key, advanced by the records of a batch."""

    def __init__(
        self,
        pool: ModelPool,
        key: Key,
        state: KeyState,
        *,
        wait: int,
        delay: int,
        lags: Sequence[int],
        interval: float | None,
        hold: int,
        numbered: bool,
    ) -> None:
        self.pool, self.key, self.state = pool, key, state
        self.wait, self.delay, self.lags, self.interval = wait, delay, lags, interval
        self.hold, self.numbered = hold, numbered
        self.rows: list[OutputRow] = []
        self._model: Learner | None = None
        self._block: list[tuple[int, WaitingRecord]] = []  # rows that will be learned in one call

    def take(self, batch: RecordBatch, ordered: bool) -> None:
        """Work through the key's records of a batch, sorted by order if they have one."""
        for i in _rows_in_order(batch) if ordered else range(len(batch)):
            order = int(batch.order[i])
            why = batch.bad.get(i)
            if self.key is None:  # it belongs to no key, so nothing is remembered
                self._output(order, NAN, float(batch.y[i]), outputs.POISON, why or "")
                continue
            if not ordered:
                order = 0 if self.state.tracker.next is None else self.state.tracker.next
            if why is None or order != ABSENT:
                self._arrive(order, _waiting_record(batch, i), why)
            else:
                self._learn()
                self._output(ABSENT, NAN, float(batch.y[i]), outputs.POISON, why)
        self._learn()

    def finish(self) -> None:
        """Release everything that waits, as if nothing before it could come any more."""
        for order in sorted(self.state.waiting):
            self._release(order)
        self._learn()

    def close(self) -> list[OutputRow]:
        """Put the model back into the state and return the rows of output."""
        if self._model is not None:
            self.pool.write_back(self._model, self.state)
        for row in self.rows:
            status = STATUSES[row[4]]
            self.state.counts[status] = self.state.counts.get(status, 0) + 1
        return self.rows

    def _output(
        self,
        order: int,
        prediction: float,
        target: float,
        status: int,
        reason: str = "",
        interval: Interval = outputs.NO_INTERVAL,
    ) -> None:
        self.rows.append((self.key, order, prediction, target, status, reason, interval))

    def _arrive(self, order: int, record: WaitingRecord, why: str | None) -> None:
        tracker, waiting = self.state.tracker, self.state.waiting
        if order in self.state.unlabelled and (why is not None or record.kind == ROW):
            self._label_served(order, record, why)
            return
        if tracker.next is not None and order < tracker.next:
            released = tracker.was_released(order)
            reason = "or a copy of a record long gone" if released is None else ""
            self._output(order, NAN, record.y, outputs.DUPLICATE if released else outputs.LATE, reason)
            return
        if order in waiting:
            if waiting[order].kind == ASK and record.kind == ROW:  # its label came before it was predicted
                waiting[order], record = record, waiting[order]
            self._output(order, NAN, record.y, outputs.DUPLICATE)
            return
        if why is not None:
            self._learn()  # so that the outputs stay in order
            self._output(order, NAN, record.y, outputs.POISON, why)
            record = WaitingRecord(UNUSABLE, ABSENT, NAN, record.z)
        tracker.observe(order, self.wait)
        waiting[order] = record
        following = tracker.next
        if len(waiting) > 1 and following is not None:
            for past in sorted(one for one in waiting if one < following):
                self._release(past)
        while tracker.next in waiting:
            self._release(tracker.next)

    def _release(self, order: int) -> None:
        record = self.state.waiting.pop(order)
        last = self.state.tracker.ranges[-1][1] if self.state.tracker.ranges else order
        missing = self.state.tracker.release(order, self.wait)
        if missing and self.numbered:
            self._learn()
            self._output(last + 1, NAN, NAN, outputs.GAP, f"{missing} missing")
        if record.kind == ROW:
            self._block.append((order, record))
            return
        self._learn()
        if record.kind == ASK:
            self._ask(order, record)
        elif record.kind == LABEL:
            self._label(order, record)

    def _acquire(self) -> Learner:
        if self._model is None:
            self._model = self.pool.acquire(self.state)
        return self._model

    def _ask(self, order: int, record: WaitingRecord) -> None:
        """Serve a row without a label; the model keeps its record until the label comes or the row expires."""
        model, unlabelled = self._acquire(), self.state.unlabelled
        Z, last = self._with_lags(record.z[None], np.array([NAN]))
        try:
            served = model.ask(Z[0])
        except InputError as error:
            self._output(order, NAN, NAN, outputs.POISON, str(error))
            return
        self.state.last_labels = last
        if self.interval is not None:  # its intervals were learned one row ahead of what was known
            if self.state.asked:
                self.state.withheld.add(order)
            self.state.asked = True
        self._output(order, _prediction(served), NAN, outputs.PREDICTED, "", self._interval(order, served))
        unlabelled[order] = served.serial
        while len(unlabelled) > self.hold:
            oldest = next(iter(unlabelled))
            self.state.withheld.discard(oldest)
            model.tell(model.find_pending(unlabelled.pop(oldest)), NAN)
            self._output(
                oldest, NAN, NAN, outputs.EXPIRED, f"its label did not come within {self.hold} further predictions"
            )

    def _label(self, order: int, record: WaitingRecord) -> None:
        """Learn a label that came in a record of its own, from what was served for its row."""
        if record.label_of not in self.state.unlabelled:
            self._output(order, NAN, record.y, outputs.POISON, f"no record {record.label_of} waits for a label")
            return
        self._tell(order, record.label_of, record.y, f"label of {record.label_of}")

    def _label_served(self, order: int, record: WaitingRecord, why: str | None) -> None:
        """Learn the label of a row that comes once more, from what was served for it the first time."""
        self._learn()
        if why is not None:
            self._output(order, NAN, record.y, outputs.POISON, why)
            return
        self._tell(order, order, record.y, "its label came later")

    def _tell(self, order: int, of: int, y: float, reason: str) -> None:
        """Learn the label of the served row `of`, and put out the record `order` that brought it."""
        serial, model = self.state.unlabelled.pop(of), self._acquire()
        try:
            served = model.find_pending(serial)
            model.tell(served, y)
        except InputError as error:
            self._output(order, NAN, y, outputs.POISON, str(error))
            return
        age = model.served_rows - serial
        if age < len(self.state.last_labels):
            self.state.last_labels[-1 - age] = y
        prediction, interval = _prediction(served), self._interval(of, served)
        self.state.asked = False
        self.state.withheld.discard(of)
        self._score(np.array([prediction]), np.array([y]), binary=model.binary)
        self._output(order, prediction, y, outputs.LABELLED, reason, interval)

    def _learn(self) -> None:
        """Predict and learn the block of rows in one call; row by row if the model refuses one of them."""
        block, self._block = self._block, []
        if not block:
            return
        Z, y = np.stack([record.z for _, record in block]), np.array([record.y for _, record in block])
        model = self._acquire()
        Z, last = self._with_lags(Z, y)
        try:
            trace = self._play(model, Z, y)
        except InputError as error:
            if len(block) == 1:
                self._output(block[0][0], NAN, float(y[0]), outputs.POISON, str(error))
                return
            for one in block:
                self._block = [one]
                self._learn()
            return
        self.state.last_labels, self.state.asked = last, False
        yhat = trace.yhat if trace.known is None else np.where(trace.known, trace.yhat, NAN)
        self._score(yhat, y, binary=model.binary)
        if trace.lower is None or trace.upper is None:
            intervals = [outputs.NO_INTERVAL] * len(block)
        else:
            intervals = [_finite(*ends) for ends in zip(trace.lower.tolist(), trace.upper.tolist(), strict=True)]
        for (order, record), prediction, interval in zip(block, yhat.tolist(), intervals, strict=True):
            self._output(order, prediction, record.y, outputs.OK, "", interval)

    def _play(self, model: Learner, Z: Matrix, y: Vector) -> Trace:
        """Predict and learn rows, with intervals if they are asked for."""
        if self.interval is not None and isinstance(model, OnlineRegressor):
            return model.play(Z, y, delay=self.delay, interval=self.interval)
        return model.play(Z, y, delay=self.delay)

    def _interval(self, order: int, served: ServedPrediction) -> Interval:
        """Return the interval of a served row, if intervals are asked for and a label was learned before it."""
        if self.interval is None or order in self.state.withheld:
            return outputs.NO_INTERVAL
        low, high = served.interval(self.interval)
        return _finite(float(low), float(high))

    def _with_lags(self, Z: Matrix, y: Vector) -> tuple[Matrix, Vector]:
        """Return rows with the labels of earlier rows as features, and the last labels after them."""
        last = self.state.last_labels
        if not self.lags:
            return Z, last
        if not len(last):
            last = np.full(max(self.lags), NAN)
        lagged = np.empty((len(Z), len(self.lags)))
        last = fill_lags(last, y, self.lags, lagged)
        return np.concatenate((Z, lagged), axis=1), last

    def _score(self, yhat: Vector, y: Vector, *, binary: bool) -> None:
        """Add up the losses of learned rounds; those that were predicted from nothing, NaN, are only counted."""
        known = ~np.isnan(yhat)
        self.state.unscored += int(np.count_nonzero(~known))
        for loss in round_losses(yhat[known], y[known], binary=binary).tolist():
            self.state.loss += loss


def _finite(low: float, high: float) -> Interval:
    """Return an interval; none while it is infinite, as before the first errors are known."""
    return Interval(low, high) if math.isfinite(low) and math.isfinite(high) else outputs.NO_INTERVAL


def _prediction(served: ServedPrediction) -> float:
    """Return what was predicted for a row; NaN before any label was known."""
    return float(served.yhat) if served.known else NAN


def _rows_in_order(batch: RecordBatch) -> Iterator[int]:
    """Yield row numbers by order, then by content, so that a shuffle within the batch does not matter.

    Of a row that comes twice, the record without a label is first: it is predicted, and then its label is learned.
    """
    by = np.argsort(batch.order, kind="stable")
    same = np.diff(batch.order[by]) == 0
    if not same.any():
        yield from by.tolist()
        return

    def content(i: int) -> tuple[int, bool, int, bool, bytes, bytes]:
        order, of, y = int(batch.order[i]), int(batch.label_of[i]), float(batch.y[i])
        return order, i in batch.bad, of, y == y, batch.y[i].tobytes(), batch.Z[i].tobytes()

    yield from sorted(by.tolist(), key=content)


def _waiting_record(batch: RecordBatch, i: int) -> WaitingRecord:
    of, y = int(batch.label_of[i]), float(batch.y[i])
    kind = LABEL if of != ABSENT else ASK if y != y else ROW
    return WaitingRecord(kind, of, y, batch.Z[i])

"""Rows as the compiled round takes them: blocks, cut where forests change, and single rows that were peeked at.

A peeked row is predicted before it is known to have come, and learned from that very prediction when it has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undrift import _check, kernels
from undrift._internal import thread_lock
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.kernels.definitions import EstimatorNumber, RecordPart
from undrift.learners.row_context import ORDINARY, RowContext
from undrift.learners.save_point import SavePoint
from undrift.online.forests import Forests
from undrift.online.growth import widen_record
from undrift.online.label_kinds import plain_number
from undrift.online.named_rows import NamedRows
from undrift.online.plan import EstimatorPlan
from undrift.online.rows import Rows, read_series


class BlockRounds(NamedRows):
    """The part of an online estimator that plays blocks, and lets its forests, if it has some, answer beside them."""

    _plan: EstimatorPlan
    _state: Vector
    _forests: Forests | None

    def _add_answers(self, Z: Matrix) -> Matrix:
        """Return rows that might come next with all that the stages are given beside the features."""
        if len(self._given) and Z.shape[1] == self._plan.dim:  # features alone: the candidates say nothing
            Z = np.column_stack([Z, np.full((len(Z), len(self._given)), np.nan)])
        if self._forests is None:
            return Z
        return np.column_stack([Z, self._forests.answer(self._forests.view(self._features(Z)))])

    def _features(self, Z: Matrix) -> Matrix:
        """Return the features of rows, without the candidates that come with them."""
        return np.ascontiguousarray(Z[:, : self._plan.dim])

    def _serve_row(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        """Serve one row (1, d) that has come; return its record. Forests keep it in its context until it is settled."""
        record, rows = np.zeros(self._plan.kernel.record_size), Z
        if self._forests is not None:
            X = self._forests.serve(self._features(Z), np.array([np.nan]))
            rows = np.column_stack([Z, self._forests.answer(X)])
        status = self._plan.kernel.serve(self._state, rows[0], record, True, elapsed)
        _check.raise_on_status(self, status, Z.shape[1])
        if self._forests is not None:
            self._forests.keep(int(record[RecordPart.SERIAL]), X[0])
        return record

    def _play_at_once(
        self, Z: Matrix, y: Vector, yhat: Vector, quantiles: Matrix, known: Vector, context: RowContext = ORDINARY
    ) -> None:
        """Serve and settle rows; fill the predictions, and quantiles and what was known where there is room."""
        at = 0
        while at < len(y):
            end, rows = len(y), Z[at:]
            if self._forests is not None:  # up to the row after which they change
                end = at + self._forests.cut(y[at:])
                X = self._forests.serve(self._features(Z[at:end]), y[at:end])
                rows = np.column_stack([Z[at:end], self._forests.answer(X)])
            play = self._plan.kernel.play
            both = context.between(at, end)[:2]
            status = play(self._state, rows, y[at:end], yhat[at:end], quantiles[at:end], known[at:end], *both)
            _check.raise_on_status(self, status, rows.shape[1])
            if self._forests is not None:
                self._forests.learn(X, y[at:end], both[0])
            at = end

    def _play_late_blocks(
        self,
        Z: Matrix,
        labels: Vector,
        records: Matrix,
        waiting: list[int],
        delay: int,
        context: RowContext = ORDINARY,
    ) -> Matrix:
        """Fill the records of rows and settle those that are due; return the rows in context that forests see.

        The first records and labels are those of rows that wait.
        """
        forests, before, kernel = self._forests, len(waiting), self._plan.kernel
        if forests is None:
            both = context[:2]
            status = kernel.play_late(self._state, Z, labels, records, before, delay, *both)
            _check.raise_on_status(self, status, Z.shape[1])
            return np.empty((0, 0))
        contexts = np.empty((len(labels), forests.width))
        for k, serial in enumerate(waiting):
            contexts[k] = forests.release(serial)
        due = np.concatenate((np.full(delay - before, np.nan), labels))[: len(Z)]  # what is settled after each row
        at = 0
        while at < len(Z):
            end = at + forests.cut(due[at:])
            now = slice(before + at, before + end)
            contexts[now] = forests.serve(self._features(Z[at:end]), due[at:end])
            rows = np.column_stack([Z[at:end], forests.answer(contexts[now])])
            first = max(0, before + at - delay)
            part, open_rows = slice(first, before + end), before + at - first
            both = context.between(at, end)[:2]
            status = kernel.play_late(self._state, rows, labels[part], records[part], open_rows, delay, *both)
            _check.raise_on_status(self, status, rows.shape[1])
            settled = slice(first, max(first, before + end - delay))
            forests.learn(contexts[settled], labels[settled], records[settled, RecordPart.WEIGHT])
            at = end
        return contexts


class PeekedRow(NamedTuple):
    """What an estimator answered to a row that may come, and all that learning from this answer needs."""

    yhat: float
    """The prediction; log-odds of the label +1 for two classes."""
    record: Vector
    """The record of the answer; empty before the first row was learned."""
    rounds: int
    """How many labels were known."""
    context: Vector = np.empty(0)
    """The row as forests see it; empty without them."""


class PeekedRows(BlockRounds):
    """The part of an online estimator for hosts that cannot say which prediction a late label belongs to.

    `ask` says that a row has come, and `tell` gives its record back. A host that only predicts and learns, as River
    does, keeps what `peek` returns beside the row, and learns with it: the row counts as come only then.
    """

    _one_row: kernels.EstimatorRow

    def peek(self, z: Rows) -> PeekedRow:
        """Return what would be served for one row that might come next; nothing changes."""
        rounds = self.rounds  # labels that come meanwhile make the record seem later than it is, never earlier
        if self.dim is not None:
            record = np.zeros(self._plan.kernel.record_size)
            if self._one_row.serve(z, record, False) or self._one_row.serve(z := read_series(z), record, False):
                return PeekedRow(record.item(RecordPart.YHAT), record, rounds)
        return self._peek_any(z)

    @thread_lock.hold_shared
    def _peek_any(self, z: Rows) -> PeekedRow:
        Z, _ = self._rows_to_predict(z)
        if len(Z) != 1:
            raise InputError(f"{_check.name_of(self)}: peek takes one row, got {len(Z)}; peek row by row")
        if self.dim is None:
            return PeekedRow(0.0, np.empty(0), 0)
        record, rows = np.zeros(self._plan.kernel.record_size), self._add_answers(Z)
        status = self._plan.kernel.serve(self._state, rows[0], record, False)
        _check.raise_on_status(self, status, Z.shape[1])
        context = np.empty(0) if self._forests is None else self._forests.view(self._features(Z))[0]
        return PeekedRow(record.item(RecordPart.YHAT), record, self.rounds, context)

    def learn_peeked(self, z: Rows, y: float, peeked: PeekedRow, *, weight: float | None = None) -> None:
        """Close one round, in which `peeked` was answered to the row; the same as `ask` then and `tell` now.

        What depends on features alone advances now: rows between the two did not know this one's. The row counts
        `weight` times in the memories, once by default.
        """
        label, record, context = self._plain_label(y), peeked.record.copy(), self._check_context(1, weight=weight)
        if not context.ordinary and len(record):
            record[RecordPart.WEIGHT] = context.weights(1)[0]
        z = read_series(z)
        if label is None or not self._one_row.learn_peeked(self, z, label, record, peeked.rounds):
            self._learn_peeked_any(z, y, peeked, context.weights(1).item())

    @thread_lock.hold_exclusive
    def _learn_peeked_any(self, z: Rows, y: float, peeked: PeekedRow, weight: float) -> None:
        arriving = self._rows_to_learn(z)
        if len(arriving.values) != 1:
            got = len(arriving.values)
            raise InputError(f"{_check.name_of(self)}: learn_peeked takes one row, got {got}; learn row by row")
        label = float(self._labels([y], 1)[0])
        with SavePoint(self, leave=("_pending",)):
            self._name_labels(y)
            self._admit(arriving.names)
            self._fix_width(arriving.values.shape[1])
            row = self._add_answers(arriving.values)[0]
            features = row[: self._plan.dim]
            kernel, numbers = self._plan.kernel, self._plan.layout.view(self._state, "numbers")
            if len(peeked.record):
                narrow = self._plan_at(int(peeked.record[RecordPart.WIDTH]))
                record = _add_new_features(
                    widen_record(peeked.record.copy(), narrow, self._plan), peeked.record, features
                )
                status = kernel.advance(self._state, row)
            else:  # nothing was known, so that there is nothing to judge
                record = np.zeros(kernel.record_size)
                status = kernel.serve(self._state, row, record, True)
                record[[RecordPart.KNOWN, RecordPart.BOUNDED]] = 0.0
            _check.raise_on_status(self, status, len(row))
            record[RecordPart.SERIAL], record[RecordPart.WEIGHT] = numbers[EstimatorNumber.SERVED], weight
            record[RecordPart.UNCOUNTED] = numbers[EstimatorNumber.ROUNDS] - peeked.rounds
            _check.raise_on_status(self, kernel.settle(self._state, record, label), len(row))
            if self._forests is not None:
                context = self._forests.serve(self._features(arriving.values), np.array([np.nan]))[0]
                context[: len(peeked.context)] = peeked.context  # what was known when it was predicted
                self._forests.settle(context, label, weight, newest=True)
            self._count()

    def _plain_label(self, y: object) -> float | None:
        """Return the label as the stages learn it if there is nothing to check or to remember about it, else None."""
        if type(y) is float:
            return y
        number = plain_number(y)
        return None if number is None else float(number)

    def _name_labels(self, y: object) -> None:
        """Remember how checked labels are called; numbers have no names."""

    def _plan_at(self, width: int) -> EstimatorPlan:
        """Return the plan as it was when rows had this width."""
        raise NotImplementedError

    def _count(self) -> None:
        """Take the counts of rounds and of rows never learned from the state."""
        raise NotImplementedError


def _add_new_features(wide: Vector, narrow: Vector, row: Vector) -> Vector:
    """Return a widened record with the row's values of features that were unknown when it was predicted."""
    began, dim = int(narrow[RecordPart.WIDTH]), len(row)
    new, hole = row[began:], np.isnan(row[began:])
    wide[len(RecordPart) + began : len(RecordPart) + dim] = np.where(hole, 0.0, new)
    wide[len(RecordPart) + dim + began : len(RecordPart) + 2 * dim] = np.where(hole, 2.0, 0.0)
    return wide

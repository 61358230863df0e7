"""BlockRounds: rows of a block as the compiled round takes them, cut where forests change."""

from __future__ import annotations

import numpy as np

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import RecordPart
from undrift.learners.row_weights import RowWeights
from undrift.online.forests import Forests
from undrift.online.named_rows import NamedRows
from undrift.online.plan import EstimatorPlan


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
        self, Z: Matrix, y: Vector, yhat: Vector, quantiles: Matrix, known: Vector, weights: RowWeights | None = None
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
            both = (None, None) if weights is None else weights.between(at, end)
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
        weights: RowWeights | None = None,
    ) -> Matrix:
        """Fill the records of rows and settle those that are due; return the rows in context that forests see.

        The first records and labels are those of rows that wait.
        """
        forests, before, kernel = self._forests, len(waiting), self._plan.kernel
        if forests is None:
            both = (None, None) if weights is None else weights
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
            both = (None, None) if weights is None else weights.between(at, end)
            status = kernel.play_late(self._state, rows, labels[part], records[part], open_rows, delay, *both)
            _check.raise_on_status(self, status, rows.shape[1])
            settled = slice(first, max(first, before + end - delay))
            forests.learn(contexts[settled], labels[settled], records[settled, RecordPart.WEIGHT])
            at = end
        return contexts

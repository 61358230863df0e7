"""KeyAdvance: takes one key's records in order, and gives its new state and a row of output for each record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from undrift._typing import Vector
from undrift.errors import DataError, InputError
from undrift.metrics import class_losses, round_losses
from undrift.stream.answers import Answers, probability_column, quantile_column
from undrift.stream.features import ParsedRows, Rows
from undrift.stream.keyed import outputs
from undrift.stream.keyed.key_state import ASK, LABEL, ROW, UNUSABLE, KeyState, WaitingRecord
from undrift.stream.keyed.keyed_rows import KeyedRows
from undrift.stream.keyed.outputs import ABSENT, NO_EXTRAS, STATUSES, Extras, Key, OutputRow, Prediction
from undrift.stream.stream import Stream

if TYPE_CHECKING:
    from undrift.stream.keyed.keyed_streams import KeyedStreams

NAN = math.nan
SKIPPED = "a value is missing, and such rows are left out (--missing skip)"


class KeyAdvance:
    """One key, advanced by the records of a batch; `stream` is that of the state, where it is at hand."""

    def __init__(self, streams: KeyedStreams, key: Key, state: KeyState, stream: Stream | None = None) -> None:
        self.streams, self.key, self.state = streams, key, state
        self.wait, self.hold = streams.wait, streams.hold
        self.bounded = streams.interval is not None
        self._ahead = self.bounded or bool(streams.settings.quantiles)  # what holds one row ahead is put out
        self._plain = not streams.fields.texts and streams.fields.weight is None and not streams.several
        self.rows: list[OutputRow] = []
        self._stream = stream
        self._block: list[tuple[int, WaitingRecord]] = []  # rows that will be learned in one call

    def take(self, batch: KeyedRows, ordered: bool) -> None:
        """Work through the key's records of a batch, sorted by order if they have one."""
        for i in _rows_in_order(batch) if ordered else range(len(batch)):
            order = int(batch.order[i])
            why = batch.bad.get(i)
            if self.key is None:  # it belongs to no key, so nothing is remembered
                self._output(order, NAN, _target(batch, i), outputs.POISON, why or "")
                continue
            if not ordered:
                order = 0 if self.state.tracker.next is None else self.state.tracker.next
            if why is None or order != ABSENT:
                self._arrive(order, self._waiting_record(batch, i), why)
            else:
                self._learn()
                self._output(ABSENT, NAN, _target(batch, i), outputs.POISON, why)
        self._learn()

    def finish(self) -> None:
        """Release everything that waits, as if nothing before it could come any more."""
        for order in sorted(self.state.waiting):
            self._release(order)
        self._learn()

    def close(self) -> list[OutputRow]:
        """Put the model back into the state and return the rows of output."""
        if self._stream is not None:
            self.streams.pool.write_back(self._stream, self.state)
        return self.count_outputs()

    def count_outputs(self) -> list[OutputRow]:
        """Count the rows of output in the state, and return them."""
        for row in self.rows:
            status = STATUSES[row[4]]
            self.state.counts[status] = self.state.counts.get(status, 0) + 1
        return self.rows

    def _output(
        self,
        order: int,
        prediction: Prediction,
        target: Prediction,
        status: int,
        reason: str = "",
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self.rows.append((self.key, order, prediction, target, status, reason, extras))

    def _arrive(self, order: int, record: WaitingRecord, why: str | None) -> None:
        tracker, waiting = self.state.tracker, self.state.waiting
        if order in self.state.unlabelled and (why is not None or record.kind == ROW):
            self._label_served(order, record, why)
            return
        if tracker.next is not None and order < tracker.next:
            released = tracker.was_released(order)
            reason = "or a copy of a record long gone" if released is None else ""
            self._output(order, NAN, record.label or record.y, outputs.DUPLICATE if released else outputs.LATE, reason)
            return
        if order in waiting:
            if waiting[order].kind == ASK and record.kind == ROW:  # its label came before it was predicted
                waiting[order], record = record, waiting[order]
            self._output(order, NAN, record.label or record.y, outputs.DUPLICATE)
            return
        if why is not None:
            self._learn()  # so that the outputs stay in order
            self._output(order, NAN, record.label or record.y, outputs.POISON, why)
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
        self.release_order(order)
        if record.kind == ROW:
            self._block.append((order, record))
            return
        self._learn()
        if record.kind == ASK:
            self._ask(order, record)
        elif record.kind == LABEL:
            self._label(order, record)

    def release_order(self, order: int) -> None:
        """Take note that the record of this order is next; those between it and the last one never came."""
        last = self.state.tracker.ranges[-1][1] if self.state.tracker.ranges else order
        missing = self.state.tracker.release(order, self.wait)
        if missing and self.streams.numbered:
            self._learn()
            self._output(last + 1, NAN, NAN, outputs.GAP, f"{missing} missing")

    def _acquire(self) -> Stream:
        if self._stream is None:
            self._stream = self.streams.pool.acquire(self.state)
        return self._stream

    def _parse(self, block: Sequence[tuple[int, WaitingRecord]]) -> ParsedRows:
        """Return records as the features of a stream take them."""
        records = [record for _, record in block]
        order = np.array([order for order, _ in block], dtype=np.int64)
        columns = zip(*(record.texts for record in records), strict=True)
        texts = dict(zip(self.streams.fields.texts, map(list, columns), strict=True))
        weighted, several = self.streams.fields.weight is not None, self.streams.several
        return ParsedRows(
            order,
            self.streams.instants(order),
            np.stack([record.z for record in records]),
            texts,
            np.array([record.y for record in records]),
            np.array([record.weight for record in records]) if weighted else None,
            [record.label for record in records] if several else None,
        )

    def _ask(self, order: int, record: WaitingRecord) -> None:
        """Serve a row without a label; the model keeps its record until the label comes or the row expires."""
        stream, unlabelled = self._acquire(), self.state.unlabelled
        try:
            rows, answers = stream.serve_parsed(self._parse([(order, record)]), self.streams.origin)
        except (InputError, DataError) as error:
            self._output(order, NAN, NAN, outputs.POISON, str(error))
            return
        if not len(rows.line):
            self._output(order, NAN, NAN, outputs.POISON, SKIPPED)
            return
        if self._ahead:  # its intervals were learned one row ahead of what was known
            if self.state.asked:
                self.state.withheld.add(order)
            self.state.asked = True
        prediction, extras = self._read(order, answers)
        self._output(order, prediction, NAN, outputs.PREDICTED, "", extras)
        unlabelled[order] = int(answers.serial[0])
        while len(unlabelled) > self.hold:
            oldest = next(iter(unlabelled))
            self.state.withheld.discard(oldest)
            self._know(stream, unlabelled.pop(oldest), NAN)
            self._output(
                oldest, NAN, NAN, outputs.EXPIRED, f"its label did not come within {self.hold} further predictions"
            )

    def put_served(self, order: int, serial: int) -> None:
        """Put out what was answered to a row that waits for its label."""
        here = np.array([order], dtype=np.int64)
        answers = self._acquire().find_answers([serial], Rows(here, None, np.empty((1, 0)), np.empty(1)))
        prediction, extras = self._read(order, answers)
        self._output(order, prediction, NAN, outputs.PREDICTED, "", extras)

    def _know(self, stream: Stream, serial: int, y: Prediction) -> None:
        """Learn the label of a served row, NaN if it never comes."""
        assert stream.features is not None
        code = stream.features.labels
        if self.streams.several:
            code = code.copy()
            y = NAN if y != y else float(code.encode([str(y)], np.zeros(1, np.int64), self.streams.origin)[0])
        stream.tell_numbers([serial], code, np.array([float(y)]))

    def _label(self, order: int, record: WaitingRecord) -> None:
        """Learn a label that came in a record of its own, from what was served for its row."""
        if record.label_of not in self.state.unlabelled:
            self._output(
                order, NAN, record.label or record.y, outputs.POISON, f"no record {record.label_of} waits for a label"
            )
            return
        self._tell(order, record.label_of, record.label or record.y, f"label of {record.label_of}")

    def _label_served(self, order: int, record: WaitingRecord, why: str | None) -> None:
        """Learn the label of a row that comes once more, from what was served for it the first time."""
        self._learn()
        if why is not None:
            self._output(order, NAN, record.label or record.y, outputs.POISON, why)
            return
        self._tell(order, order, record.label or record.y, "its label came later")

    def _tell(self, order: int, of: int, y: Prediction, reason: str) -> None:
        """Learn the label of the served row `of`, and put out the record `order` that brought it."""
        self.learn_label(order, of, self.state.unlabelled.pop(of), y, outputs.LABELLED, reason)

    def learn_label(
        self, order: int, of: int, serial: int, y: Prediction, status: int, reason: str = ""
    ) -> Answers | None:
        """Learn the label of the row `of`, served under this serial number, and put out the record that brought it.

        Return what was answered to the row; None if the label cannot be used.
        """
        stream = self._acquire()
        here = np.array([of], dtype=np.int64)
        answers = stream.find_answers([serial], Rows(here, None, np.empty((1, 0)), np.empty(1)))
        try:
            self._know(stream, serial, y)
        except (InputError, DataError) as error:
            self._output(order, NAN, y, outputs.POISON, str(error))
            return None
        prediction, extras = self._read(of, answers)
        self.state.asked = False
        self.state.withheld.discard(of)
        self._score(answers, [y])
        self._output(order, prediction, y, status, reason, extras)
        return answers

    def _learn(self) -> None:
        """Predict and learn the block of rows in one call; row by row if the model refuses one of them."""
        block, self._block = self._block, []
        if not block:
            return
        stream = self._acquire()
        try:
            rows, answers = stream.play_parsed(self._parse(block), self.streams.origin)
        except (InputError, DataError) as error:
            if len(block) == 1:
                order, record = block[0]
                self._output(order, NAN, record.label or record.y, outputs.POISON, str(error))
                return
            for one in block:
                self._block = [one]
                self._learn()
            return
        self.state.asked = False
        if len(rows.line) < len(block):
            kept = {*rows.line.tolist()}
            for order, record in block:
                if order not in kept:
                    self._output(order, NAN, record.label or record.y, outputs.POISON, SKIPPED)
            block = [one for one in block if one[0] in kept]
        targets = [record.label or record.y for _, record in block]
        self._score(answers, targets)
        predictions: Sequence[Prediction | None] = answers.labels if self.streams.several else answers.yhat.tolist()
        extras = self._extras(answers)
        for (order, _), prediction, target, more in zip(block, predictions, targets, extras, strict=True):
            self._output(order, NAN if prediction is None else prediction, target, outputs.OK, "", more)

    def _read(self, order: int, answers: Answers) -> tuple[Prediction, Extras]:
        """Return the prediction of one served row, and its interval if one was served."""
        prediction = answers.labels[0] if self.streams.several else float(answers.yhat[0])
        extras = NO_EXTRAS if order in self.state.withheld else next(self._extras(answers))
        return NAN if prediction is None else prediction, extras

    def _extras(self, answers: Answers) -> Iterator[Extras]:
        """Yield what is put out beside each prediction."""
        columns: dict[str, Vector] = {}
        if answers.several is not None:
            names = [probability_column(label) for label in answers.classes or ()]
            columns |= dict(zip(names, answers.several.T, strict=True))
        if self.bounded and answers.lower is not None and answers.upper is not None:
            columns |= {"lower": answers.lower, "upper": answers.upper}
        if answers.quantiles is not None:
            columns |= {quantile_column(q): answers.quantiles[:, k] for k, q in enumerate(answers.levels)}
        if not columns:
            yield from [NO_EXTRAS] * len(answers)
            return
        for row in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield {name: value for name, value in zip(columns, row, strict=True) if value == value} or NO_EXTRAS

    def _score(self, answers: Answers, targets: Sequence[Prediction]) -> None:
        """Add up the losses of learned rounds; those that were predicted from nothing are only counted."""
        known = answers.known & ~np.isnan(answers.yhat)
        self.state.unscored += int(np.count_nonzero(~known))
        if answers.several is not None:
            names = self._acquire().classes or []  # a label that came late may be newer than its answer
            p = np.pad(answers.several, ((0, 0), (0, len(names) - answers.several.shape[1])), constant_values=np.nan)
            places = np.array([names.index(str(label)) for label in targets], dtype=np.float64)
            losses = class_losses(p[known], places[known])
        else:
            y = np.array(targets, dtype=np.float64)[known]
            losses = round_losses(answers.yhat[known], y, binary=self.streams.binary)
        for loss in losses.tolist():
            self.state.loss += loss

    def _waiting_record(self, batch: KeyedRows, i: int) -> WaitingRecord:
        of, y = int(batch.label_of[i]), float(batch.y[i])
        kind = LABEL if of != ABSENT else ASK if y != y else ROW
        if self._plain:
            return WaitingRecord(kind, of, y, batch.Z[i])
        texts = tuple(cells[i] for cells in batch.texts.values())
        weight = 1.0 if batch.weight is None else float(batch.weight[i])
        label = None if batch.labels is None else batch.labels[i]
        return WaitingRecord(kind, of, y, batch.Z[i], weight, texts, label)


def _target(batch: KeyedRows, i: int) -> Prediction:
    """Return the label of a record as it is put out."""
    label = None if batch.labels is None else batch.labels[i]
    return float(batch.y[i]) if label is None else label


def _rows_in_order(batch: KeyedRows) -> Iterator[int]:
    """Yield row numbers by order, then by content, so that a shuffle within the batch does not matter.

    Of a row that comes twice, the record without a label is first: it is predicted, and then its label is learned.
    """
    by = np.argsort(batch.order, kind="stable")
    same = np.diff(batch.order[by]) == 0
    if not same.any():
        yield from by.tolist()
        return

    def content(i: int) -> tuple[int, bool, int, bool, bytes, bytes, str]:
        order, of, y = int(batch.order[i]), int(batch.label_of[i]), float(batch.y[i])
        texts = repr([None if batch.labels is None else batch.labels[i], *(cells[i] for cells in batch.texts.values())])
        numbers = batch.Z[i].tobytes() + (b"" if batch.weight is None else batch.weight[i].tobytes())
        return order, i in batch.bad, of, y == y, batch.y[i].tobytes(), numbers, texts

    yield from sorted(by.tolist(), key=content)

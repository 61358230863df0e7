"""One key's records in, its new state and what became of them out: a pure function of bytes and records."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from undrift.errors import InputError
from undrift.fleet.batch import Batch
from undrift.fleet.bench import Bench, losses
from undrift.fleet.outputs import (
    ABSENT,
    DUPLICATE,
    EXPIRED,
    GAP,
    LABELLED,
    LATE,
    OK,
    POISON,
    PREDICTED,
    STATUSES,
    Key,
    Said,
)
from undrift.fleet.state import ASK, LABEL, ROW, SPOILED, KeyState, Parked
from undrift.learners import Learner

NAN = math.nan


class Walk:
    """One key's walk through a batch."""

    def __init__(self, bench: Bench, key: Key, state: KeyState, *, wait: int, hold: int, numbered: bool) -> None:
        self.bench, self.key, self.state = bench, key, state
        self.wait, self.hold, self.numbered = wait, hold, numbered
        self.rows: list[Said] = []
        self._model: Learner | None = None
        self._run: list[tuple[int, Parked]] = []  # rows to be learned in one go

    def take(self, batch: Batch, ordered: bool) -> None:
        """Work through the key's records of a batch, sorted by order if they have one."""
        for i in _sorted(batch) if ordered else range(len(batch)):
            order = int(batch.order[i])
            why = batch.bad.get(i)
            if self.key is None:  # nobody's record: nothing to remember
                self._say(order, NAN, float(batch.y[i]), POISON, why or "")
                continue
            if not ordered:
                order = 0 if self.state.ledger.next is None else self.state.ledger.next
            if why is None or order != ABSENT:
                self._arrive(order, _parked(batch, i), why)
            else:
                self._learn()
                self._say(ABSENT, NAN, float(batch.y[i]), POISON, why)
        self._learn()

    def finish(self) -> None:
        """Release everything that waits, as if nothing before it could come any more."""
        for order in sorted(self.state.parked):
            self._release(order)
        self._learn()

    def close(self) -> list[Said]:
        """Put the model back into the state and return what was said."""
        if self._model is not None:
            self.bench.give_back(self._model, self.state)
        for row in self.rows:
            status = STATUSES[row[4]]
            self.state.counts[status] = self.state.counts.get(status, 0) + 1
        return self.rows

    def _say(self, order: int, prediction: float, target: float, status: int, reason: str = "") -> None:
        self.rows.append((self.key, order, prediction, target, status, reason))

    def _arrive(self, order: int, record: Parked, why: str | None) -> None:
        ledger, parked = self.state.ledger, self.state.parked
        if ledger.next is not None and order < ledger.next:
            used = ledger.used(order)
            reason = "or a copy of a record long gone" if used is None else ""
            self._say(order, NAN, record.y, DUPLICATE if used else LATE, reason)
            return
        if order in parked:
            self._say(order, NAN, record.y, DUPLICATE)
            return
        if why is not None:
            self._learn()  # so that what is said stays in order
            self._say(order, NAN, record.y, POISON, why)
            record = Parked(SPOILED, ABSENT, NAN, record.z)
        ledger.see(order, self.wait)
        parked[order] = record
        following = ledger.next
        if len(parked) > 1 and following is not None:
            for past in sorted(one for one in parked if one < following):
                self._release(past)
        while ledger.next in parked:
            self._release(ledger.next)

    def _release(self, order: int) -> None:
        record = self.state.parked.pop(order)
        last = self.state.ledger.ranges[-1][1] if self.state.ledger.ranges else order
        missing = self.state.ledger.release(order, self.wait)
        if missing and self.numbered:
            self._learn()
            self._say(last + 1, NAN, NAN, GAP, f"{missing} missing")
        if record.kind == ROW:
            self._run.append((order, record))
            return
        self._learn()
        if record.kind == ASK:
            self._ask(order, record)
        elif record.kind == LABEL:
            self._label(order, record)

    def _learner(self) -> Learner:
        if self._model is None:
            self._model = self.bench.borrow(self.state)
        return self._model

    def _ask(self, order: int, record: Parked) -> None:
        held = self.state.held
        try:
            yhat = float(self._learner().predict(record.z))
        except InputError as error:
            self._say(order, NAN, NAN, POISON, str(error))
            return
        self._say(order, yhat, NAN, PREDICTED)
        held[order] = record.z
        while len(held) > self.hold:
            oldest = next(iter(held))
            del held[oldest]
            self._say(oldest, NAN, NAN, EXPIRED, f"its label did not come within {self.hold} further predictions")

    def _label(self, order: int, record: Parked) -> None:
        z = self.state.held.pop(record.of, None)
        if z is None:
            self._say(order, NAN, record.y, POISON, f"no record {record.of} waits for a label")
            return
        self._run.append((order, Parked(ROW, ABSENT, record.y, z)))
        self._learn(LABELLED, f"label of {record.of}")

    def _learn(self, status: int = OK, reason: str = "") -> None:
        """Predict and learn the rows at hand, in one call; row by row if the model refuses one of them."""
        run, self._run = self._run, []
        if not run:
            return
        Z, y = np.stack([record.z for _, record in run]), np.array([record.y for _, record in run])
        model = self._learner()
        try:
            yhat = model.play(Z, y).yhat
        except InputError as error:
            if len(run) == 1:
                self._say(run[0][0], NAN, float(y[0]), POISON, str(error))
                return
            for one in run:
                self._run = [one]
                self._learn(status, reason)
            return
        for loss in losses(yhat, y, model.binary).tolist():
            self.state.loss += loss
        for (order, record), said in zip(run, yhat.tolist(), strict=True):
            self._say(order, said, record.y, status, reason)


def _sorted(batch: Batch) -> Iterator[int]:
    """Row numbers by order, then by content, so that a shuffle within the batch does not matter."""
    by = np.argsort(batch.order, kind="stable")
    same = np.diff(batch.order[by]) == 0
    if not same.any():
        yield from by.tolist()
        return

    def content(i: int) -> tuple[int, bool, int, bytes, bytes]:
        return int(batch.order[i]), i in batch.bad, int(batch.of[i]), batch.y[i].tobytes(), batch.Z[i].tobytes()

    yield from sorted(by.tolist(), key=content)


def _parked(batch: Batch, i: int) -> Parked:
    of, y = int(batch.of[i]), float(batch.y[i])
    kind = LABEL if of != ABSENT else ASK if y != y else ROW
    return Parked(kind, of, y, batch.Z[i])

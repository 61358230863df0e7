"""AnyLabels: labels that are texts or numbers, of two classes or more, some of which may appear later.

Labels 0 and 1, -1 and +1, False and True are what the compiled round of two classes learns. With the first label that
is another one, or a third, the model goes on with `SeveralClasses`, which takes over what was learned.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._internal import thread_lock
from undrift._typing import Matrix, Vector
from undrift.errors import InputError, ModelFileError
from undrift.kernels.definitions import EstimatorNumber, RecordPart
from undrift.learners.base import Columns, Prediction
from undrift.learners.row_context import ORDINARY, Delay, RowContext
from undrift.learners.save_point import SavePoint
from undrift.learners.served import PendingRecords, ServedPrediction
from undrift.losses import softplus
from undrift.online.base import OneCall, OnlineLearner
from undrift.online.label_kinds import Label, check_labels, fit_two_classes
from undrift.online.named_rows import ArrivingRows
from undrift.online.peeked import PeekedRow
from undrift.online.rows import Rows
from undrift.online.several_classes import ServedClasses, SeveralClasses, widen
from undrift.trace import Trace


class AnyLabels(OnlineLearner):
    """The part of a classifier that knows how labels are called, and has the stages of several classes if need be."""

    _label_names: tuple[Label, Label]
    _several: SeveralClasses | None = None
    _labels_seen: list[Label]
    any_labels: ClassVar[bool] = True
    two_classes_only: bool = False
    """Whether only 0 and 1, -1 and +1, False and True are taken, as fleets need; then 0 and -1 are one class."""

    @property
    @thread_lock.hold_shared
    def classes(self) -> list[Label]:
        """The labels learned so far, as they were given, in order: numbers by size, texts by alphabet."""
        if self._several is not None:
            return [self._labels_seen[k] for k in self._order()]
        if self.dim is None:
            return []
        seen = (EstimatorNumber.NEGATIVE, EstimatorNumber.POSITIVE)
        return [name for name, count in zip(self._label_names, seen, strict=True) if self._number(count)]

    @property
    def several_classes(self) -> bool:
        """Whether labels are others than 0 and 1, -1 and +1, False and True, or of more than two classes."""
        return self._several is not None

    def served_probabilities(self, served: ServedPrediction) -> dict[Label, float]:
        """Return what was given to each label known when a row was served; what they leave is for one not seen yet."""
        if self._several is None:
            raise InputError(
                f"{_check.name_of(self)}: its classes are two; the log-odds of the label +1 are served.yhat"
            )
        logs = np.atleast_1d(served.yhat)
        return dict(zip(sorted(self._labels_seen[: len(logs)]), np.exp(logs).tolist(), strict=True))

    @property
    def columns(self) -> list[Label]:
        """Labels of the columns of `predict_proba`: `classes`, or both of two that the compiled round learns."""
        return list(self._label_names) if self._several is None else self.classes

    @property
    def estimators(self) -> list[Any]:
        """Copies of the estimators of each class against the rest, in the order of `classes`; none for two classes."""
        if self._several is None or self._several.classes < 3:
            return []
        return [self._several.estimators[k].copy() for k in self._order()]

    def _order(self) -> list[int]:
        """Return the numbers of the classes learned so far in the order of their labels."""
        count = 0 if self._several is None else self._several.classes
        return sorted(range(count), key=lambda k: self._labels_seen[k])

    def _takes_several_calls(self) -> bool:
        return self._several is not None or super()._takes_several_calls()

    def clone(self) -> Self:
        """Return a fresh learner with the same parameters."""
        other = super().clone()
        other.two_classes_only = self.two_classes_only
        return other

    def peek(self, z: Rows) -> PeekedRow:
        """Return what would be served for one row that might come next; nothing changes."""
        if self._several is not None:
            raise InputError(f"{_check.name_of(self)}: peek is for two classes; use ask and tell")
        return super().peek(z)

    def _belief_facts(self) -> dict[str, str]:
        if self._several is None:
            return super()._belief_facts()
        return {"classes": ", ".join(str(one) for one in self.classes[:8])}

    def part(self, name: str) -> Vector:
        """Return a part of the state of two classes."""
        if self._several is not None:
            raise InputError(
                f"{_check.name_of(self)}: this is known of two classes called 0 and 1, -1 and 1, or False and True; "
                "look at one of its estimators"
            )
        return super().part(name)

    @thread_lock.hold_shared
    def _log_probabilities(self, z: Rows, elapsed: float | None = None) -> tuple[Matrix, bool]:
        """Return log-probabilities (rows, K) in the order of `classes`, and whether one row was given."""
        assert self._several is not None
        Z, single = self._rows_to_predict(z)
        return self._several.predict(Z, self._time(elapsed))[:, self._order()], single

    def _predict_label(self, z: Rows, elapsed: float | None = None) -> Prediction:
        logs, single = self._log_probabilities(z, elapsed)
        names = self.classes
        if not names:
            raise InputError(f"{_check.name_of(self)}: no label was learned yet, so there is none to predict")
        best = np.argmax(logs, axis=1)
        return names[int(best[0])] if single else np.array(names)[best]

    def _predict_probabilities(self, z: Rows, elapsed: float | None = None) -> Vector:
        logs, single = self._log_probabilities(z, elapsed)
        p = np.exp(logs)
        p /= np.sum(p, axis=1, keepdims=True)
        return np.asarray(p[0] if single else p)

    # Labels

    def _is_plain(self, y: object) -> bool:
        """Whether the compiled round of two classes learns these labels, with those before, or refuses them."""
        if self._several is not None or self.two_classes_only:
            return self._several is None
        return fit_two_classes(y, self.classes)

    def _check_labels(self, y: Any, count: int) -> list[Any]:
        return check_labels(self, y, count, getattr(self, "_labels_seen", self.classes))

    def _number_labels(self, labels: list[Any]) -> Vector:
        """Return class numbers of checked labels, NaN where missing; new ones get the next numbers."""
        for one in labels:
            if one == one and one not in self._labels_seen:  # NaN is not itself
                self._labels_seen.append(one)
        return np.array([self._labels_seen.index(one) if one == one else np.nan for one in labels], dtype=np.float64)

    def _become_several(self) -> None:
        """Go on with the stages of several classes, which take over what was learned."""
        make, names = self._make_estimator, self.classes
        first = make()
        sign, counts = 1.0, np.zeros(len(names))
        if self.dim is not None:
            negative, positive = (self._number(EstimatorNumber[one]) for one in ("NEGATIVE", "POSITIVE"))
            counts = np.array([one for one in (negative, positive) if one])
            sign = -1.0 if positive and not negative else 1.0  # of class 1, if the only one so far was called +1
            first = self.copy()
            first.names, first.two_classes_only = None, True
            first._take_over(first._plan, first._state)
        several = SeveralClasses(make, first, len(names), sign)  # type: ignore[arg-type]  # of this very class
        if self.dim is not None:
            last = self._number(EstimatorNumber.LAST)
            several.count(counts, 0.0 if len(names) < 2 or last < 0.0 else 1.0)
            self._convert_pending(names)
        self._several, self._labels_seen = several, names

    def _make_estimator(self) -> Self:
        """Return a fresh estimator of one class against the rest."""
        one = type(self)(**self.parameters)  # type: ignore[arg-type]  # its own parameters
        one.two_classes_only = True
        return one

    def _convert_pending(self, names: list[Label]) -> None:
        """Make the records of rows that wait those of several classes; labels that are due join the names."""
        old, self._pending = self._pending, PendingRecords()
        due = old.scheduled_labels
        for serial in old:
            record = old[serial]
            row = record[len(RecordPart) : len(RecordPart) + int(record[RecordPart.WIDTH])]
            yhat = float(record[RecordPart.YHAT])
            both = np.array([-softplus(yhat), -softplus(-yhat)])
            logs = both if len(self.classes) == 2 else np.zeros(len(self.classes))
            served = ServedClasses(logs, np.array([yhat]), np.empty((0, len(logs))), [serial], row.copy())
            self._pending.add(serial, served.flatten(), float(record[RecordPart.ELAPSED]))
            if serial in due:
                number = due[serial]
                if not np.isnan(number):
                    name = self._label_names[int(number > 0.0)]
                    if name not in names:
                        names.append(name)
                    number = float(names.index(name))
                self._pending.schedule(serial, number, float(record[RecordPart.WEIGHT]), old.delay(serial))
        self._pending.unlearned, self._pending.late_excess = old.unlearned, old.late_excess

    # Rounds

    @thread_lock.hold_exclusive
    def _learn_any(self, z: Rows, y: Any, context: RowContext = ORDINARY) -> None:
        if self._is_plain(y):
            super()._learn_any(z, y, context)
            return
        arriving = self._rows_to_learn(z)
        if len(arriving.values) != 1:
            got = len(arriving.values)
            raise InputError(f"{_check.name_of(self)}: learn takes one row, got {got}; use play(Z, y) for a block")
        self._play_any_labels(arriving, [y], context)

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
        if self._is_plain(y):
            return super()._play_block(Z, y, delay, levels, weight, elapsed)
        arriving = self._rows_to_learn(Z)
        if arriving.single:
            raise InputError(f"{_check.name_of(self)}: play takes rows (n, d), got one row; use learn(z, y)")
        context = self._check_context(len(arriving.values), weight=weight, elapsed=elapsed, delay=delay)
        return self._play_any_labels(arriving, y, context)

    def _play_any_labels(self, arriving: ArrivingRows, y: Any, context: RowContext) -> Trace:
        """Close rounds of any labels; the trace holds log-probabilities in the order of `classes`.

        As long as labels are those of the compiled round it plays them, so that a block is the same as its rows.
        """
        labels = self._check_labels(y, len(arriving.values))
        if len(self._given):
            raise InputError(
                f"{_check.name_of(self)}: candidates are for two classes called 0 and 1, -1 and 1, or False and True; "
                "leave them out, or join classes"
            )
        first, waits = self.rounds, self._waits(context)
        with SavePoint(self) if waits or self._several is None or len(labels) > 1 else OneCall(self):
            self._admit(arriving.names)
            rows, head = np.ascontiguousarray(arriving.values), 0
            played: list[Matrix] = []
            if self._several is None:
                head = self._plain_rows(labels)
                if head:
                    begin = context.between(0, head)
                    early = begin.delay, None, begin.weight, begin.elapsed
                    plain = super()._play_block(rows[:head], np.array(labels[:head]), *early)
                    known = np.maximum(
                        plain.first + np.arange(head), 1.0
                    )  # labels before each row, if all came at once
                    s = plain.yhat
                    both = np.stack([-softplus(s), -softplus(-s)], axis=1)
                    played.append(both + np.log1p(-1.0 / (known + 1.0))[:, None])
                self._become_several()
            several = self._several
            assert several is not None
            numbers = self._number_labels(labels[head:])
            self._fix_width(rows.shape[1])
            if waits:
                for t, number in enumerate(numbers, head):
                    played.append(self._play_one_late(rows[t : t + 1], number, context, t))
            else:
                played.append(several.play(rows[head:], numbers, context.between(head, len(rows))))
                self._pending.unlearned += int(np.isnan(numbers).sum())
            self.rounds = several.rounds
        logs = np.concatenate([np.empty((0, several.classes)), *(widen(one, several.classes) for one in played)])
        known_rows = np.ones(len(rows), bool)
        known_rows[:1] = first > 0
        who = type(self).__name__, dict(self.parameters)
        return Trace(logs[:, self._order()], None, None, *who, first, known=known_rows, delay=context.longest_delay)

    def _plain_rows(self, labels: list[Any]) -> int:
        """Return how many labels at the beginning the compiled round can learn."""
        low, high = 0, len(labels)
        while low < high:
            middle = (low + high + 1) // 2
            if self._is_plain(np.array(labels[:middle])):
                low = middle
            else:
                high = middle - 1
        return low

    def _play_one_late(self, Z: Matrix, label: float, context: RowContext, t: int) -> Matrix:
        """Serve a row, keep its label, and settle what is due; return the row's log-probabilities (1, K)."""
        served = self._ask(Z, context.row(t).times(1).item())
        logs = ServedClasses.from_vector(served.record).log_probabilities
        self._schedule(served.serial, float(label), context, t)
        return logs[None]

    @thread_lock.hold_exclusive
    def ask(self, z: Rows, *, elapsed: float | None = None) -> ServedPrediction:
        """Serve a row that has really come: return its prediction, and keep a record of it until `tell`.

        What depends on features alone advances (last-seen values, scaling); nothing that a label could change does.
        `elapsed` is the time since the row before, 1 by default.
        """
        if self._several is None:
            return super().ask(z, elapsed=elapsed)
        time = self._time(elapsed)
        arriving = self._rows_to_learn(z)
        if len(arriving.values) != 1:
            raise InputError(f"{_check.name_of(self)}: ask takes one row, got {len(arriving.values)}; ask row by row")
        self._admit(arriving.names)
        return self._ask(arriving.values, time)

    @thread_lock.hold_exclusive
    def tell(self, served: ServedPrediction, y: Any, *, weight: float | None = None) -> None:
        """Learn the label of a row that was served, from what was served; NaN says that it will never come.

        The row counts `weight` times in the memories, once by default.
        """
        if not isinstance(served, ServedPrediction) or self._is_plain(y):
            super().tell(served, y, weight=weight)
            self._name_labels(y)
            self._count()
            return
        serial = self._check_served(served)
        labels = self._check_labels([y], 1)
        context = self._check_context(1, weight=weight)
        with SavePoint(self) if self._several is None else OneCall(self):
            if self._several is None:
                self._become_several()
            self._tell(serial, float(self._number_labels(labels)[0]), context.weights(1).item())

    def _ask(self, Z: Matrix, elapsed: float = 1.0) -> ServedPrediction:
        if self._several is None:
            return super()._ask(Z, elapsed)
        self._fix_width(Z.shape[1])
        serial, record = self.served_rows + 1, self._several.serve(Z, elapsed).flatten()
        self._pending.add(serial, record, elapsed)
        return self._make_served(serial, record)

    def _row_counts(self) -> tuple[float, ...]:
        return super()._row_counts() if self._several is None else (float(self._several.rounds),)

    def _after_restore(self) -> None:
        if self._several is None:
            super()._after_restore()

    def _tell(self, serial: int, y: float, weight: float = 1.0) -> None:
        if self._several is None:
            super()._tell(serial, y, weight)
            return
        with OneCall(self, finish=lambda: self._pending.discard(serial, learned=True)):
            self._tell_waiting(serial, y, weight)

    def _tell_waiting(self, serial: int, y: float, weight: float) -> None:
        if self._several is None:
            super()._tell_waiting(serial, y, weight)
            return
        served = ServedClasses.from_vector(self._pending[serial])
        self._several.settle(served, y, weight, self._pending.time_before(serial))
        self.rounds = self._several.rounds
        if np.isnan(y):
            self._pending.close(serial)
        else:
            self._pending.settle(serial)

    def _release_record(self, serial: int) -> Vector:
        """Return all that is kept of a row that waits; of several classes, what each estimator keeps of it too."""
        if self._several is None:
            return super()._release_record(serial)
        record = self._pending.release(serial)
        return np.concatenate(([len(record)], record, self._several.release(ServedClasses.from_vector(record))))

    def _adopt_record(self, serial: int, kept: Vector) -> None:
        if self._several is None:
            super()._adopt_record(serial, kept)
            return
        size = int(kept[0]) if len(kept) and 0.0 <= kept[0] < len(kept) else 0
        record = kept[1 : 1 + size]
        if not self._fits_record(record):
            raise ModelFileError(f"{_check.name_of(self)}: the saved record of row {serial} cannot be used")
        self._several.adopt(ServedClasses.from_vector(record), kept[1 + size :])
        self._pending.adopt(serial, record)

    def _make_served(self, serial: int, record: Vector) -> ServedPrediction:
        if self._several is None:
            return super()._make_served(serial, record)
        logs = ServedClasses.from_vector(record).log_probabilities
        order = sorted(range(len(logs)), key=lambda k: self._labels_seen[k])
        return ServedPrediction(logs[order], len(logs) > 0, serial, record.copy(), self._fingerprint)

    def _check_served(self, served: ServedPrediction) -> int:
        """Return the serial number of a record that waits here; one served before the third class came is known too."""
        if self._several is not None and served.fingerprint == self._fingerprint and served.serial in self._pending:
            waiting = ServedClasses.from_vector(self._pending[served.serial])
            older = len(waiting.serials) == 1 and len(served.record) > len(RecordPart)
            if older and served.record[RecordPart.SERIAL] == waiting.serials[0] == served.serial:
                return served.serial
        return super()._check_served(served)

    def _fits_record(self, record: Vector) -> bool:
        if self._several is None:
            return super()._fits_record(record)
        try:
            served = ServedClasses.from_vector(record)
        except ValueError:
            return False
        return len(served.row) <= (self.dim or 0) and len(served.serials) <= len(self._several.estimators)

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        return super()._predict(Z, elapsed) if self._several is None else self._several.predict(Z, elapsed)

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        return super()._play(Z, y, context) if self._several is None else Columns(self._several.play(Z, y, context))

    def _close_rounds(self, Z: Matrix, signs: Vector, context: RowContext) -> Vector:
        """Close rounds of checked rows, labels -1, +1 or NaN, and weights, none of which is late; return the log-odds.

        It is what `play` does, for an estimator of one class among several, which needs no check of what was checked.
        """
        self._fix_width(Z.shape[1])
        if self._label_names[0] != -1 and (signs == -1.0).any():
            self._label_names = (-1, 1)
        yhat = self._play(Z, signs, context if context.needs else ORDINARY).yhat
        self._count()
        return yhat

    def _count(self) -> None:
        if self._several is None:
            super()._count()
        else:
            self.rounds = self._several.rounds

    def _grow(self, count: int) -> None:
        if self._several is None:
            super()._grow(count)
        else:
            self._several.add_features(count)

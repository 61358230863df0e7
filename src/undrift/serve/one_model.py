"""OneModel: a single model for all rows, its features, last rounds and watch; ClassModel: one of several classes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from undrift._typing import Matrix
from undrift.errors import InputError, ModelFileError, RequestSizeError
from undrift.events import Event, Watch
from undrift.learners.files import unpack_learner
from undrift.learners.serializable import pack_model
from undrift.losses import log_odds
from undrift.online import OnlineClassifier, Table
from undrift.online.estimator import OnlineEstimator
from undrift.online.labels import check_labels
from undrift.serve.journal import Checkpoint, JournalSnapshot, WaitingRow
from undrift.serve.recent import RecentRounds, Round
from undrift.serve.rows import Cell, Row, RowEncoder
from undrift.serve.served_models import (
    Answer,
    AskedRow,
    LabelledRow,
    LearnedLabel,
    check_level,
    median_half_life,
    name_classes,
    shown_prediction,
)
from undrift.serve.service import LARGEST_BATCH
from undrift.stream.task import MOST_CLASSES

NUMBERS_PER_SNAPSHOT = 10_000
"""A restart repeats at most so many rows and labels after the last snapshot, and those of one request more."""
ROUNDS_PER_LOOK = 10
"""Rounds between two looks at the model's memory."""


class OneModel:
    """A model, and what belongs to it.

    Parameters
    ----------
    model
        The model to begin with, unless the journal knows a later one.
    rows
        Makes features of rows.
    level
        Part of the labels that intervals are made to hold.
    """

    def __init__(self, model: OnlineEstimator, rows: RowEncoder, *, level: float = 0.9) -> None:
        self.model, self.rows, self.level, self.target = model, rows, check_level(level), rows.target
        self._first_state = rows.state(), pack_model(model)
        self._fresh()

    def _fresh(self) -> None:
        self._recent = RecentRounds()
        self.watch = Watch(level=self.level, binary=self.model.binary)
        self._saved_at = 0

    @property
    def work_per_row(self) -> int:
        """One learner for every row."""
        return 1

    def encode(self, rows: Sequence[Row]) -> Table | Matrix:
        """Return the features of rows that have come; refused rows change nothing."""
        return self.rows.encode(rows)

    def ask(
        self,
        features: Table | Matrix,
        number: int,
        references: Sequence[str | None],
        when: float,
        entry: int,
    ) -> list[AskedRow]:
        """Serve rows, which are numbered from `number` on; the features of the last one are watched."""
        asked, last = [], len(references) - 1
        names, values = self.rows.watched_features(features)
        events = self.watch.add_row(number + last, names, values[last]) if len(names) else ()
        for i, (serial, answer) in enumerate(self._serve(features, number)):
            record = self.model.release_record(serial)
            waiting = WaitingRow(number + i, None, serial, references[i], when, record)
            asked.append(AskedRow(waiting, answer, events if i == last else ()))
        return asked

    def _serve(self, features: Table | Matrix, number: int) -> Iterator[tuple[int, Answer]]:
        """Yield the serial number and the answer of each row, which waits for its label in the model."""
        for i, served in enumerate(self.model.ask_rows(features)):
            answer = Answer(number + i, served.yhat, None, *served.bounds(self.level), served.known)
            if self.model.binary:
                answer = name_classes(answer, served.yhat, self.rows.name_label)
            yield served.serial, answer

    def label(self, cell: Cell) -> LearnedLabel:
        """Return a label as the model learns it."""
        return self.rows.label(cell)

    def check_labels(self, labels: Sequence[LabelledRow]) -> None:
        """One model learns as many as come."""

    def tell(self, labels: Sequence[LabelledRow], entry: int) -> Sequence[Event]:
        """Learn labels of rows that wait, or close them; return what changed."""
        before = self.model.rounds
        told = [self.model.adopt_record(row.serial, row.record) for row, _ in labels]
        values = [float(y) for _, y in labels]
        self.model.tell_rows(told, values)
        events: list[Event] = []
        for (row, _), y, served in zip(labels, values, told, strict=True):
            number = row.number
            if math.isnan(y):
                continue
            self.rows.know_label(self.model.served_rows - served.serial + 1, y)
            low, high = served.bounds(self.level)
            self._recent.add(Round(number, y, served.yhat, low, high, served.known))
            if served.known:
                events += self.watch.add_round(number, y, shown_prediction(self.model, served.yhat), low, high)
        if self.model.rounds // ROUNDS_PER_LOOK > before // ROUNDS_PER_LOOK:
            events += self.watch.add_memory(labels[-1].row.number, self.model.spectrum())
        return events

    def facts(self) -> dict[str, Any]:
        """Return how it is doing, as JSON values."""
        return {
            "target": self.target,
            "task": "classification" if self.model.binary else "regression",
            "rounds": self.model.rounds,
            "half_life": median_half_life(self.model),
            "no_interval": self.model.inspect.missing_interval(),
            **self._recent.summary(self.level, binary=self.model.binary),
        }

    def recent(self, key: str | None, count: int) -> list[Round]:
        """Return the last rounds."""
        return self._recent.last(count)

    def is_due(self, last: int) -> bool:
        """Whether a snapshot should be taken when the journal has come to `last`."""
        return last - self._saved_at >= NUMBERS_PER_SNAPSHOT

    def checkpoint(self, last: int, facts: Mapping[str, Any], *, everything: bool) -> Checkpoint:
        """Return a snapshot of everything."""
        own = {
            "rows": self.rows.state(),
            "recent": self._recent.state(),
            "watch": self.watch.state(),
        }
        return Checkpoint(json.dumps({**facts, **own}, allow_nan=False), pack_model(self.model), (), last + 1)

    def mark_saved(self, saved: Checkpoint, last: int) -> None:
        """Note that this was written when the journal had come to `last`."""
        self._saved_at = last

    def is_crowded(self) -> bool:
        """Always False: a single model is saved as a whole."""
        return False

    def begin(self) -> None:
        """Become what it was before the journal's first entry."""
        state, file = self._first_state
        self.rows.resume(state)
        self.model = model_of(file)
        self._fresh()

    def resume(self, facts: Mapping[str, Any], saved: JournalSnapshot) -> None:
        """Go on from a snapshot, whose facts are these."""
        self.model = model_of(saved.model)
        self._fresh()
        self.rows.resume(facts["rows"])
        self._recent.resume(facts["recent"])
        self.watch.resume(facts["watch"])
        self._saved_at = saved.sequence


def model_of(file: bytes) -> OnlineEstimator:
    """Return the model in the bytes of a file."""
    model = unpack_learner(file, "the saved model")
    if not isinstance(model, OnlineEstimator):
        raise ModelFileError(f"a {type(model).__name__} cannot be served; give an OnlineRegressor or OnlineClassifier")
    return model


LONGEST_LABEL = 1000
"""Characters of a label."""


class ClassModel(OneModel):
    """A model of several classes, and what belongs to it."""

    def _fresh(self) -> None:
        super()._fresh()
        self.watch = Watch(level=self.level, binary=True, what="the predicted class")

    @property
    def work_per_row(self) -> int:
        """One learner a class."""
        return max(1, len(self._classifier.classes))

    @property
    def _classifier(self) -> OnlineClassifier:
        assert isinstance(self.model, OnlineClassifier)  # nothing else has several classes
        return self.model

    def _serve(self, features: Table | Matrix, number: int) -> Iterator[tuple[int, Answer]]:
        for i, served in enumerate(self._classifier.ask_rows(features)):
            given = self._classifier.served_probabilities(served)
            whole = sum(given.values())
            each = {str(label): p / whole for label, p in given.items()}
            best = max(given, key=given.__getitem__, default=None)
            yield served.serial, Answer(number + i, best, each.get(str(best)), None, None, bool(given), each)

    def label(self, cell: Cell) -> LearnedLabel:
        """Return a label as the model learns it, or say why it cannot be one."""
        known = self._classifier.classes
        (label,) = check_labels(self.model, [self.rows.class_label(cell)], 1, known)
        if isinstance(label, str) and len(label) > LONGEST_LABEL:
            raise InputError(f"the label {label!r:.60} is longer than {LONGEST_LABEL} characters; shorten it")
        return label  # type: ignore[no-any-return]  # a text, a number or NaN

    def check_labels(self, labels: Sequence[LabelledRow]) -> None:
        """Refuse more classes than are allowed, and so many new ones that the labels are too much work together."""
        new = {label: None for _, label in labels if label == label and label not in self._classifier.classes}
        count = self.work_per_row + len(new)
        if new and count > MOST_CLASSES:
            last = list(new)[-1]
            raise InputError(f"the label {last!r:.60} is one class more than the {MOST_CLASSES} allowed; join classes")
        if len(labels) * count > LARGEST_BATCH and len(labels) > 1:
            most = max(1, LARGEST_BATCH // count)
            raise RequestSizeError(f"a request with new classes, {count} then, holds 1 to {most:,} labels; split it")

    def tell(self, labels: Sequence[LabelledRow], entry: int) -> Sequence[Event]:
        """Learn labels of rows that wait, or close them; return what changed."""
        before, events = self.model.rounds, list[Event]()
        for row, label in labels:
            number = row.number
            served = self.model.adopt_record(row.serial, row.record)
            given = self._classifier.served_probabilities(served)
            self._classifier.tell(served, label)
            if label != label or not given:  # NaN closes a row; nothing was said before the first label
                continue
            best = max(given, key=given.__getitem__)
            whole = sum(given.values())
            right, p = float(best == label), given[best] / whole
            loss = -math.log(max(given.get(label, 1.0 - whole), 1e-300))
            each = {str(name): float(f"{q / whole:.6g}") for name, q in given.items()}  # short in snapshots
            self._recent.add(Round(number, right, float(log_odds(p)), None, None, True, label, best, loss, each))
            events += self.watch.add_round(number, right, p)
        if self.model.rounds // ROUNDS_PER_LOOK > before // ROUNDS_PER_LOOK:
            events += self.watch.add_memory(labels[-1].row.number, self.model.spectrum())
        return events

    def facts(self) -> dict[str, Any]:
        """Return how it is doing, as JSON values."""
        return super().facts() | {"task": "multiclass", "classes": [str(one) for one in self._classifier.classes]}


def has_several_classes(model: OnlineEstimator) -> bool:
    """Whether a model learns other labels than numbers, or 0 and 1, -1 and 1, False and True."""
    return isinstance(model, OnlineClassifier) and model.several_classes

"""ClassModel: a single model of several classes, whose labels are texts or whole numbers as they were given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from undrift._typing import Matrix
from undrift.errors import InputError, RequestSizeError
from undrift.events import Event, Watch
from undrift.losses import log_odds
from undrift.online import OnlineClassifier, Table
from undrift.online.base import OnlineLearner
from undrift.online.label_kinds import check_labels
from undrift.online.served_blocks import adopt_record, release_record
from undrift.run.prepare.task import MOST_CLASSES
from undrift.serve.journal import WaitingRow
from undrift.serve.one_model import ROUNDS_PER_LOOK, OneModel
from undrift.serve.recent import Round
from undrift.serve.rows import Cell
from undrift.serve.served_models import Answer, AskedRow, LabelledRow, LearnedLabel
from undrift.serve.service import LARGEST_BATCH

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
        for i in range(len(references)):
            row = Table(features.columns, features.values[i : i + 1]) if isinstance(features, Table) else features[i]
            served = self._classifier.ask(row)
            given = self._classifier.served_probabilities(served)
            whole = sum(given.values())
            each = {str(label): p / whole for label, p in given.items()}
            best = max(given, key=given.__getitem__, default=None)
            answer = Answer(number + i, best, each.get(str(best)), None, None, bool(given), each)
            record = release_record(self.model, served.serial)
            waiting = WaitingRow(number + i, None, served.serial, references[i], when, record)
            asked.append(AskedRow(waiting, answer, events if i == last else ()))
        return asked

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
            adopt_record(self.model, row.serial, row.record)
            served = self.model.find_pending(row.serial)
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


def has_several_classes(model: OnlineLearner) -> bool:
    """Whether a model learns other labels than numbers, or 0 and 1, -1 and 1, False and True."""
    return isinstance(model, OnlineClassifier) and model.several_classes

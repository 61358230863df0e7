"""What a service serves, one model or one for each key; the service itself keeps the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from undrift.errors import InputError
from undrift.events import Event
from undrift.learners.intervals import LEVELS
from undrift.losses import sigmoid
from undrift.online.estimator import OnlineEstimator
from undrift.serve.journal import Checkpoint, JournalSnapshot, WaitingRow
from undrift.serve.recent import Round
from undrift.serve.rows import Cell, Row


class Answer(NamedTuple):
    """The prediction of one row."""

    id: int
    """Give it back with the label."""
    prediction: Cell
    """A number, or the likelier label."""
    probability: float | None
    """Of the predicted label, for classes."""
    lower: float | None
    """Ends of the interval; None where there is none, which the fact `no_interval` explains."""
    upper: float | None
    known: bool
    """Whether any label was learned before; if not, the prediction says nothing."""
    probabilities: dict[str, float] | None = None
    """Of each class, by its label."""


LearnedLabel = float | int | str
"""A label as models learn it: a number, 0 or 1, or one of several classes; NaN closes a row."""


class LabelledRow(NamedTuple):
    """A row whose label has come."""

    row: WaitingRow
    y: LearnedLabel


class AskedRow(NamedTuple):
    """A row that was just served."""

    waiting: WaitingRow
    answer: Answer
    events: Sequence[Event]
    """What its features told."""


class ServedModels(Protocol):
    """What is served: makes predictions and learns labels; what it was is restored from snapshots."""

    target: str
    """What is predicted."""

    @property
    def work_per_row(self) -> int:
        """Learners that a row goes through: as many as there are classes, where there are several."""

    def encode(self, rows: Sequence[Row]) -> Any:
        """Return the features of rows that have come; refused rows change nothing."""

    def ask(
        self, features: Any, number: int, references: Sequence[str | None], when: float, entry: int
    ) -> list[AskedRow]:
        """Serve rows, numbered from `number` on, which the journal's entry `entry` brought.

        The features of the last one are watched. Rows that are in what was saved are left out.
        """

    def label(self, cell: Cell) -> LearnedLabel:
        """Return a label as models learn it."""

    def check_labels(self, labels: Sequence[LabelledRow]) -> None:
        """Refuse labels that are too many for one request: of keys, or of classes that are new."""

    def tell(self, labels: Sequence[LabelledRow], entry: int) -> Sequence[Event]:
        """Learn labels, which the journal's entry `entry` brought, or close rows; return what changed.

        Labels that are in what was saved are left out.
        """

    def facts(self) -> dict[str, Any]:
        """Return how it is doing, as JSON values."""

    def recent(self, key: str | None, count: int) -> list[Round]:
        """Return the last rounds, of a key where every key has a model."""

    def is_due(self, last: int) -> bool:
        """Whether something should be saved when the journal has come to `last`."""

    def checkpoint(self, last: int, facts: Mapping[str, Any], *, everything: bool) -> Checkpoint:
        """Return what to save now, beside `facts` of the service itself."""

    def mark_saved(self, saved: Checkpoint, last: int) -> None:
        """Note that this was written when the journal had come to `last`."""

    def is_crowded(self) -> bool:
        """Whether something must be saved before more is asked and told."""

    def begin(self) -> None:
        """Become what it was before the journal's first entry."""

    def resume(self, facts: Mapping[str, Any], saved: JournalSnapshot) -> None:
        """Go on from a snapshot, whose facts are these."""


def check_level(level: float) -> float:
    """Return a level that models keep intervals at."""
    if level not in LEVELS:
        levels = ", ".join(f"{one:g}" for one in LEVELS)
        raise InputError(f"intervals are kept at the levels {levels}, got {level:g}")
    return level


def shown_prediction(model: OnlineEstimator, yhat: float) -> float:
    """Return a prediction as people read it: a number, or the probability of the positive label."""
    return float(sigmoid(np.array(yhat))) if model.binary else yhat


def name_classes(answer: Answer, log_odds: float, name_label: Callable[[float], Cell]) -> Answer:
    """Return the answer to a row of two classes, which are called by `name_label`, as for several."""
    given = {str(name_label(side)): float(sigmoid(np.array(side * log_odds))) for side in (-1.0, 1.0)}
    label = name_label(log_odds)
    return answer._replace(prediction=label, probability=given[str(label)], probabilities=given)


def median_half_life(model: OnlineEstimator) -> float | None:
    """Return the memory length below which half of the weight lies, in rounds; None: it never forgets."""
    spectrum = model.spectrum()
    if not len(spectrum.weights):
        return None
    median = spectrum.half_lives[int(np.searchsorted(np.cumsum(spectrum.weights), 0.5))]
    return float(median) if np.isfinite(median) else None

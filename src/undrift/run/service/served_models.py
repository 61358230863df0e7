"""What a service serves, one stream or one model for each key; the service itself keeps the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from undrift.errors import InputError
from undrift.events import Event
from undrift.learners.intervals import LEVELS
from undrift.online.estimator import OnlineEstimator
from undrift.run.service.journal import Journal, WaitingRow
from undrift.run.service.recent import Round, or_none
from undrift.stream import Answers

Cell = float | int | str | bool | None
Row = Mapping[str, Cell]


class Answer(NamedTuple):
    """The prediction of one row."""

    id: int
    """Give it back with the label."""
    prediction: Cell
    """A number, or the likelier label; None before the first label."""
    probability: float | None
    """Of the predicted label, for classes."""
    lower: float | None
    """Ends of the interval; None where there is none, which the fact `no_interval` explains."""
    upper: float | None
    known: bool
    """Whether any label was learned before; if not, the prediction says nothing."""
    probabilities: dict[str, float] | None = None
    """Of each class, by its label."""
    quantiles: dict[str, float | None] | None = None
    """By their levels, where a run has some."""


LearnedLabel = float | int | str | None
"""A label as models learn it: a number, 0 or 1, or the text of a class; None closes a row."""


class LabelledRow(NamedTuple):
    """A row whose label has come."""

    row: WaitingRow
    y: LearnedLabel
    elsewhere: bool = False
    """Whether the label was learned already, from a file, so that the row is only closed."""


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
    first_row: int
    """The id of the first row that is served, where nothing was saved yet."""

    @property
    def work_per_row(self) -> int:
        """Learners that a row goes through: as many as there are classes, where there are several."""

    def encode(self, rows: Sequence[Row], number: int, entry: int) -> Any:
        """Return what `ask` takes of rows that have come, numbered from `number` on, by the journal's entry `entry`.

        Refused rows change nothing.
        """

    def ask(
        self, features: Any, number: int, references: Sequence[str | None], when: float, entry: int
    ) -> list[AskedRow]:
        """Serve rows, which the journal's entry `entry` brought; those that are in what was saved are left out."""

    def read_labels(self, cells: Sequence[Cell], numbers: Sequence[int]) -> list[LearnedLabel]:
        """Return labels of the rows of these numbers as models learn them; refused labels change nothing."""

    def tell(self, labels: Sequence[LabelledRow], entry: int) -> Sequence[Event]:
        """Learn labels, which the journal's entry `entry` brought, or close rows; return what changed.

        Labels that are in what was saved are left out.
        """

    def facts(self) -> dict[str, Any]:
        """Return how it is doing, as JSON values."""

    def recent(self, key: str | None, count: int) -> list[Round]:
        """Return the last rounds, of a key where every key has a model."""

    def is_due(self, journal: Journal) -> bool:
        """Whether something should be saved."""

    def is_crowded(self) -> bool:
        """Whether something must be saved before more is asked and told."""

    def save(self, journal: Journal, facts: Mapping[str, Any], *, everything: bool) -> None:
        """Save what is now, or the part of it that is due, beside `facts` of the service itself."""

    def restore(self, journal: Journal) -> tuple[int, Mapping[str, Any]] | None:
        """Become what was saved last; return the number of its last entry, and the facts of the service then.

        None: nothing was saved yet, and it is what it was before the journal's first entry.
        """


def make_answers(
    numbers: Sequence[int], answers: Answers, show: Callable[[str], Cell] = lambda label: label
) -> Iterator[Answer]:
    """Yield answers as they are sent, under the ids of their rows; `show` returns a label as the client knows it."""
    known = answers.known.tolist()
    if answers.classes is None:
        ends = (or_none(end) for end in (answers.yhat, answers.lower, answers.upper))
        for i, (yhat, low, high) in enumerate(zip(*ends, strict=True)):
            quantiles = None
            if answers.quantiles is not None:
                quantiles = {f"{q:g}": v for q, v in zip(answers.levels, or_none(answers.quantiles[i]), strict=True)}
            yield Answer(numbers[i], yhat, None, low, high, known[i], None, quantiles)
        return
    labels = answers.labels
    for i, shares in enumerate(answers.probabilities.tolist()):
        each = {name: p for name, p in zip(answers.classes, shares, strict=True) if name and p == p}
        best = labels[i] if known[i] else None
        p = None if best is None else each[best]
        yield Answer(numbers[i], None if best is None else show(best), p, None, None, known[i], each or None)


def show_label(label: str, kind: str | None) -> Cell:
    """Return a label as an estimator was told it, by the name of its type; None: a text."""
    return label if kind is None else label == "True" if kind == "bool" else int(label)


def check_level(level: float) -> float:
    """Return a level that models keep intervals at."""
    if level not in LEVELS:
        levels = ", ".join(f"{one:g}" for one in LEVELS)
        raise InputError(f"intervals are kept at the levels {levels}, got {level:g}")
    return level


def median_half_life(model: OnlineEstimator) -> float | None:
    """Return the memory length below which half of the weight lies, in rounds; None: it never forgets."""
    spectrum = model.spectrum()
    if not len(spectrum.weights):
        return None
    median = spectrum.half_lives[int(np.searchsorted(np.cumsum(spectrum.weights), 0.5))]
    return float(median) if np.isfinite(median) else None


def is_unicode(text: str) -> bool:
    """Whether a text can be written to a file: half of a surrogate pair cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)

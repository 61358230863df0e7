"""Rows from a pipe, one JSON object a line: each is predicted as it comes, and learned now or when its label comes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from undrift.errors import DataError, InputError
from undrift.events import Event, Watch
from undrift.learners.served import ServedPrediction
from undrift.losses import sigmoid
from undrift.online import Table
from undrift.run.play.run_model import LEVEL, make_model
from undrift.stream.cells import LIMIT, is_missing
from undrift.stream.settings import Settings

MOST_WAITING = 100_000
"""Rows that wait for their label; with more, the oldest one is given up."""
ROUNDS_PER_LOOK = 10
"""Rounds between two looks at the model's memory."""
ROWS_BEFORE_NEWS = 100
"""Rows before a text that was never seen is worth a word."""
Name = str | int | float
"""What a row is called by its sender."""


class LivePrediction(NamedTuple):
    """What is said about one line."""

    line: int
    """Its number, from 1 on."""
    id: Name | None
    """What its sender calls it."""
    prediction: float | str | None
    """A number, or the likelier label; None while no label was ever learned."""
    probability: float | None
    """Of the predicted label, for two classes."""
    lower: float | None
    """Ends of the 90% interval; None where there is none."""
    upper: float | None
    probabilities: dict[str, float] | None = None
    """Of both labels, or of the one that came so far, for two classes."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values, without what it does not have."""
        return {name: value for name, value in self._asdict().items() if value is not None or name == "prediction"}


def play_live(
    lines: Iterable[str],
    settings: Settings,
    *,
    id_column: str | None = None,
    complain: Callable[[DataError], None],
    on_event: Callable[[Event], None] | None = None,
) -> Iterator[LivePrediction]:
    """Yield a prediction for each row as it comes; its label is learned when the next one is asked for.

    Parameters
    ----------
    lines
        One JSON object each. A label is beside its row, or comes later in a line of its id and the target alone.
    settings
        What to predict, and how. Without `task`, the first row's label says whether it is a number or a class.
    id_column
        Column that names rows whose labels come later.
    complain
        Called with what is wrong with a line, which is left out.
    on_event
        Called when something changes.
    """
    if settings.task == "multiclass":
        raise InputError("--live predicts numbers or two classes; leave out --task multiclass, or run on a file")
    stream: _LiveStream | None = None
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            row = _read_object(number, text)
            if stream is None:
                stream = _LiveStream(settings, id_column, row.get(settings.target), on_event)
            said = stream.predict(number, row)
        except DataError as error:
            complain(error)
            continue
        if said is not None:
            yield said
        try:
            stream.learn(number, row)
        except DataError as error:
            complain(error)


class _LiveStream:
    """The model, and the rows that wait for their label."""

    def __init__(
        self, settings: Settings, id_column: str | None, first: object, on_event: Callable[[Event], None] | None
    ) -> None:
        self._target, self._id, self._na = settings.target, id_column, frozenset(settings.na)
        self._labels = LiveLabels(settings, first)
        self._columns = LiveColumns(settings, id_column)
        self._model = make_model(settings, "classification" if self._labels.binary else "regression")
        binary = self._labels.binary
        self._watch = None if on_event is None else Watch(level=LEVEL, binary=binary, on_event=on_event)
        self._watched: list[str] = []
        self._waiting: dict[Name, ServedPrediction] = {}
        self._served: ServedPrediction | None = None

    def predict(self, number: int, row: Mapping[str, Any]) -> LivePrediction | None:
        """Return what is said about a row; None for a line that only brings a label."""
        name = self._name_of(number, row)
        if name in self._waiting:
            if set(row) != {self._id, self._target}:
                raise DataError(f"line {number}: '{self._id}' {name!r:.40} is that of a row that waits for its label")
            return None
        features = self._columns.encode(number, row)
        if not features.columns:
            raise DataError(f"line {number}: there is nothing to predict from")
        (served,) = self._model.ask_rows(features)
        self._served = served
        self._look(number, features)
        if not served.known:
            return LivePrediction(number, name, None, None, None, None)
        if self._labels.binary:
            label, both = self._labels.name(served.yhat), self._labels.by_name(float(sigmoid(np.array(served.yhat))))
            return LivePrediction(number, name, label, both.get(label), None, None, both)
        return LivePrediction(number, name, served.yhat, None, *served.bounds(LEVEL))

    def learn(self, number: int, row: Mapping[str, Any]) -> None:
        """Learn the label that a line brings, or let its row wait."""
        name = self._name_of(number, row)
        served, self._served = self._served, None
        if served is None:
            served = self._waiting[name]  # type: ignore[index]  # it has a name, or `predict` would have served it
        cell = row.get(self._target)
        if is_missing(cell, self._na):
            if name is not None:
                self._waiting[name] = served
            if name is None or len(self._waiting) > MOST_WAITING:
                given_up = served if name is None else self._waiting.pop(next(iter(self._waiting)))
                self._model.tell(given_up, math.nan)
            return
        try:
            y = self._labels.read(number, cell)
        except DataError:
            self._waiting.pop(name, None)  # type: ignore[arg-type]  # None is no name of a row
            self._model.tell(served, math.nan)
            raise
        self._waiting.pop(name, None)  # type: ignore[arg-type]
        self._model.tell(served, y)
        self._judge(number, y, served)

    def _name_of(self, number: int, row: Mapping[str, Any]) -> Name | None:
        name = None if self._id is None else row.get(self._id)
        if isinstance(name, (list, dict)):
            raise DataError(f"line {number}: '{self._id}' must be a text or a number, got {name!r:.40}")
        return name

    def _look(self, number: int, features: Table) -> None:
        """Watch the features that the first row had, and new texts."""
        if self._watch is None:
            return
        self._watched = self._watched or [name for name in features.columns if "=" not in name]
        if self._watched:
            places = [self._columns.places[name] for name in self._watched]
            self._watch.add_row(number, self._watched, features.values[0, places])
        if number > ROWS_BEFORE_NEWS:
            for column, text in self._columns.new_texts:
                self._watch.add_category(number, column, text)

    def _judge(self, number: int, y: float, served: ServedPrediction) -> None:
        if self._watch is None:
            return
        if served.known:
            shown = float(sigmoid(np.array(served.yhat))) if self._labels.binary else served.yhat
            self._watch.add_round(number, y, shown, *served.bounds(LEVEL))
        if self._model.rounds % ROUNDS_PER_LOOK == 0:
            self._watch.add_memory(number, self._model.spectrum())


def _read_object(number: int, text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"line {number}: not JSON; write one object a line") from None
    if not isinstance(row, dict):
        raise DataError(f"line {number}: a JSON {type(row).__name__} where an object should be")
    return row


class LiveColumns:
    """Features of rows whose columns become known as they come: numbers as they are, texts one feature for each."""

    def __init__(self, settings: Settings, id_column: str | None) -> None:
        self._left_out = {*settings.drop, settings.target, id_column, settings.time}
        self._chosen = None if settings.features is None else {*settings.features}
        self._most_texts, self._na = settings.most_texts, frozenset(settings.na)
        self.places: dict[str, int] = {}
        """Features and their places."""
        self._numbers: set[str] = set()
        self._texts: dict[str, int] = {}
        self.new_texts: list[tuple[str, str]] = []
        """Columns and texts that the last row brought."""

    def encode(self, number: int, row: Mapping[str, Any]) -> Table:
        """Return the features of a row, new ones last; what it does not have is missing."""
        cells = {name: cell for name, cell in row.items() if self._is_used(name)}
        for name, cell in cells.items():
            self._check(number, name, cell)
        self.new_texts = []
        values = {name: self._place_of(name, cell) for name, cell in cells.items() if not is_missing(cell, self._na)}
        z = np.zeros(len(self.places))
        z[[self.places[name] for name in self._numbers]] = math.nan
        for name, place in values.items():
            if place is not None:
                z[place] = float(cells[name]) if name in self._numbers else 1.0
        return Table(list(self.places), z[None])

    def _is_used(self, name: str) -> bool:
        return name not in self._left_out and (self._chosen is None or name in self._chosen)

    def _check(self, number: int, name: str, cell: object) -> None:
        """Refuse a cell that is not what its column is."""
        if is_missing(cell, self._na):
            return
        if isinstance(cell, (list, dict)):
            raise DataError(
                f"line {number}: '{name}' holds a list or an object; write plain columns, or --drop '{name}'"
            )
        if isinstance(cell, str):
            if name in self._numbers:
                raise DataError(f"line {number}: '{name}' is a column of numbers, got {cell!r:.60}")
        elif name in self._texts:
            raise DataError(f"line {number}: '{name}' is a column of texts, got {cell!r:.60}")
        elif not abs(cell) <= LIMIT:  # type: ignore[arg-type]  # a number, as nothing else is left
            raise DataError(f"line {number}: '{name}' must be at most {LIMIT:g} in size, got {cell!r:.60}")

    def _place_of(self, name: str, cell: object) -> int | None:
        """Return the feature of a cell, made if it is new; None for one text too many."""
        if not isinstance(cell, str):
            self._numbers.add(name)
            return self.places.setdefault(name, len(self.places))
        feature = f"{name}={cell}"
        if feature not in self.places:
            if self._texts.get(name, 0) >= self._most_texts:
                return None
            self._texts[name] = self._texts.get(name, 0) + 1
            self.new_texts.append((name, cell))
        return self.places.setdefault(feature, len(self.places))


class LiveLabels:
    """Labels as a model learns them: numbers, or 0 and 1 for two classes."""

    def __init__(self, settings: Settings, first: object) -> None:
        named = isinstance(first, (str, bool)) or settings.positive is not None
        self.binary = settings.task == "classification" or (settings.task == "auto" and named)
        self._target, self._negative, self._positive = settings.target, "", settings.positive

    def read(self, number: int, cell: object) -> float:
        """Return a label as a number."""
        if not self.binary:
            if isinstance(cell, bool) or not isinstance(cell, (int, float)) or not abs(cell) <= LIMIT:
                raise DataError(f"line {number}: '{self._target}' must be a number, got {cell!r:.60}; see --task")
            return float(cell)
        label = cell if isinstance(cell, str) else json.dumps(cell)
        if label == self._positive or (self._positive is None and self._negative not in ("", label)):
            self._positive = label
            return 1.0
        if self._negative in ("", label):
            self._negative = label
            return 0.0
        named = f"{self._negative!r} nor {self._positive!r}"
        raise DataError(f"line {number}: '{self._target}' is {cell!r:.40}, neither {named}")

    def name(self, log_odds: float) -> str:
        """Return the likelier label."""
        return self._positive if log_odds > 0.0 and self._positive is not None else self._negative

    def by_name(self, positive: float) -> dict[str, float]:
        """Return the probabilities of the labels that are known by now, from that of the positive one."""
        both = ((self._negative or None, 1.0 - positive), (self._positive, positive))
        return {label: p for label, p in both if label is not None}

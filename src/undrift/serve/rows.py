"""Rows as JSON objects, on their way to a model: named numbers, the columns of a run, or rows of many keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from undrift._typing import Matrix
from undrift.errors import InputError
from undrift.online import OnlineClassifier, Table
from undrift.online.estimator import OnlineEstimator
from undrift.stream.cells import LIMIT, RowBatch, parse_number, parse_texts
from undrift.stream.features import Features
from undrift.stream.first_rows import RowOrigin
from undrift.stream.settings import did_you_mean

Cell = float | int | str | bool | None
Row = Mapping[str, Cell]


class RowEncoder(Protocol):
    """What makes features of rows, and numbers of labels."""

    target: str
    """What is predicted."""

    def encode(self, rows: Sequence[Row]) -> Table | Matrix:
        """Return the features of rows that have come; refused rows change nothing."""

    def watched_features(self, features: Table | Matrix) -> tuple[Sequence[str], Matrix]:
        """Return the names and values of those features that are watched for changes."""

    def label(self, cell: Cell) -> float:
        """Return a label as the model learns it."""

    def class_label(self, cell: Cell) -> Cell:
        """Return a label of several classes, None if it is missing."""

    def name_label(self, y: float) -> Cell:
        """Return a label as it was given."""

    def know_label(self, rows_ago: int, y: float) -> None:
        """Take in the label of a row, so many rows before the next one."""

    def state(self) -> dict[str, Any]:
        """Return what later rows depend on, as JSON values."""

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` left off."""


class NamedNumbers:
    """Rows for a model that was made in Python: names of features and their values."""

    target = "y"

    def __init__(self, model: OnlineEstimator) -> None:
        self._named = model.names is not None
        self._names = [f"x{j}" for j in range(model.dim or 0)] if model.names is None else list(model.names)
        if not self._names:
            raise InputError("the model has learned no row yet, so nobody knows its features; let it learn one first")
        self._places = {name: j for j, name in enumerate(self._names)}
        self._labels = model.columns if isinstance(model, OnlineClassifier) and model.binary else ()

    def encode(self, rows: Sequence[Row]) -> Table | Matrix:
        """Return the features of rows that have come; those that a row does not name are missing."""
        Z = np.full((len(rows), len(self._names)), math.nan)
        for i, row in enumerate(rows):
            for name, cell in row.items():
                if name not in self._places:
                    raise InputError(f"the model has no feature '{name:.60}'{did_you_mean(name, self._names)}")
                Z[i, self._places[name]] = read_number(name, cell)
        return Table(self._names, Z) if self._named else Z

    def watched_features(self, features: Table | Matrix) -> tuple[Sequence[str], Matrix]:
        """Return every feature."""
        return self._names, features.values if isinstance(features, Table) else features

    def label(self, cell: Cell) -> float:
        """Return a label as the model learns it."""
        return read_number("the label", cell)

    def class_label(self, cell: Cell) -> Cell:
        """Return a label of several classes."""
        return cell

    def name_label(self, y: float) -> Cell:
        """Return the likelier label as the model learned it."""
        return self._labels[int(y > 0.0)]

    def know_label(self, rows_ago: int, y: float) -> None:
        """Labels are no features here."""

    def state(self) -> dict[str, Any]:
        """Nothing is kept from row to row."""
        return {}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Nothing is kept from row to row."""


class _Request(RowOrigin):
    """Rows of a request, whose sender has no command line."""

    def leave_out(self, name: str) -> str:
        """Return how a column is left out."""
        return "leave it out of the row"

    def mark_missing(self, text: str) -> str:
        """Return how a value is said to be missing."""
        return "send null if it is missing"


class RunRows:
    """Rows with the columns of the file that a run has learned: numbers, texts, times, and lags of the target."""

    def __init__(self, features: Features) -> None:
        self.target, self._features = features.settings.target, features
        self._origin = _Request("request", features.settings)
        schema = features.schema
        times = [] if schema.time is None else [schema.time]
        self._columns = [*schema.numbers, *schema.text_columns, *times]

    def encode(self, rows: Sequence[Row]) -> Table:
        """Return the features of rows that have come; refused rows change nothing."""
        for row in rows:
            if not any(name in row for name in self._columns):
                given = ", ".join(f"{name!r:.60}" for name in list(row)[:5]) or "nothing"
                raise InputError(f"a row needs columns of the run, such as '{self._columns[0]}'; it has {given}")
        lines = np.arange(1, len(rows) + 1, dtype=np.int64)
        batch = RowBatch(lines, {name: [row.get(name) for row in rows] for name in self._columns})
        work = self._features.copy()
        Z = work.encode(batch, self._origin, "later").Z
        self._features = work
        return Table(work.names, Z)

    def watched_features(self, features: Table | Matrix) -> tuple[Sequence[str], Matrix]:
        """Return the columns of numbers; the calendar, lags and texts are ours."""
        names = self._features.schema.numbers
        values = features.values if isinstance(features, Table) else features
        return names, values[:, : len(names)]

    def label(self, cell: Cell) -> float:
        """Return a label as the model learns it."""
        classes = self._features.labels.classes
        if classes is None:
            value = parse_number(cell)
            if value is None:
                raise InputError(f"'{self.target}' must be a number, or null, got {cell!r:.60}")
            return value
        if "" not in classes and self.class_label(cell) not in classes:  # "": the negative one was not seen yet
            raise InputError(f"'{self.target}' must be {' or '.join(map(repr, classes))}, or null, got {cell!r:.60}")
        return float(self._features.labels.encode([cell], np.zeros(1, np.int64), self._origin)[0])

    def class_label(self, cell: Cell) -> Cell:
        """Return a label of several classes as the run's file would have it, None if it is missing."""
        return parse_texts([cell], self._origin.na)[0]

    def name_label(self, y: float) -> Cell:
        """Return a label as it was given."""
        return y if self._features.labels.classes is None else self._features.labels.classes[int(y > 0.0)]

    def know_label(self, rows_ago: int, y: float) -> None:
        """Take in the label of a row, which may be the lag of a later one."""
        self._features.know_label(self._features.rows - rows_ago + 1, y)

    def state(self) -> dict[str, Any]:
        """Return what later rows depend on."""
        values, arrays = self._features.state()
        last = [None if math.isnan(y) else y for y in arrays["late"].tolist()]
        return {**values, "late": last, "low": _texts(arrays["low"]), "high": _texts(arrays["high"])}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` left off."""
        last = np.array([math.nan if y is None else y for y in state["late"]], dtype=np.float64)
        arrays = {
            "late": last,
            "low": _floats(state["low"]),
            "high": _floats(state["high"]),
            "recent": np.empty((0, 0)),
        }
        self._features = self._features.copy()
        self._features.resume(state, arrays)


def _texts(values: Any) -> list[str]:
    return [float(value).hex() for value in values]


def _floats(texts: Sequence[str]) -> Any:
    return np.array([float.fromhex(text) for text in texts])


def read_number(name: str, cell: Cell) -> float:
    """Return a cell as a number, NaN for null."""
    if cell is None:
        return math.nan
    if isinstance(cell, (int, float)) and abs(cell) <= LIMIT:
        return float(cell)
    raise InputError(f"'{name:.60}' must be a number of at most {LIMIT:g} in size, or null, got {cell!r:.60}")


def is_unicode(text: str) -> bool:
    """Whether a text can be written to a file: half of a surrogate pair cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


LONGEST_KEY = 1000
"""Characters of a key."""


class KeyedBatch(NamedTuple):
    """Rows that have come."""

    keys: list[str]
    """Whose they are."""
    Z: Matrix
    """Features (n, d), NaN where missing."""


class KeyedRows:
    """Makes features of rows, and numbers of labels.

    Parameters
    ----------
    key
        Column that names the key.
    features
        Columns that are numbers.
    target
        What is predicted.
    unused
        Columns that rows may have and that nothing is learned from, such as a fleet's order.
    classes
        The two labels, the negative one first; None where the target is a number, or is given as 0 and 1.
    """

    def __init__(
        self,
        key: str,
        features: Sequence[str],
        *,
        target: str = "y",
        unused: Sequence[str] = (),
        classes: Sequence[str] | None = None,
    ) -> None:
        if key in features:
            raise InputError(f"--key '{key}': this is a feature of the model; name another column")
        self.key, self.target, self.classes = key, target, None if classes is None else list(classes)
        self._names, self._unused = list(features), {*unused}
        self._places = {name: j for j, name in enumerate(features)}

    def encode(self, rows: Sequence[Row]) -> KeyedBatch:
        """Return keys and features; a feature that a row does not name is missing."""
        Z, keys = np.full((len(rows), len(self._names)), math.nan), []
        for i, row in enumerate(rows):
            keys.append(self._read_key(row.get(self.key)))
            for name, cell in row.items():
                place = self._places.get(name)
                if place is not None:
                    Z[i, place] = read_number(name, cell)
                elif name != self.key and name not in self._unused:
                    raise InputError(f"the models have no feature '{name:.60}'{did_you_mean(name, self._names)}")
        return KeyedBatch(keys, Z)

    def _read_key(self, cell: Cell) -> str:
        if isinstance(cell, bool) or not isinstance(cell, (str, int)):
            raise InputError(f"every row needs its key, a text or an integer, as '{self.key}', got {cell!r:.60}")
        key = str(cell)
        if not is_unicode(key):
            raise InputError(f"a key must be a text that can be written, got {key!r:.60}")
        if not 1 <= len(key) <= LONGEST_KEY:
            raise InputError(f"a key has 1 to {LONGEST_KEY:,} characters, got {len(key):,}")
        return key

    def label(self, cell: Cell) -> float:
        """Return a label as models learn it."""
        if self.classes is None:
            return read_number("the label", cell)
        if str(cell) not in self.classes:
            named = " or ".join(map(repr, self.classes))
            raise InputError(f"'{self.target}' must be {named}, got {cell!r:.60}")
        return float(self.classes.index(str(cell)))

    def name_label(self, log_odds: float) -> Cell:
        """Return the likelier label as it was given."""
        return int(log_odds > 0.0) if self.classes is None else self.classes[int(log_odds > 0.0)]

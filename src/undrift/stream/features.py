"""Rows as a model sees them: numbers, the calendar, labels of earlier rows, and features of texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.errors import DataError
from undrift.fleet.key_state import fill_lags, lag_names
from undrift.learners.row_context import WEIGHT_LIMIT
from undrift.stream.calendar import fill_calendar
from undrift.stream.cells import (
    LIMIT,
    Lines,
    RowBatch,
    Times,
    UnreadableCell,
    parse_numbers,
    parse_texts,
    parse_times,
)
from undrift.stream.first_rows import RowOrigin, not_a_number
from undrift.stream.problems import ColumnStatistics, DataProblems
from undrift.stream.schema import Schema, require_short
from undrift.stream.task import MOST_CLASSES
from undrift.stream.text_features import TextFeatures, unused_name


class Rows(NamedTuple):
    """Some rows, in order."""

    line: Lines
    """Where they stand (n,)."""
    time: Times | None
    """When they were (n,)."""
    Z: Matrix
    """Features (n, features), NaN where missing."""
    y: Vector
    """Labels (n,), 0 and 1 for two classes, the numbers of several ones, NaN where missing."""
    weight: Vector | None = None
    """How often each row counts (n,); None: once."""
    elapsed: Vector | None = None
    """Time since the row before in units of the usual spacing (n,); None: 1."""


class Features:
    """Turns batches of rows into features and labels; remembers texts, the last labels and what was wrong.

    Parameters
    ----------
    source
        Where the rows come from, and the settings.
    schema
        What each column is.
    learning
        False for rows that are only predicted: a text that is new gets no feature, as the model would ignore it, and
        labels serve the lags of later rows and nothing else.
    labels_come_later
        Whether labels do not stand in the rows, but come one by one by `know_label`.
    """

    def __init__(
        self, source: RowOrigin, schema: Schema, *, learning: bool = True, labels_come_later: bool = False
    ) -> None:
        self.source, self.schema, self.settings, self.learning = source, schema, source.settings, learning
        self.na = frozenset(self.settings.na)
        self.problems = DataProblems()
        self.classes = None if schema.classes is None else [] if schema.task == "multiclass" else list(schema.classes)
        """The two classes, the negative one first, or several in order of appearance; None for numbers."""
        self._fixed_names = list(schema.numbers)
        lags = lag_names(self.settings.target, self.settings.lag)
        made = [f"{name} missing" for name in schema.indicators]
        made += [name for waves in self._cycles().values() for name in waves]
        for name in (*made, *lags):
            self._fixed_names.append(unused_name(name, self._fixed_names))
        self._fixed = len(self._fixed_names)  # features before those of texts, of which there may come more
        self.text_features = TextFeatures(
            source, schema, self._fixed_names, learning=learning, labels_come_later=labels_come_later
        )
        self.last_labels = np.full(max(self.settings.lag, default=0), math.nan)
        self.statistics = ColumnStatistics(self._fixed)
        self.rows, self.latest_time = 0, "NaT"
        self.last_known_time = "NaT"  # of the rows that were kept

    def encode(self, batch: RowBatch) -> Rows:
        """Return the rows of a batch."""
        line = batch.lines
        y = self.labels(batch)
        times = self._times(batch)
        columns = [self._numbers(batch, name) for name in self.schema.numbers]
        texts = {name: parse_texts(self._column(batch, name), self.na) for name in self.text_features.texts}
        categories = self.text_features.add_features(line, texts)
        Z = np.empty((len(line), len(self.features)))
        for j, column in enumerate(columns):
            Z[:, j] = column
        for name in self.schema.indicators:
            Z[:, self._indicator(name)] = np.isnan(columns[self.schema.numbers.index(name)])
        if self.settings.calendar and times is not None:
            fill_calendar(
                times, Z[:, len(columns) + len(self.schema.indicators) : self.lags.start], self.schema.calendar
            )
        for name, holes in self.text_features.fill_texts(texts, Z[:, self._fixed :]).items():
            self.problems.add("missing", name, line[holes])
        weight = self._weights(batch)
        keep = self._rows_to_keep(batch, Z)
        if keep is not None:
            line, y, Z = line[keep], y[keep], Z[keep]
            weight = None if weight is None else weight[keep]
            times = None if times is None else times[keep]
            categories = {name: list(compress(cells, keep)) for name, cells in categories.items()}
        if self.settings.lag:
            self.last_labels = fill_lags(self.last_labels, y, self.settings.lag, Z[:, self.lags.start : self.lags.stop])
        self.text_features.fill_means(self.rows, categories, y, Z[:, self._fixed :])
        self.statistics.add(Z[:, : self._fixed])
        self.rows += len(line)
        return Rows(line, times, Z, y, weight, self._time_steps(times))

    @property
    def features(self) -> list[str]:
        """Names of the features so far."""
        return [*self._fixed_names, *self.text_features.names]

    @property
    def lags(self) -> range:
        """Where the labels of earlier rows stand among the features."""
        return range(self._fixed - len(self.settings.lag), self._fixed)

    @property
    def groups(self) -> dict[str, list[str]]:
        """Features by what they tell of: a column, texts included, a cycle of the calendar, an earlier label."""
        found = {name: [name] for name in self.schema.numbers} | self.text_features.groups()
        for name in self.schema.indicators:
            found[name].append(self._fixed_names[self._indicator(name)])
        made = iter(self._fixed_names[len(self.schema.numbers) + len(self.schema.indicators) :])
        for cycle, waves in self._cycles().items():
            found[unused_name(cycle, [*found])] = [next(made) for _ in waves]
        return found | {name: [name] for name in made}

    @property
    def learned_features(self) -> list[str]:
        """Names of the features without the columns that hold predictions made elsewhere."""
        return [name for name in self.features if name not in self.settings.candidate]

    def _indicator(self, name: str) -> int:
        """Return the place of the feature that tells where a column is missing."""
        return len(self.schema.numbers) + self.schema.indicators.index(name)

    def _at(self, batch: RowBatch, row: int) -> str:
        return self.source.at(int(batch.lines[row]))

    def _column(self, batch: RowBatch, name: str) -> Any:
        return batch.columns.get(name, [None] * len(batch.lines))

    def _parse_numbers(self, batch: RowBatch, name: str) -> Vector:
        try:
            return parse_numbers(self._column(batch, name), self.na)
        except UnreadableCell as bad:
            raise not_a_number(self.source, int(batch.lines[bad.row]), name, bad.cell) from None

    def _numbers(self, batch: RowBatch, name: str) -> Vector:
        """Return a feature; infinite numbers and those beyond the limit become missing, and all missing are counted."""
        column = self._parse_numbers(batch, name)
        unusable = ~(np.abs(column) <= LIMIT)
        if unusable.any():
            holes = np.isnan(column)
            self.problems.add("missing", name, batch.lines[holes])
            column = self._drop_huge(batch, name, column, unusable & ~holes)
        if self.classes is not None and name in self.settings.candidate:
            self._require_probabilities(batch, name, column)
        return column

    def _require_probabilities(self, batch: RowBatch, name: str, column: Vector) -> None:
        """Refuse a candidate for two classes that is no probability."""
        wrong = (column < 0.0) | (column > 1.0)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"{self._at(batch, row)}: the candidate '{name}' is {column[row]:g}, but for two classes it must be a "
                "probability of the label that counts as 1, in [0, 1]; correct it, or leave it empty to abstain"
            )

    def _drop_huge(self, batch: RowBatch, name: str, column: Vector, huge: NDArray[np.bool_]) -> Vector:
        """Return a column whose huge numbers are missing; say which they were."""
        if not huge.any():
            return column
        if self.settings.missing == "refuse":
            row = int(np.argmax(huge))
            raise DataError(
                f"{self._at(batch, row)}: '{name}' is {column[row]:g}, where numbers up to {LIMIT:g} in size are "
                "allowed; correct it, write the column in larger units, or pass --missing fill"
            )
        infinite = np.isinf(column)
        self.problems.add("infinite", name, batch.lines[huge & infinite])
        self.problems.add("too large", name, batch.lines[huge & ~infinite])
        return np.where(huge, math.nan, column)

    def labels(self, batch: RowBatch) -> Vector:
        """Return the labels of a batch, 0 and 1 for two classes, the numbers of several ones, NaN where missing."""
        name = self.settings.target
        if not self.learning and not (self.settings.lag and name in batch.columns):
            return np.full(len(batch.lines), math.nan)
        if self.classes is None:
            y = self._parse_numbers(batch, name)
            y = self._drop_huge(batch, name, y, np.abs(y) > LIMIT)
        elif self.schema.task == "multiclass":
            y = self._number_classes(batch, parse_texts(self._column(batch, name), self.na), self.classes)
        else:
            y = self._encode_classes(batch, parse_texts(self._column(batch, name), self.na), self.classes)
        holes = np.isnan(y)
        if holes.any():
            if self.settings.missing == "refuse":
                row = int(np.argmax(holes))
                raise DataError(f"{self._at(batch, row)}: the target '{name}' is missing; fill it in, or drop the row")
            self.problems.add("unlabelled", name, batch.lines[holes])
        return y

    def _encode_classes(self, batch: RowBatch, labels: list[str | None], classes: list[str]) -> Vector:
        """Return labels as 0 and 1; a negative class that was not seen yet ("") is the first other label."""
        negative, positive = classes
        code: dict[str | None, float] = {None: math.nan, negative: 0.0, positive: 1.0}
        try:
            return np.array([code[label] for label in labels])
        except KeyError:
            row = next(row for row, label in enumerate(labels) if label not in code)
        if negative == "":
            classes[0] = str(labels[row])
            return self._encode_classes(batch, labels, classes)
        raise DataError(
            f"{self._at(batch, row)}: the target '{self.settings.target}' is {labels[row]!r}, a third class after "
            f"{negative!r} and {positive!r}; pass --task multiclass to learn classes as they come, or "
            "--task regression if it is a number"
        )

    def _number_classes(self, batch: RowBatch, labels: list[str | None], classes: list[str]) -> Vector:
        """Return the numbers of several classes; one that comes up now has the next number."""
        code: dict[str | None, float] = {None: math.nan} | {label: float(k) for k, label in enumerate(classes)}
        for row, label in enumerate(labels):
            if label is not None and label not in code:
                name = self.settings.target
                require_short(self.source, int(batch.lines[row]), name, label)
                if len(classes) == MOST_CLASSES:
                    raise DataError(
                        f"{self._at(batch, row)}: the target '{name}' is {label!r:.60}, one class more than the "
                        f"{MOST_CLASSES} allowed; join rare classes, or pass --task regression if it is a number"
                    )
                code[label] = float(len(classes))
                classes.append(label)
        return np.array([code[label] for label in labels])

    def _times(self, batch: RowBatch) -> Times | None:
        name = self.schema.time
        if name is None:
            return None
        try:
            times = parse_times(self._column(batch, name), self.schema.clock, self.na)
        except UnreadableCell as bad:
            raise DataError(
                f"{self._at(batch, bad.row)}: '{name}' should be a time, got {bad.cell!r:.60}; correct it, "
                f"or {self.source.leave_out(name)}"
            ) from None
        self.problems.add("missing", name, batch.lines[np.isnat(times)])
        before = np.concatenate((np.array([self.latest_time], dtype="datetime64[us]"), times[:-1]))
        self.problems.add("time goes back", name, batch.lines[times < before])  # never where one is missing
        self.latest_time = str(times[-1])
        return times

    def _weights(self, batch: RowBatch) -> Vector | None:
        """Return how often rows count; refuse what is no weight."""
        name = self.settings.weight
        if name is None or not self.learning:
            return None
        weight = self._parse_numbers(batch, name)
        wrong = ~((weight >= 0.0) & (weight <= WEIGHT_LIMIT))
        if wrong.any():
            row = int(np.argmax(wrong))
            got = "missing" if np.isnan(weight[row]) else f"{weight[row]:g}"
            raise DataError(
                f"{self._at(batch, row)}: the weight '{name}' is {got}, but must be in [0, {WEIGHT_LIMIT:g}]; correct "
                "it, 0 for a row that is only predicted"
            )
        return weight

    def _time_steps(self, times: Times | None) -> Vector | None:
        """Return the times between rows, 1 where one is not known, 0 where time goes back."""
        if self.schema.spacing is None or times is None or not self.learning:
            return None
        out = np.ones(len(times))
        known = np.flatnonzero(~np.isnat(times))
        if len(known):
            before = np.concatenate((np.array([self.last_known_time], dtype="datetime64[us]"), times[known[:-1]]))
            passed = (times[known] - before).astype("timedelta64[us]")
            seconds = np.where(np.isnat(passed), self.schema.spacing, passed.astype(np.int64) / 1e6)
            out[known] = np.clip(seconds / self.schema.spacing, 0.0, WEIGHT_LIMIT)
            self.last_known_time = str(times[known[-1]])
        return out

    def _rows_to_keep(self, batch: RowBatch, Z: Matrix) -> NDArray[np.bool_] | None:
        """Return which rows stay; None: all."""
        if self.settings.missing not in ("skip", "refuse"):
            return None
        may_lack = [*self.lags, *(self.features.index(name) for name in self.settings.candidate)]
        holes = np.isnan(np.delete(Z, may_lack, axis=1))
        bad = holes.any(axis=1)
        if not bad.any():
            return None
        if self.settings.missing == "refuse":
            row = int(np.argmax(bad))
            names = np.delete(np.array(self.features, dtype=object), may_lack)
            name = str(names[int(np.argmax(holes[row]))])
            name = self.text_features.column_of(name) if name in self.text_features.names else name
            raise DataError(
                f"{self._at(batch, row)}: '{name}' is missing; fill it in, drop the row, or pass --missing=skip"
            )
        self.problems.add("skipped", None, batch.lines[bad])
        return np.asarray(~bad)

    def _cycles(self) -> dict[str, list[str]]:
        """Return the features of the calendar by the cycle they tell of."""
        return self.schema.calendar.cycles() if self.settings.calendar and self.schema.time is not None else {}

    def all_problems(self) -> list[Mapping[str, Any]]:
        """Return every problem found so far, those of whole columns included."""
        found = DataProblems(self.problems.entries())
        self.statistics.add_problems(found, self.features, self.rows)
        return found.entries()

    def know_label(self, rows_ago: int, y: float) -> None:
        """Take in the label of an earlier row, 1 for the last one, where labels come later."""
        if rows_ago <= len(self.last_labels):
            self.last_labels[-rows_ago] = y
        self.text_features.know_label(self.rows - rows_ago + 1, y)

    def state(self, *, means: bool = True) -> tuple[dict[str, Any], dict[str, Vector]]:
        """Return what the next batch depends on, under the names of a run's files: values for JSON, and arrays.

        Means by text, which may be many, are left out on request: a batch that is refused does not change them.
        """
        values = {"rows": self.rows, "features": self.features, **self.text_features.state(means=means)}
        values |= {"digests": self.statistics.digests, "classes": self.classes}
        values |= {"problems": self.problems.entries(), "latest": self.latest_time}
        values |= {} if self.schema.spacing is None else {"last_known_time": self.last_known_time}
        return values, {"late": self.last_labels, **self.statistics.arrays()}

    def resume(self, values: Mapping[str, Any], arrays: Mapping[str, Vector]) -> None:
        """Go on where `state` left off."""
        self.rows, self.classes, self.latest_time = values["rows"], values["classes"], values["latest"]
        self.last_known_time = values.get("last_known_time", "NaT")
        self.problems = DataProblems(values["problems"])
        self.statistics.resume(values["digests"], arrays)
        self.text_features.resume(values["features"][self._fixed :], values)
        self.last_labels = arrays["late"].copy()

    def follow(self, values: Mapping[str, Any], last_labels: Vector) -> None:
        """Know the texts and classes of a run whose `state` this is, and its last labels, but count rows from 0."""
        self.classes, self.last_labels = values["classes"], last_labels.copy()
        self.text_features.resume(values["features"][self._fixed :], values)

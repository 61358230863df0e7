"""Rows as a model sees them: numbers, the calendar, labels of earlier rows, and features of texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.baselines import take_lags
from undrift.errors import DataError
from undrift.learners.row_context import WEIGHT_LIMIT
from undrift.stream.calendar import fill_calendar
from undrift.stream.cells import (
    FEW_CELLS,
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
from undrift.stream.labels import LabelCode
from undrift.stream.problems import ColumnStatistics, DataProblems
from undrift.stream.schema import Schema
from undrift.stream.settings import Settings
from undrift.stream.text_features import TextFeatures, unused_name

_NUMBERS = {float, int}
Labels = Literal["here", "later", "never"]
"""Where the labels of rows are: beside the rows; to come one by one; or nowhere, as the rows are only predicted."""


class ParsedRows(NamedTuple):
    """Cells of some rows as numbers, times and texts, which depend on no other row."""

    line: Lines
    """Where they stand (n,)."""
    time: Times | None
    """When they were (n,)."""
    numbers: Matrix
    """Number columns (n, numbers), NaN where missing."""
    texts: Mapping[str, list[str | None]]
    """Text columns."""
    y: Vector
    """Labels (n,), NaN where missing."""
    weight: Vector | None = None
    """How often each row counts (n,); None: once."""
    labels: list[str | None] | None = None
    """Labels of several classes, in place of `y`, where each stream numbers its classes itself."""


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
    brought: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    """The row of these that brought each of the last features, in ascending order; the others were there before."""

    def between(self, begin: int, end: int) -> Rows:
        """Return the rows number begin to end - 1."""
        columns = [None if column is None else column[begin:end] for column in self[:-1]]
        return Rows(*columns, np.maximum(self.brought - begin, 0))  # type: ignore[call-arg,arg-type]  # of the same types

    def parts(self) -> Iterator[tuple[slice, int]]:
        """Yield the rows between which no feature came, and how many features they have."""
        if not len(self.brought):
            yield slice(0, len(self.y)), self.Z.shape[1]
            return
        edges = np.unique(np.clip(np.concatenate(([0], self.brought, [len(self.y)])), 0, len(self.y)))
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            yield slice(begin, end), self.Z.shape[1] - int(np.count_nonzero(self.brought > begin))


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Return where and when rows of consecutive blocks were, and their labels, as one; without their features."""
    last = parts[-1]
    if len(parts) == 1:
        return last
    time = None if last.time is None else np.concatenate([part.time for part in parts if part.time is not None])
    line, y = np.concatenate([part.line for part in parts]), np.concatenate([part.y for part in parts])
    return Rows(line, time, np.empty((len(line), 0)), y)


def lag_names(target: str, lags: Sequence[int]) -> list[str]:
    """Return what the labels of earlier rows are called as features.

    >>> lag_names("sales", (1, 7))
    ['sales 1 row ago', 'sales 7 rows ago']
    """
    return [f"{target} {lag} row{'s' if lag > 1 else ''} ago" for lag in lags]


def fill_lags(last: Vector, y: Vector, lags: Sequence[int], out: Matrix) -> Vector:
    """Write the label of each lag into the features of rows with labels y; return the last labels after them.

    `last` are the labels before these rows, as many as the longest lag, NaN where there is none.

    >>> import numpy as np
    >>> out = np.empty((3, 2))
    >>> fill_lags(np.array([5.0, 6.0]), np.array([7.0, 8.0, 9.0]), (1, 2), out)
    array([8., 9.])
    >>> out.tolist()
    [[6.0, 5.0], [7.0, 6.0], [8.0, 7.0]]
    """
    out[:, :], after = take_lags(last, y, lags)
    return after


RECENT_ROWS, RECENT_CELLS = 128, 16_384
"""The last rows that are kept to say what is usual: so many, and fewer where rows are wide."""


class Features:
    """Turns batches of rows into features and labels; remembers texts, the last labels and what was wrong.

    `encode` may raise after it has changed something: encode by a `copy`, and keep that once all went well.

    Parameters
    ----------
    settings
        What to make of the columns.
    schema
        What each column is.
    described
        Whether to keep what reports and explanations need: statistics of columns, and the last rows. Features of one
        key among many keep only what later predictions depend on.
    """

    def __init__(self, settings: Settings, schema: Schema, *, described: bool = True) -> None:
        self.settings = settings
        self.problems = DataProblems()
        self.labels = LabelCode(schema, settings.target)
        self._set_schema(schema)
        self.text_features = TextFeatures(settings, schema, self._fixed_names)
        self.last_labels = np.full(max(settings.lag, default=0), math.nan)
        self.statistics = ColumnStatistics(self._fixed) if described else None
        self.rows, self.latest_time = 0, "NaT"
        self.taken = 0  # rows that came, those that were left out included
        self.last_known_time = "NaT"  # of the rows that were kept
        self.ahead = 0  # rows that were only predicted since
        self.recent: Matrix = np.empty((0, len(self.names)))
        """The last rows, NaN where missing; features that came later are 0 in earlier ones."""

    def _set_schema(self, schema: Schema) -> None:
        """Take over what the columns are, and name the features before those of texts, of which there may come more."""
        self.schema, self._fixed_names = schema, list(schema.numbers)
        made = [f"{name} missing" for name in schema.indicators]
        made += [name for waves in self._cycles().values() for name in waves]
        for name in (*made, *lag_names(self.settings.target, self.settings.lag)):
            self._fixed_names.append(unused_name(name, self._fixed_names))
        self._fixed = len(self._fixed_names)

    def copy(self) -> Features:
        """Return the same features, which go on on their own."""
        twin = object.__new__(Features)
        vars(twin).update(vars(self))  # as copy.copy does, in a tenth of its time
        twin.problems, twin.labels = self.problems.copy(), self.labels.copy()
        twin.text_features, twin.last_labels = self.text_features.copy(), self.last_labels.copy()
        twin.statistics = None if self.statistics is None else self.statistics.copy()
        return twin

    def extend(self, schema: Schema) -> None:
        """Take in columns that came up now: those of `schema` that were not there before."""
        before, names = self._fixed_names, self.names
        new_texts = [name for name in schema.text_columns if name not in self.schema.text_columns]
        self._set_schema(schema)
        self.text_features.extend(self.settings, self._fixed_names, new_texts)
        earlier = np.pad(self.recent, ((0, 0), (0, 1)), constant_values=math.nan)
        self.recent = earlier[:, [names.index(name) if name in names else -1 for name in self.names]]
        places = [before.index(n) if n in before else -1 for n in self._fixed_names]
        self.statistics = None if self.statistics is None else self.statistics.rearrange(places)

    def encode(self, batch: RowBatch, origin: RowOrigin, labels: Labels = "here") -> Rows:
        """Return the rows of a batch, from a file, a frame or a request: `origin` is for errors.

        Of rows that are only predicted ("never"), a text that is new gets no feature, as the model would ignore it, and
        labels serve the lags of later rows and nothing else.
        """
        return self.complete(self.parse(batch, origin, labels), origin, labels)

    def parse(self, batch: RowBatch, origin: RowOrigin, labels: Labels) -> ParsedRows:
        """Return the cells of a batch as numbers, times and texts; what was wrong with them is counted."""
        learning = labels != "never"
        y = self._labels(batch, origin, labels)
        times = self._times(batch, origin, learning=learning)
        numbers = self._plain_numbers(batch)
        if numbers is None:
            numbers = np.empty((len(batch.lines), len(self.schema.numbers)))
            for j, name in enumerate(self.schema.numbers):
                numbers[:, j] = self._numbers(batch, origin, name)
        texts = {name: parse_texts(_cells(batch, name), origin.na) for name in self.text_features.texts}
        weighted = labels == "here" or self.settings.weight in batch.columns
        weight = self._weights(batch, origin) if learning and weighted else None
        return ParsedRows(batch.lines, times, numbers, texts, y, weight)

    def complete(self, parsed: ParsedRows, origin: RowOrigin, labels: Labels = "here") -> Rows:
        """Return parsed rows with all features: indicators, calendar, texts, and labels of earlier rows."""
        line, times, numbers, texts, y, weight, names_of_labels = parsed
        if names_of_labels is not None:
            y = self.labels.encode(names_of_labels, line, origin)
        learning, arrived = labels != "never", len(line)
        begun, rows_of_new = self.text_features.add_features(origin, line, texts) if learning and texts else ({}, [])
        brought = np.array(rows_of_new, dtype=np.int64)
        categories = self.text_features.categories(texts, begun)
        Z = self.fill_fixed(numbers, times)
        for name, holes in self.text_features.fill_texts(texts, Z[:, self._fixed :]).items():
            self.problems.add("missing", name, line[holes])
        keep = self._rows_to_keep(line, origin, Z) if learning else None
        if keep is not None:
            line, y, Z = line[keep], y[keep], Z[keep]
            weight = None if weight is None else weight[keep]
            times = None if times is None else times[keep]
            categories = {name: list(compress(cells, keep)) for name, cells in categories.items()}
            brought = np.concatenate(([0], np.cumsum(keep)))[brought]
        if self.settings.lag:
            self.last_labels = fill_lags(self.last_labels, y, self.settings.lag, Z[:, self.lags.start : self.lags.stop])
        if learning:
            if categories:
                start = self.text_features.first_mean_row(begun)
                start = start if keep is None else int(np.count_nonzero(keep[:start]))
                later = {name: cells[start:] for name, cells in categories.items()}
                known = y[start:] if labels == "here" else None
                self.text_features.fill_means(self.rows + start, later, known, Z[start:, self._fixed :])
            if self.statistics is not None:
                self.statistics.add(Z[:, : self._fixed])
                self._keep_recent(Z, brought)
            self.rows += len(line)
            self.taken += arrived
        else:
            self.text_features.predict_means(categories, Z[:, self._fixed :])
            self.ahead += len(line)
        return Rows(line, times, Z, y, weight, self._time_steps(times, learning=learning), brought)

    @property
    def need_earlier_rows(self) -> bool:
        """Whether `complete` fills in more than `fill_fixed` does, or leaves rows out."""
        remembers = self.settings.lag or self.schema.many_texts or self.schema.spacing is not None
        return bool(remembers or self.settings.missing in ("skip", "refuse"))

    def fill_fixed(
        self, numbers: Matrix, times: Times | None, texts: Mapping[str, Sequence[str | None]] | None = None
    ) -> Matrix:
        """Return rows with the features that depend on no other row: numbers, indicators, calendar, perhaps texts."""
        Z, given = np.full((len(numbers), len(self.names)), math.nan), numbers.shape[1]
        Z[:, :given] = numbers
        for name in self.schema.indicators:
            Z[:, self._indicator(name)] = np.isnan(numbers[:, self.schema.numbers.index(name)])
        if self.settings.calendar and times is not None:
            fill_calendar(times, Z[:, given + len(self.schema.indicators) : self.lags.start], self.schema.calendar)
        if texts is not None:
            self.text_features.fill_texts(texts, Z[:, self._fixed :])
        return Z

    def _keep_recent(self, Z: Matrix, brought: NDArray[np.int64]) -> None:
        """Keep the last rows; a feature that a later row brought is 0, however rows are cut into batches."""
        most = min(RECENT_ROWS, max(1, RECENT_CELLS // max(1, Z.shape[1])))
        new = Z.shape[1] - self.recent.shape[1]
        earlier = np.pad(self.recent, ((0, 0), (0, new))) if new else self.recent
        if len(brought):
            Z = Z.copy()
            Z[:, -len(brought) :][np.arange(len(Z))[:, None] < brought] = 0.0  # where a text is missing it was NaN
        self.recent = np.concatenate([earlier, Z])[-most:]

    def usual_values(self) -> dict[str, float]:
        """Return the mean of each feature over the last rows; NaN where it was always missing, or is a candidate."""
        known = ~np.isnan(self.recent)
        sums = np.where(known, self.recent, 0.0).sum(axis=0)
        with np.errstate(invalid="ignore"):
            means = sums / known.sum(axis=0)
        usual = dict(zip(self.names, means.tolist(), strict=False))
        return usual | dict.fromkeys(self.settings.candidate, math.nan)

    @property
    def names(self) -> list[str]:
        """Names of the features so far."""
        return [*self._fixed_names, *self.text_features.names]

    @property
    def columns(self) -> list[str]:
        """Columns that features are made of."""
        calendar = [self.schema.time] if self.schema.time is not None and self.settings.calendar else []
        return [*self.schema.numbers, *self.schema.text_columns, *calendar]

    @property
    def lags(self) -> range:
        """Where the labels of earlier rows stand among the features."""
        return range(self._fixed - len(self.settings.lag), self._fixed)

    @property
    def groups(self) -> dict[str, list[str]]:
        """Features by what they are made of: a column, texts included, a cycle of the calendar, an earlier label."""
        groups = {name: [name] for name in self.schema.numbers} | self.text_features.groups()
        for name in self.schema.indicators:
            groups[name].append(self._fixed_names[self._indicator(name)])
        made = iter(self._fixed_names[len(self.schema.numbers) + len(self.schema.indicators) :])
        for cycle, waves in self._cycles().items():
            groups[unused_name(cycle, [*groups])] = [next(made) for _ in waves]
        return groups | {name: [name] for name in made}

    @property
    def learned_names(self) -> list[str]:
        """Names of the features without the columns that hold predictions made elsewhere."""
        return [name for name in self.names if name not in self.settings.candidate]

    def _indicator(self, name: str) -> int:
        """Return the place of the feature that is 1 where a column is missing."""
        return len(self.schema.numbers) + self.schema.indicators.index(name)

    def _plain_numbers(self, batch: RowBatch) -> Matrix | None:
        """Return the number columns (n, numbers) of a few rows whose cells are all plain numbers; None for others."""
        if len(batch.lines) >= FEW_CELLS or (self.labels.classes is not None and self.settings.candidate):
            return None
        columns = [batch.columns.get(name) for name in self.schema.numbers]
        for cells in columns:
            if type(cells) is not list or not {*map(type, cells)} <= _NUMBERS:
                return None
            if not all(-LIMIT <= cell <= LIMIT for cell in cells):
                return None
        return np.array(columns, dtype=np.float64).reshape(len(columns), len(batch.lines)).T

    def _numbers(self, batch: RowBatch, origin: RowOrigin, name: str) -> Vector:
        """Return a feature; infinite numbers and those beyond the limit become missing, and all missing are counted."""
        column = _parse_numbers(batch, origin, name)
        unusable = ~(np.abs(column) <= LIMIT)
        if unusable.any():
            holes = np.isnan(column)
            self.problems.add("missing", name, batch.lines[holes])
            column = self._drop_huge(batch, origin, name, column, unusable & ~holes)
        if self.labels.classes is not None and name in self.settings.candidate:
            _require_probabilities(batch, origin, name, column)
        return column

    def _drop_huge(
        self, batch: RowBatch, origin: RowOrigin, name: str, column: Vector, huge: NDArray[np.bool_]
    ) -> Vector:
        """Return a column whose huge numbers are missing; count them by kind."""
        if not huge.any():
            return column
        if self.settings.missing == "refuse":
            row = int(np.argmax(huge))
            raise DataError(
                f"{_at(batch, origin, row)}: '{name}' is {column[row]:g}, where numbers up to {LIMIT:g} in size are "
                f"allowed; correct it, write the column in larger units, or {origin.choose('missing', 'fill')}"
            )
        infinite = np.isinf(column)
        self.problems.add("infinite", name, batch.lines[huge & infinite])
        self.problems.add("too large", name, batch.lines[huge & ~infinite])
        return np.where(huge, math.nan, column)

    def _labels(self, batch: RowBatch, origin: RowOrigin, where: Labels) -> Vector:
        """Return the labels of a batch, 0 and 1 for two classes, the numbers of several ones, NaN where missing."""
        name = self.settings.target
        if where == "later" or (where == "never" and not (self.settings.lag and name in batch.columns)):
            return np.full(len(batch.lines), math.nan)
        if self.labels.classes is None:
            y = _parse_numbers(batch, origin, name)
            y = self._drop_huge(batch, origin, name, y, np.abs(y) > LIMIT)
        else:
            y = self.labels.encode(_cells(batch, name), batch.lines, origin)
        holes = np.isnan(y)
        if holes.any() and where == "here":
            if self.settings.missing == "refuse":
                row = int(np.argmax(holes))
                raise DataError(
                    f"{_at(batch, origin, row)}: the target '{name}' is missing; fill it in, or drop the row"
                )
            self.problems.add("unlabelled", name, batch.lines[holes])
        return y

    def _times(self, batch: RowBatch, origin: RowOrigin, *, learning: bool) -> Times | None:
        name = self.schema.time
        if name is None or (name not in batch.columns and not learning and not self.settings.calendar):
            return None
        try:
            times = parse_times(_cells(batch, name), self.schema.clock, origin.na)
        except UnreadableCell as bad:
            raise DataError(
                f"{_at(batch, origin, bad.row)}: '{name}' should be a time, got {bad.cell!r:.60}; correct it, "
                f"or {origin.leave_out(name)}"
            ) from None
        if learning and len(times):
            self.problems.add("missing", name, batch.lines[np.isnat(times)])
            before = np.concatenate((np.array([self.latest_time], dtype="datetime64[us]"), times[:-1]))
            self.problems.add("time goes back", name, batch.lines[times < before])  # never where one is missing
            self.latest_time = str(times[-1])
        return times

    def _weights(self, batch: RowBatch, origin: RowOrigin) -> Vector | None:
        """Return how often rows count; refuse what is no weight."""
        name = self.settings.weight
        if name is None:
            return None
        weight = _parse_numbers(batch, origin, name)
        wrong = ~((weight >= 0.0) & (weight <= WEIGHT_LIMIT))
        if wrong.any():
            row = int(np.argmax(wrong))
            got = "missing" if np.isnan(weight[row]) else f"{weight[row]:g}"
            raise DataError(
                f"{_at(batch, origin, row)}: the weight '{name}' is {got}, but must be in [0, {WEIGHT_LIMIT:g}]; "
                "correct it, 0 for a row that is only predicted"
            )
        return weight

    def _time_steps(self, times: Times | None, *, learning: bool) -> Vector | None:
        """Return the times between rows, 1 where one is not known, 0 where time goes back.

        Rows that are only predicted come after the last one that was learned, each as if it were next.
        """
        if self.schema.spacing is None or times is None:
            return None
        out = np.ones(len(times))
        known = np.flatnonzero(~np.isnat(times))
        if not len(known):
            return out
        last = np.array([self.last_known_time], dtype="datetime64[us]")
        before = np.concatenate((last, times[known[:-1]])) if learning else last
        passed = (times[known] - before).astype("timedelta64[us]")
        seconds = np.where(np.isnat(passed), self.schema.spacing, passed.astype(np.int64) / 1e6)
        out[known] = np.clip(seconds / self.schema.spacing, 0.0, WEIGHT_LIMIT)
        if learning:
            self.last_known_time = str(times[known[-1]])
        return out

    def _rows_to_keep(self, line: Lines, origin: RowOrigin, Z: Matrix) -> NDArray[np.bool_] | None:
        """Return which rows stay; None: all."""
        if self.settings.missing not in ("skip", "refuse"):
            return None
        may_lack = [*self.lags, *(self.names.index(name) for name in self.settings.candidate)]
        holes = np.isnan(np.delete(Z, may_lack, axis=1))
        bad = holes.any(axis=1)
        if not bad.any():
            return None
        if self.settings.missing == "refuse":
            row = int(np.argmax(bad))
            names = np.delete(np.array(self.names, dtype=object), may_lack)
            name = str(names[int(np.argmax(holes[row]))])
            name = self.text_features.column_of(name) if name in self.text_features.names else name
            raise DataError(
                f"{origin.at(int(line[row]))}: '{name}' is missing; fill it in, drop the row, or "
                f"{origin.choose('missing', 'skip')}"
            )
        self.problems.add("skipped", None, line[bad])
        return np.asarray(~bad)

    def _cycles(self) -> dict[str, list[str]]:
        """Return the features of the calendar by the cycle they are about."""
        return self.schema.calendar.cycles() if self.settings.calendar and self.schema.time is not None else {}

    def all_problems(self) -> list[Mapping[str, Any]]:
        """Return every problem so far, those of whole columns included."""
        problems = DataProblems(self.problems.entries())
        if self.statistics is not None:
            self.statistics.add_problems(problems, self.names, self.rows)
        return problems.entries()

    def know_label(self, row: int, y: float) -> None:
        """Take in the label of a row, by its number from 1 on, where labels come later."""
        rows_ago = self.rows - row + 1
        if 1 <= rows_ago <= len(self.last_labels):
            self.last_labels[-rows_ago] = y
        self.text_features.know_label(row, y)

    def progress(self, start: Features) -> dict[str, Any]:
        """Return what later predictions depend on beside `last_labels`, as JSON values, where it has changed.

        `start` are features of the same columns before their first row.
        """
        values: dict[str, Any] = {}
        if self.last_known_time != start.last_known_time:
            values["last_known_time"] = self.last_known_time
        if self.labels.several and self.labels.classes:
            values["classes"] = self.labels.classes
        if self.text_features.has_changed(start.text_features):
            values["texts"] = {"names": self.text_features.names, **self.text_features.state()}
        return values

    def resume_progress(self, values: Mapping[str, Any], last_labels: Vector, rows: int) -> None:
        """Go on where `progress` left off, after so many rows; these are features before their first one."""
        self.rows, self.last_known_time = rows, values.get("last_known_time", self.last_known_time)
        if not _is_instant(self.last_known_time):
            raise ValueError("times of features cannot be used")
        if "classes" in values:
            self.labels.classes = values["classes"]
            if not (
                self.labels.several and isinstance(self.labels.classes, list) and all(map(_is_text, values["classes"]))
            ):
                raise ValueError("classes cannot be used")
        if "texts" in values:
            self.text_features.resume(values["texts"]["names"], values["texts"])
        if len(last_labels):
            if len(last_labels) != len(self.last_labels):
                raise ValueError("labels of earlier rows cannot be used")
            self.last_labels = last_labels

    def state(self) -> tuple[dict[str, Any], dict[str, Vector]]:
        """Return what the next batch depends on: values for JSON, and arrays."""
        assert self.statistics is not None  # it is kept where whole states are
        values = {"rows": self.rows, "taken": self.taken, "features": self.names, **self.text_features.state()}
        values |= {"digests": self.statistics.digests, "classes": self.labels.classes}
        values |= {"problems": self.problems.entries(), "latest": self.latest_time}
        values |= {"last_known_time": self.last_known_time}
        return values, {"late": self.last_labels, "recent": self.recent, **self.statistics.arrays()}

    def resume(self, values: Mapping[str, Any], arrays: Mapping[str, Vector]) -> None:
        """Go on where `state` left off."""
        self.rows, self.labels.classes, self.latest_time = values["rows"], values["classes"], values["latest"]
        self.taken, self.last_known_time = values["taken"], values["last_known_time"]
        counts, times = (self.rows, self.taken), (self.latest_time, self.last_known_time)
        if not all(type(count) is int and 0 <= count < 2**53 for count in counts) or not all(map(_is_instant, times)):
            raise ValueError("counts and times of features cannot be used")
        classes, task = self.labels.classes, self.schema.task
        fine = classes is None if task == "regression" else isinstance(classes, list) and all(map(_is_text, classes))
        if not fine or (task == "classification" and len(classes or ()) != 2):
            raise ValueError("classes cannot be used")
        self.problems = DataProblems(values["problems"])
        assert self.statistics is not None
        self.statistics.resume(values["digests"], arrays)
        self.text_features.resume(values["features"][self._fixed :], values)
        self.last_labels, self.recent = arrays["late"].copy(), arrays["recent"].copy()


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_instant(text: object) -> bool:
    """Whether a value is an instant as numpy writes it."""
    try:
        return isinstance(text, str) and np.array([text], dtype="datetime64[us]").size == 1
    except ValueError:
        return False


def _cells(batch: RowBatch, name: str) -> Any:
    return batch.columns.get(name, [None] * len(batch.lines))


def _at(batch: RowBatch, origin: RowOrigin, row: int) -> str:
    return origin.at(int(batch.lines[row]))


def _parse_numbers(batch: RowBatch, origin: RowOrigin, name: str) -> Vector:
    try:
        return parse_numbers(_cells(batch, name), origin.na)
    except UnreadableCell as bad:
        raise not_a_number(origin, int(batch.lines[bad.row]), name, bad.cell) from None


def _require_probabilities(batch: RowBatch, origin: RowOrigin, name: str, column: Vector) -> None:
    """Refuse a candidate for two classes that is no probability."""
    wrong = (column < 0.0) | (column > 1.0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{_at(batch, origin, row)}: the candidate '{name}' is {column[row]:g}, but for two classes it must be a "
            "probability of the label that counts as 1, in [0, 1]; correct it, or leave it empty to abstain"
        )

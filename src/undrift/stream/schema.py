"""What each column of a file is, inferred from the first rows, stated to the user, and then kept to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import msgspec
import numpy as np

from undrift._typing import Vector
from undrift.errors import DataError, InputError
from undrift.stream.calendar import Calendar, find_calendar, find_seasons
from undrift.stream.cells import LIMIT, Times, are_alike, find_formats, parse_texts, reads
from undrift.stream.first_rows import FirstRows, RowOrigin
from undrift.stream.settings import FEW_TEXTS, Settings
from undrift.stream.task import (
    SHARE_OF_A_KIND,
    infer_task,
    infer_task_of_row,
    name_classes,
    note_on_numbers,
)

LONGEST_TEXT = 1000
"""Characters of a text that may stand for a category: its name is kept with the model."""
SHARE_THAT_NAMES_ROWS = 0.95
"""Part of a column's cells that are different texts, from which on they name rows and tell nothing of later ones."""
MANY_TEXTS, ROWS_A_TEXT = 100, 20
"""Texts that get a feature each in columns of more than a few, together, if each has so many of the first rows."""
OFTEN_MISSING, MOST_INDICATORS = 0.1, 30
"""Share of the first rows where a number is missing from which on a feature tells that it is; such features at most."""
COUNTER_NAMES = ("time", "timestamp", "date", "datetime", "ds", "ts", "epoch", "unix", "index", "id", "row")
"""Names of number columns that are times or row counters if they never decrease."""


@dataclass(frozen=True)
class Schema:
    """What each column is."""

    task: str
    """"regression", "classification" (two classes) or "multiclass"."""
    classes: tuple[str, ...] | None
    """The two labels, the negative one first, or the several ones of the first rows; None for numbers."""
    time: str | None
    """Column with the time."""
    clock: str
    """How times are written: "iso", "epoch", or the letters of strptime."""
    hours: bool
    """Whether times have hours."""
    numbers: tuple[str, ...]
    """Number columns, those with predictions made elsewhere last."""
    texts: tuple[tuple[str, tuple[str, ...]], ...]
    """Text columns, with the texts of the first rows in order of arrival."""
    notes: tuple[str, ...] = ()
    """What was decided that the user may want to know."""
    spacing: float | None = None
    """With `elapsed`: the median time between the first rows, in seconds."""
    many_texts: tuple[str, ...] = ()
    """Text columns with too many texts for a feature each; they are learned by the mean of the target of each text."""
    days: bool = True
    """Whether rows are less than a week apart."""
    indicators: tuple[str, ...] = ()
    """Number columns that are often missing, for which a feature tells where."""
    seasons: tuple[int, ...] = ()
    """Rows in a day and in a week, or months in a year, where times are regular."""
    grows: bool = False
    """Whether it comes from a single row, so that other columns may follow."""

    @property
    def calendar(self) -> Calendar:
        """Which parts of the calendar tell rows apart."""
        return Calendar(self.hours, self.days)

    def sentence(self, target: str, features: Sequence[str]) -> str:
        """Return what was found, for the user to check."""
        what = "a number" if self.classes is None else name_classes(self.classes)
        shown = ", ".join(features[:8]) + (f" and {len(features) - 8} more" if len(features) > 8 else "")
        time = "" if self.time is None else f"; time is '{self.time}'"
        return f"{self.task}: '{target}' ({what}) from {shown}{time}"

    def as_dict(self) -> dict[str, Any]:
        """Return the schema as `run.json` holds them."""
        return asdict(self) | {"texts": {name: list(values) for name, values in self.texts}}

    @property
    def text_columns(self) -> list[str]:
        """Return the names of all text columns that are learned from."""
        return [*(name for name, _ in self.texts), *self.many_texts]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], time: str | None) -> Self:
        """Return the schema that `as_dict` gave, for a file whose times are in another column, or in none."""
        texts = [[name, found] for name, found in values["texts"].items()]
        try:
            schema = msgspec.convert({**values, "time": time, "texts": texts}, cls)
        except msgspec.ValidationError as error:
            raise TypeError(f"what a column is: {error}") from None
        if schema.spacing is not None and not schema.spacing > 0.0:
            raise ValueError("the spacing of rows must be above 0")
        if not {*schema.indicators} <= {*schema.numbers} or (schema.classes is None) != (schema.task == "regression"):
            raise ValueError("what columns are does not fit together")
        return schema


def infer_schema(first: FirstRows, *, calendar: bool = False) -> Schema:
    """Return what the columns are, from the first rows, or say why a run cannot use them.

    With `calendar`, times that are not among the columns are features too, so that no other is needed.
    """
    source, settings = first.source, first.source.settings
    first.require([settings.target], "--target")
    if settings.time is not None:
        first.require([settings.time], "--time")
    first.require(settings.features or (), "--features")
    first.require(settings.drop, "--drop")
    first.require(settings.candidate, "--candidate")
    first.require([] if settings.weight is None else [settings.weight], "--weight")
    if len(first.lines) == 1 and first.whole:
        raise DataError(f"{source.name} has one row; a stream needs at least two, each predicted from those before it")
    notes = list(source.notes)
    task, classes = infer_task(first)
    if classes is None:
        _require_usable_target(first)
    elif task == "multiclass" and settings.task == "auto" and (note := note_on_numbers(classes)) is not None:
        notes.append(note)
    _note_on_case(settings.target, classes or (), notes)
    if settings.weight is not None:
        notes += notes_on_weight(first, settings.weight)
    set_apart = {settings.target, settings.weight, *settings.drop}
    others = [name for name in first.columns if name not in set_apart]
    kinds = {name: column_kind(first, name) for name in others}
    plain = {name: kind for name, kind in kinds.items() if name not in settings.candidate}
    time, time_format = _find_time(first, plain, notes)
    kinds |= plain  # a counter of rows has become that kind
    columns = [name for name in others if name != time and name not in settings.candidate]
    if settings.features is not None:
        columns = [name for name in columns if name in settings.features]
    _require_numbers(settings.candidate, kinds)
    number_columns, many_texts = [], []
    text_columns: list[tuple[str, tuple[str, ...]]] = []
    for name in columns:
        if kinds[name] == "number":
            number_columns.append(name)
        elif kinds[name] == "text":
            taken = sum(len(texts) for _, texts in text_columns if len(texts) > FEW_TEXTS)
            texts = _categories(first, name, task, taken, notes)
            if texts is None:
                many_texts.append(name)
            elif texts:
                text_columns.append((name, texts))
                _note_on_case(name, texts, notes)
        elif kinds[name] == "counter":
            notes.append(f"'{name}' counts the rows and was left out; pass --features to use it")
        elif settings.features is not None:
            raise time_as_feature_error(name)
        else:
            notes.append(_note_on_second_time(name))
    found, spacing = Calendar(hours=False), None
    seasons: tuple[int, ...] = ()
    if settings.elapsed:
        spacing = _median_spacing(first, time, time_format)
        notes.append(f"memories forget by time: one round is {spacing:g} seconds, the median spacing of {first.where}")
    if time is not None:
        instants = first.times(time, time_format)
        _require_oldest_first(first, time, instants)
        found, seasons = find_calendar(instants), find_seasons(_steps(instants))
    if settings.calendar and time is None:
        raise InputError("--calendar needs a column with times; none was found, name it with --time")
    if not (number_columns or text_columns or many_texts or calendar or settings.calendar or settings.lag):
        raise DataError(
            f"{source.name} has no column to learn from besides '{settings.target}'; add features, or --lag 1"
        )
    columns_found = (*number_columns, *settings.candidate), tuple(text_columns)
    kinds_found = (task, classes, time, time_format, found.hours, *columns_found)
    indicators = _find_indicators(first, number_columns, notes) if settings.missing == "auto" else ()
    return Schema(
        *kinds_found, notes=tuple(notes), spacing=spacing, many_texts=tuple(many_texts), days=found.days,
        indicators=indicators, seasons=seasons,
    )  # fmt: skip


LAGS = (1, 2, 3, 4, 5, 6, 12, 24)
"""Rows ago; with late labels, so many rows before the last one known."""


def with_default_lags(first: FirstRows) -> Settings:
    """Return the settings with lags, and the calendar where there are times, if there is no other column to learn from.

    Whoever names features, lags or the calendar gets these and nothing else.
    """
    settings = first.source.settings
    if not settings.may_have_lags or settings.target not in first.columns:
        return settings  # whoever reads the rows says what is wrong with them
    others = [name for name in first.columns if name != settings.target and name not in settings.drop]
    if len(others) > 1 or (settings.time is not None and settings.time not in others):
        return settings
    time, _ = find_time_column(first, others, [])
    if others and time is None and not counts_rows(first, others[0]):
        return settings  # a feature
    if time is None and len(first.lines) == 1:
        return settings  # a row in which all else is missing
    return settings.replace(lag=tuple(settings.delay + lag for lag in LAGS), calendar=time is not None)


def infer_growing_schema(first: FirstRows) -> Schema:
    """Return what the columns of a single row are, where nobody has seen more rows; others may follow.

    A column that is missing in it becomes known when it has a value.
    """
    settings = first.source.settings
    if settings.elapsed:
        raise InputError(
            "--elapsed needs the usual time between rows, which a single row does not show; begin with several rows: "
            "a file, or a data frame"
        )
    task, classes = infer_task_of_row(first)
    time, clock = settings.time, "iso"
    if time is None:
        names = [name for name in _known_names(first) if name not in settings.candidate]
        time = next((name for name in names if column_kind(first, name) == "time"), None)
    if time is not None and time in first.columns:
        is_number = column_kind(first, time) == "number"
        clock = "epoch" if is_number else find_time_format(first, time, [])
    if settings.calendar and time is None:
        raise InputError("--calendar needs a column with times; none was found, name it with --time")
    start = Schema(task, classes, time, clock, True, settings.candidate, (), grows=True)
    return extend_schema(start, first)


def extend_schema(schema: Schema, first: FirstRows) -> Schema:
    """Return a growing schema with the columns of a row that it does not have yet."""
    settings, numbers, texts = first.source.settings, list(schema.numbers), list(schema.texts)
    set_apart, notes = {*settings.candidate, schema.time}, list(schema.notes)
    chosen = settings.features
    for name in _known_names(first):
        if name in set_apart or name in schema.numbers or name in schema.text_columns:
            continue
        if chosen is not None and name not in chosen:
            continue
        if isinstance(first.columns[name], np.ndarray) and column_kind(first, name) == "time":
            if chosen is not None:
                raise time_as_feature_error(name)
            note = _note_on_second_time(name)  # a text that reads as a time may be anything in a later row
            notes += [] if note in notes else [note]
            continue
        if column_kind(first, name) == "number":
            numbers.insert(len(numbers) - len(settings.candidate), name)
        else:
            texts.append((name, ()))
    if (len(numbers), len(texts), len(notes)) == (len(schema.numbers), len(schema.texts), len(schema.notes)):
        return schema
    return replace(schema, numbers=tuple(numbers), texts=tuple(texts), notes=tuple(notes))


def _known_names(first: FirstRows) -> list[str]:
    """Return the columns of a row that may be learned from and are not missing."""
    settings = first.source.settings
    left_out = {settings.target, settings.weight, *settings.drop}
    return [name for name in first.columns if name not in left_out and not first.holes_of_any_kind(name).all()]


def find_time_column(first: FirstRows, others: Sequence[str], notes: list[str]) -> tuple[str | None, str]:
    """Return which of some columns holds the times, if any, and how they are written; add what a user should know."""
    return _find_time(first, {name: column_kind(first, name) for name in others}, notes)


def counts_rows(first: FirstRows, name: str) -> bool:
    """Whether a column is a counter of rows, which tells nothing of the target."""
    kinds = {name: column_kind(first, name)}
    _find_time(first, kinds, [])
    return kinds[name] == "counter"


def column_kind(first: FirstRows, name: str) -> str:
    """Return "number", "time" or "text"; a column without a known cell counts as numbers."""
    cells = first.columns[name]
    if isinstance(cells, np.ndarray):
        return "time" if cells.dtype.kind == "M" else "number"
    numbers, known = first.count_numbers(name)
    if numbers >= SHARE_OF_A_KIND * known:
        return "number"
    return "time" if _time_formats(first, name) else "text"


def time_as_feature_error(name: str) -> InputError:
    """Return the error for a column of times that was named as a feature."""
    return InputError(f"--features '{name}': that is a time, not a feature; pass --time '{name}' --calendar")


def _note_on_second_time(name: str) -> str:
    return f"'{name}' is a second time and was left out"


def _time_formats(first: FirstRows, name: str) -> list[str]:
    """Return the ways in which a column may be written if it holds times, the likeliest first."""
    cells, given = [cell for _, cell in first.known_cells(name)], first.source.settings.time_format
    if given is not None and sum(reads(given, cells)) >= SHARE_OF_A_KIND * len(cells):
        return [given]
    return find_formats(cells, SHARE_OF_A_KIND)


def find_time_format(first: FirstRows, name: str, notes: list[str]) -> str:
    """Return how the times of a column are written, and tell it unless it is ISO 8601; refuse to guess."""
    given = first.source.settings.time_format
    found = [given] if given is not None else _time_formats(first, name)
    cells = [cell for _, cell in first.known_cells(name)]
    if len(found) > 1 and are_alike(found[0], found[1], cells):
        raise DataError(
            f"{first.source.name}: '{name}' may be written {found[0]} or {found[1]} ({cells[0]!r:.40}); "
            "pass one of them as --time-format"
        )
    form = found[0] if found else "iso"
    if given is None and form != "iso":
        notes.append(f"'{name}' is read as a time written {form} ({cells[0]!r:.40}); --time-format says otherwise")
    return form


def _find_time(first: FirstRows, kinds: dict[str, str], notes: list[str]) -> tuple[str | None, str]:
    """Return the time column and how it is written; a counter of rows gets that kind."""
    settings = first.source.settings
    if settings.time is not None:
        first.require([settings.time], "--time")
        named_format = (
            "epoch" if kinds.get(settings.time) == "number" else find_time_format(first, settings.time, notes)
        )
        first.times(settings.time, named_format)
        return settings.time, named_format
    wanted = settings.features or ()
    found = [name for name, kind in kinds.items() if kind == "time" and name not in wanted]
    if found:
        time_format = find_time_format(first, found[0], notes)
        first.times(found[0], time_format)
        return found[0], time_format
    for name, kind in kinds.items():
        if kind == "number" and name.lower() in COUNTER_NAMES and name not in wanted:
            column = first.numbers(name)
            steps = np.diff(column[np.isfinite(column)])
            if len(steps) and (steps >= 0.0).all() and (steps > 0.0).any():
                if float(np.nanmin(column)) > 1e8:
                    return name, "epoch"
                kinds[name] = "counter"
    return None, settings.time_format or "iso"


def _median_spacing(first: FirstRows, time: str | None, time_format: str) -> float:
    """Return the median time between the first rows, in seconds, or say why there is none."""
    if time is None:
        raise InputError("--elapsed needs a column with times; none was found, name it with --time")
    steps = _steps(first.times(time, time_format))
    if not len(steps[steps > 0.0]):
        raise DataError(f"{first.source.name}: no time passes between the first rows by '{time}'; leave out --elapsed")
    return float(np.median(steps[steps > 0.0]))


def _steps(instants: Times) -> Vector:
    """Return the seconds between rows."""
    return np.asarray(np.diff(instants[~np.isnat(instants)]).astype("timedelta64[us]").astype(np.int64) / 1e6)


def _require_oldest_first(first: FirstRows, time: str, instants: Times) -> None:
    """Refuse rows that go back in time, which a run would learn backwards."""
    steps = np.diff(instants[~np.isnat(instants)]).astype(np.int64)
    back = int(np.count_nonzero(steps < 0))
    if back > 1 and back >= SHARE_OF_A_KIND * np.count_nonzero(steps):
        raise DataError(
            f"{first.source.name}: the newest rows come first ('{time}' goes back from row to row); "
            f"{first.source.sort()} to learn the oldest first, or --drop '{time}' if that is no time"
        )


def _require_usable_target(first: FirstRows) -> None:
    """Refuse a target of which no value is within what learners take."""
    name = first.source.settings.target
    column = first.numbers(name)
    known = column[~np.isnan(column)]
    if not (np.abs(known) <= LIMIT).any():
        what = f"infinite or larger than {LIMIT:g} in size" if np.isfinite(known).any() else "infinite"
        raise DataError(
            f"{first.source.name}: the target '{name}' is {what} wherever it is known in {first.where}, where numbers "
            f"up to {LIMIT:g} are allowed; write it in larger units"
        )


def _find_indicators(first: FirstRows, names: Sequence[str], notes: list[str]) -> tuple[str, ...]:
    """Return the number columns that are missing in many of the first rows; of those missing in the same rows one."""
    found: dict[bytes, str] = {}
    for name in names:
        holes = first.holes(name)
        if OFTEN_MISSING <= holes.mean() < 1.0 and len(found) < MOST_INDICATORS:
            found.setdefault(holes.tobytes(), name)
    if found:
        shown = ", ".join(f"'{name}'" for name in [*found.values()][:8]) + (", ..." if len(found) > 8 else "")
        notes.append(
            f"{shown}: missing in {OFTEN_MISSING:.0%} of {first.where} or more, so a feature tells where; "
            "--missing fill leaves it out"
        )
    return tuple(found.values())


def _require_numbers(candidates: Sequence[str], kinds: Mapping[str, str]) -> None:
    """Refuse predictions made elsewhere that are no numbers."""
    wrong = next((name for name in candidates if kinds[name] != "number"), None)
    if wrong is not None:
        raise InputError(
            f"--candidate '{wrong}': predictions made elsewhere are numbers (for two classes, the probability of the "
            f"label that counts as 1), but that column holds {kinds[wrong]}s"
        )


def require_short(source: RowOrigin, line: int, name: str, text: str) -> None:
    """Refuse a text that is too long to stand for a category."""
    if len(text) > LONGEST_TEXT:
        raise DataError(
            f"{source.at(line)}: '{name}' holds a text of {len(text):,} characters, more than {LONGEST_TEXT:,}; "
            f"{source.leave_out(name)}"
        )


def _note_on_case(name: str, texts: Sequence[str], notes: list[str]) -> None:
    """Tell if some texts of a column are one but for upper and lower case."""
    seen: dict[str, str] = {}
    for text in texts:
        if (other := seen.setdefault(text.lower(), text)) != text:
            notes.append(f"'{name}' holds {other!r:.40} and {text!r:.40}, which count as different; write them alike")
            return


def has_means(task: str) -> bool:
    """Whether texts can be learned by means of the target: of numbers, or of two classes."""
    return task != "multiclass"


def text_limit(settings: Settings, first: int) -> int:
    """Return how many texts of a column may get a feature each if so many do from the first rows on."""
    return MANY_TEXTS if settings.categories is None and first > FEW_TEXTS else settings.most_texts


def _most_texts(settings: Settings, found: int, rows: int, taken: int) -> int:
    """Return how many texts of a column get a feature each, of so many in so many rows; others have taken some."""
    often = rows >= ROWS_A_TEXT * found and found + taken <= MANY_TEXTS
    return text_limit(settings, found) if often else settings.most_texts


def _categories(first: FirstRows, name: str, task: str, taken: int, notes: list[str]) -> tuple[str, ...] | None:
    """Return the texts of a column that get features, in order of arrival; none if it is no use; None if too many."""
    settings, cells = first.source.settings, parse_texts(first.columns[name], first.na)
    known = [text for text in cells if text is not None]
    found = tuple(dict.fromkeys(known))
    most = _most_texts(settings, len(found), len(known), taken)
    if len(found) > most:
        if name not in (settings.features or ()) and len(found) > SHARE_THAT_NAMES_ROWS * len(known):
            notes.append(f"'{name}' has another text in almost every row and was left out; pass --features to use it")
            return ()
        many = f"'{name}' has {len(found)} different texts in {first.where}"
        if has_means(task):
            how = f"it is learned by the mean of '{settings.target}' in earlier rows of each text"
            notes.append(f"{many}: {how}; see --categories")
            return None
        notes.append(f"{many}: the {most} most frequent ones get a feature each, the others none; see --categories")
        found = tuple(text for text, _ in Counter(known).most_common(most))
    longest = max(found, key=len, default="")
    require_short(first.source, int(first.lines[cells.index(longest)]) if longest else 0, name, longest)
    return found


USUAL_WEIGHT = 10.0
"""How often a usual row may count at most, and at least by its inverse, before that is told."""


def notes_on_weight(first: FirstRows, name: str) -> Iterator[str]:
    """Yield what the weights of rows are for, and what to do if a usual row counts far more or far less than once."""
    yield f"'{name}' says how often each row counts in learning; it is no feature, and scores count every row once"
    column = first.numbers(name)
    median = float(np.median(column[column > 0.0])) if (column > 0.0).any() else 1.0
    if not 1.0 / USUAL_WEIGHT <= median <= USUAL_WEIGHT:
        shown = f"{median:,.0f}" if median > USUAL_WEIGHT else f"{median:.3g}"
        yield (
            f"a usual row counts {shown} times, the median of '{name}' in {first.where}, which makes the model "
            f"{'jump from row to row' if median > USUAL_WEIGHT else 'learn slowly'}; divide the column by {shown}, so "
            "that a usual row counts once"
        )


def naive_lags(settings: Settings, seasons: Sequence[int]) -> list[int]:
    """Return how many rows ago the labels are that naive guesses repeat: lags that are features, and whole seasons.

    The last label that is known is a naive guess in any case; with late labels, the last season that is known counts.
    """
    first = settings.delay + 1
    whole = (season * -(-first // season) for season in seasons)
    return sorted({lag for lag in (*settings.lag, *whole) if lag > first})

"""What each column of a file with many keys is, inferred from the first rows of all keys, and then kept to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from undrift.errors import DataError, InputError
from undrift.fleet import Fleet
from undrift.fleet.keys_and_orders import MAX_ORDER
from undrift.fleet.outputs import ABSENT
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.run.fleet.orders import Orders, TimeColumn, infer_time_column, parse_wait, require_integer_column
from undrift.run.read.rows_in_order import read_first_rows
from undrift.run.read.source import Source
from undrift.stream.calendar import Calendar, fill_calendar, find_calendar
from undrift.stream.cells import RowBatch, Times, parse_texts
from undrift.stream.first_rows import FirstRows
from undrift.stream.schema import LONGEST_TEXT, column_kind, find_flag, time_as_feature_error
from undrift.stream.settings import FleetSettings, did_you_mean
from undrift.stream.task import infer_task
from undrift.stream.text_features import unused_name

Columns = dict[str, NDArray[np.float64]]


class MadeFeatures(NamedTuple):
    """What is made of the columns of a file; texts that are not named here are 0 in all features of their column."""

    texts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Text columns, and their texts that have a feature."""
    calendar: Calendar | None = None
    """Which parts of the calendar are features; None: none."""
    names: tuple[str, ...] = ()
    """Names of the features, those of the calendar first."""

    def columns(self, batch: RowBatch, na: frozenset[str], times: Times | None) -> Columns:
        """Return the features of rows by name, NaN where a text or the time is missing."""
        n, made = len(batch.lines), list[NDArray[np.float64]]()
        if self.calendar is not None and times is not None:
            out = np.empty((n, len(self.calendar.names())))
            fill_calendar(times, out, self.calendar)
            made += [*out.T]
        for name, texts in self.texts:
            cells = parse_texts(batch.columns.get(name, [None] * n), na)
            known = np.array([math.nan if cell is None else 0.0 for cell in cells])
            made += [np.where([cell == text for cell in cells], 1.0, known) for text in texts]
        return dict(zip(self.names, made, strict=True))

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"texts": [[name, list(texts)] for name, texts in self.texts], "calendar": self.calendar} | {
            "names": list(self.names)
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return what `as_json` gave."""
        texts = tuple((str(name), tuple(str(one) for one in found)) for name, found in values["texts"])
        calendar = None if values["calendar"] is None else Calendar(*(bool(one) for one in values["calendar"]))
        return cls(texts, calendar, tuple(str(one) for one in values["names"]))


class FleetColumns(NamedTuple):
    """What each column of a file with many keys is."""

    fleet: Fleet
    """Columns and model."""
    task: str
    """regression or classification."""
    classes: tuple[str, ...] | None
    """The two labels, the negative one first."""
    time: TimeColumn | None
    """How times are written, if rows are ordered by time."""
    left_out: list[str]
    """Columns that are no numbers, and that no feature is made of."""
    made: MadeFeatures = MadeFeatures()
    """Features that are made of other columns; they follow the number columns in those of the fleet."""
    notes: Sequence[str] = ()
    """What was decided that the user may want to know."""


def infer_fleet_columns(source: Source, settings: FleetSettings) -> FleetColumns:
    """Return what the columns are, from the first rows; with `categories`, texts become features."""
    first, _ = read_first_rows(source)
    key, order, notes = settings.key, settings.order, list[str]()
    use_texts = settings.categories is not None
    if settings.calendar and settings.time is None:
        raise InputError("undrift fleet: --calendar needs the times of the rows; name their column with --time")
    asked = [key, settings.target, *filter(None, (order, settings.time)), *(settings.features or ()), *settings.drop]
    for name in asked:
        if name not in first.columns:
            raise InputError(f"column '{name}' not found{did_you_mean(name, first.columns)}")
    if settings.sort and settings.time is None:
        raise InputError("undrift fleet: --sort needs the times of the rows; name their column with --time")
    set_apart = {key, settings.target, order, settings.time, *settings.drop}
    others = settings.features or [name for name in first.columns if name not in set_apart]
    features = [name for name in others if _is_numeric(first, name, named=settings.features is not None)]
    texts, left_out = [name for name in others if name not in features], list[str]()
    flags = {} if use_texts or settings.features is None else _find_flags(first, texts)
    if not use_texts and settings.features is None:
        texts, left_out = [], texts
    task, classes = infer_task(first)
    if task == "multiclass":
        raise DataError(
            f"{source.name}: the target '{settings.target}' has several classes ({', '.join((classes or ())[:3])}, "
            "...), where a fleet takes two; make one column of 0 and 1 for each, use undrift run for one stream, or "
            "pass --task regression if they are numbers"
        )
    time = None
    if order is not None:
        require_integer_column(first, order)
    elif settings.time is not None:
        time = infer_time_column(first, settings.time, notes)
    else:
        notes.extend(_note_on_times(first, [name for name in first.columns if name not in {*set_apart, *features}]))
    calendar = None
    if settings.calendar and time is not None:
        times = instants(time, time.read(source, first.lines, first.columns[time.name]))
        calendar = None if times is None else find_calendar(times)
    taken = [key, settings.target, *filter(None, (order, settings.time)), *features]
    made = make_features(first, texts, flags, taken, settings.most_texts, calendar)
    features += made.names
    if not (features or settings.lag):
        texts_there = f"{', '.join(left_out[:12])} are no numbers: --categories 20 uses texts, " if left_out else ""
        raise InputError(
            f"no column of numbers is left to learn from; {texts_there}--time COL --calendar makes features of a time, "
            "--lag 1 of earlier labels"
        )
    unit = None if time is None else time.unit
    fleet = make_fleet(settings, task, features, parse_wait(settings.wait, unit))
    return FleetColumns(fleet, task, classes, time, left_out, made, notes)


def _note_on_times(first: FirstRows, columns: Sequence[str]) -> list[str]:
    """Return what a user should know who named no order and no time, where one of the unused columns holds times."""
    name = next((name for name in columns if column_kind(first, name) == "time"), None)
    if name is None:
        return []
    return [
        f"'{name}' holds times and is not used: no later file can bring labels of rows that were predicted without one,"
        f" as only an order or a time tells which row is which; pass --time '{name}' if labels come later"
    ]


def make_fleet(settings: FleetSettings, task: str, features: Sequence[str], wait: int) -> Fleet:
    """Return the fleet of these columns, before its first record; `wait` is in orders."""
    if settings.interval is not None and task == "classification":
        raise InputError("undrift fleet: --interval is for numbers, and the target is one of two classes; leave it out")
    model = OnlineClassifier if task == "classification" else OnlineRegressor
    return Fleet(
        model(speed=settings.speed, seed=settings.seed),
        key=settings.key,
        order=settings.order or settings.time,
        features=features,
        target=settings.target,
        wait=wait,
        delay=settings.delay,
        lags=settings.lag,
        interval=settings.interval,
        hold=settings.hold,
        numbered=settings.order is not None,
        on_error="report",
    )


def _find_flags(first: FirstRows, columns: Sequence[str]) -> dict[str, str]:
    """Return the text of each column of two that has a feature; refuse times, and columns of more texts."""
    found = {}
    for name in columns:
        if column_kind(first, name) == "time":
            raise time_as_feature_error(name)
        text = find_flag(first, name)
        if text is None:
            texts = dict.fromkeys(f"{cell!r:.40}" for _, cell in first.known_cells(name))
            raise InputError(
                f"--features '{name}': a column must hold numbers or two texts such as yes and no, got "
                f"{', '.join([*texts][:3])}; pass --categories 20 to give the 20 most frequent texts a feature each"
            )
        found[name] = text
    return found


def _is_numeric(first: FirstRows, name: str, *, named: bool) -> bool:
    """Whether most of a column is numbers: the other cells will be reported one by one, so they need not be few.

    A column that is empty so far counts if it was `named` as a feature.
    """
    numbers, known = first.count_numbers(name)
    return 2 * numbers > known or (named and not known)


def make_features(
    first: FirstRows,
    texts: Sequence[str],
    flags: Mapping[str, str],
    taken: Sequence[str],
    most: int,
    calendar: Calendar | None,
) -> MadeFeatures:
    """Return the features to be made: of each text column its most frequent texts, `most` at most.

    `flags` are text columns of which one text has a feature.
    """
    kept: list[tuple[str, tuple[str, ...]]] = []
    for name in texts:
        if name in flags:
            kept.append((name, (flags[name],)))
            continue
        counts = Counter(cell[:LONGEST_TEXT] for cell in parse_texts(first.columns[name], first.na) if cell is not None)
        kept.append((name, tuple(text for text, _ in counts.most_common(most))))
    names = list(taken)
    for made in [*(() if calendar is None else calendar.names()), *(f"{c}={t}" for c, found in kept for t in found)]:
        names.append(unused_name(made, names))
    return MadeFeatures(tuple(kept), calendar, tuple(names[len(taken) :]))


def instants(time: TimeColumn | None, orders: Orders | None) -> Times | None:
    """Return the times that orders count, NaT where there is none."""
    if time is None or orders is None:
        return None
    counts = np.array([one if type(one) is int and abs(one) <= MAX_ORDER else ABSENT for one in orders], np.int64)
    return counts.view(f"datetime64[{time.unit}]").astype("datetime64[us]")  # what is absent becomes NaT

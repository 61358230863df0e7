"""What each column of a table with many keys is, inferred from the first rows of all keys, and then kept to."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift.errors import DataError, InputError
from undrift.stream.calendar import Calendar, find_calendar
from undrift.stream.cells import RowBatch, Times, parse_texts
from undrift.stream.first_rows import FirstRows
from undrift.stream.keyed.keys_and_orders import (
    MAX_ORDER,
    TimeColumn,
    infer_time_column,
    join_key,
    require_integer_column,
)
from undrift.stream.keyed.outputs import ABSENT
from undrift.stream.schema import Schema, column_kind, find_time_column, infer_schema, time_as_feature_error
from undrift.stream.settings import FleetSettings, Settings, did_you_mean


class KeyedColumns(NamedTuple):
    """What each column of a table with many keys is."""

    schema: Schema
    """Of each key's stream."""
    time: TimeColumn | None
    """How times are written, if rows are ordered by time."""
    left_out: tuple[str, ...] = ()
    """Columns that nothing is learned from."""


def infer_keyed_columns(first: FirstRows, settings: FleetSettings) -> KeyedColumns:
    """Return what the columns are, from the first rows; they are those of a stream, less what names keys and places."""
    source = first.source
    if settings.calendar and settings.time is None:
        raise InputError("undrift fleet: --calendar needs the times of the rows; name their column with --time")
    if settings.elapsed and settings.time is None:
        raise InputError("undrift fleet: --elapsed needs the times of the rows; name their column with --time")
    if settings.sort and settings.time is None:
        raise InputError("undrift fleet: --sort needs the times of the rows; name their column with --time")
    places = [name for name in (settings.order, settings.time) if name is not None]
    for name in [*settings.key, settings.target, *places, *(settings.features or ()), *settings.drop]:
        if name not in first.columns:
            raise InputError(f"column '{name}' not found{did_you_mean(name, first.columns)}")
    notes: list[str] = []
    time = None
    if settings.order is not None:
        require_integer_column(first, settings.order)
    elif settings.time is not None:
        time = infer_time_column(first, settings.time, notes)
    order = None if time is None else _orders(first, time)
    keys = _keys(first, settings.key)
    constant = [] if settings.features is not None else _constant_texts(first, keys, {*settings.key, settings.target})
    asked = settings.of_stream().replace(calendar=False, elapsed=False, sort=False)
    set_apart = {*settings.key, *places, *constant}
    asked = asked.replace(drop=tuple(name for name in asked.drop if name not in set_apart))
    rest = _without(first, set_apart, asked)
    times = _time_columns(rest, asked)
    schema = infer_schema(_without(rest, {*times}, asked), calendar=settings.calendar)
    notes += schema.notes
    notes += [] if places else map(_note_on_times, times)
    notes += [
        f"'{name}' is the same in all rows of each key, which cannot help the model of one key, so it was left out; "
        "--features uses it"
        for name in constant
    ]
    calendar, spacing = Calendar(hours=False), None
    if time is not None and order is not None:
        instants = order.view(f"datetime64[{time.unit}]").astype("datetime64[us]")
        calendar = find_calendar(instants)
        spacing = _spacing(source.name, instants, keys, time.name) if settings.elapsed else None
    schema = replace(
        schema,
        time=None if time is None else time.name,
        clock="iso" if time is None else time.format,
        hours=calendar.hours,
        days=calendar.days,
        spacing=spacing,
        seasons=(),
        notes=tuple(notes),
    )
    taken = {*settings.key, settings.target, settings.weight, *places, *schema.numbers, *schema.text_columns}
    left_out = [name for name in first.columns if name not in taken and name not in settings.drop]
    return KeyedColumns(schema, time, tuple(left_out) if settings.features is None else ())


def _without(first: FirstRows, names: set[str], settings: Settings) -> FirstRows:
    """Return the first rows without some columns, to be read with other settings."""
    source = copy.copy(first.source)
    source.settings = settings
    columns = {name: cells for name, cells in first.columns.items() if name not in names}
    return FirstRows(source, [RowBatch(first.lines, columns)], whole=first.whole and len(first.lines) > 1)


def _time_columns(first: FirstRows, settings: Settings) -> list[str]:
    """Return which columns hold times, as texts or since 1970; refuse one that was named as a feature."""
    others = [name for name in first.columns if name not in {settings.target, *settings.drop}]
    kinds = {name: column_kind(first, name) for name in others}
    times = [name for name, kind in kinds.items() if kind == "time"]
    wrong = next((name for name in times if name in (settings.features or ())), None)
    if wrong is not None:
        raise time_as_feature_error(wrong)
    epoch, _ = find_time_column(first, [name for name, kind in kinds.items() if kind == "number"], [])
    return times if epoch is None else [*times, epoch]


def _keys(first: FirstRows, names: Sequence[str]) -> list[str | None]:
    """Return the key of each row, None where it is missing."""
    parts = [parse_texts(first.columns[name], first.na) for name in names]
    return [None if None in row else join_key(row) for row in zip(*parts, strict=True)]


def _orders(first: FirstRows, time: TimeColumn) -> NDArray[np.int64]:
    """Return the times of rows as counts, ABSENT where there is none."""
    found = time.read(first.source, first.lines, first.columns[time.name])
    counts = [one if type(one) is int and abs(one) <= MAX_ORDER else ABSENT for one in found]
    return np.array(counts, np.int64)


def _constant_texts(first: FirstRows, keys: Sequence[str | None], taken: set[str]) -> list[str]:
    """Return the columns of texts that never change within a key, if some key has several rows."""
    if len({*keys}) == len(keys):
        return []
    found = []
    for name, cells in first.columns.items():
        if name in taken or isinstance(cells, np.ndarray):
            continue
        numbers, known = first.count_numbers(name)
        if 2 * numbers > known or not known:
            continue
        texts: defaultdict[str | None, set[str | None]] = defaultdict(set)
        for key, text in zip(keys, parse_texts(cells, first.na), strict=True):
            texts[key].add(text)
        if all(len(some) == 1 for some in texts.values()):
            found.append(name)
    return found


def _spacing(name: str, times: Times, keys: Sequence[str | None], column: str) -> float:
    """Return the median time between rows of a key, in seconds."""
    by_key: defaultdict[str | None, list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        by_key[key].append(i)
    steps = [np.diff(times[rows]) for rows in by_key.values() if len(rows) > 1]
    joined = np.concatenate(steps) if steps else np.empty(0, dtype="timedelta64[us]")
    seconds = joined[~np.isnat(joined)].astype("timedelta64[us]").astype(np.int64) / 1e6
    if not (seconds > 0.0).any():
        raise DataError(
            f"{name}: no time passes between rows of one key by '{column}' in the first rows; leave out --elapsed"
        )
    return float(np.median(seconds[seconds > 0.0]))


def _note_on_times(name: str) -> str:
    """Return what a user should know who named no order and no time, where a column holds times."""
    return (
        f"'{name}' holds times and is not used: no later file can bring labels of rows that were predicted without one,"
        f" as only an order or a time tells which row is which; pass --time '{name}' if labels come later"
    )

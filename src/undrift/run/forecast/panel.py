"""Series out of the rows of a file: a grid of equal steps, NaN where a row or a cell is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix
from undrift.errors import DataError, InputError
from undrift.forecast.calendar import Seconds, count_steps, later_times, usual_spacing
from undrift.forecast.forecast_input import LONGEST_GAP
from undrift.run.forecast.columns import (
    CandidateColumns,
    find_candidates,
    make_own_forecasts,
)
from undrift.run.forecast.known_columns import read_known_column
from undrift.run.read.source import Source
from undrift.stream.cells import LIMIT, parse_texts
from undrift.stream.first_rows import FirstRows
from undrift.stream.schema import find_time_column
from undrift.stream.settings import ForecastSettings

LONGEST_GRID = 10_000_000
MOST_SERIES = 1000


LONGEST_SPACING = 10**11
"""Seconds from row to row; files with times that are further apart have none in common."""


class PanelPlan(NamedTuple):
    """What the first file decided, and later ones keep to."""

    names: tuple[str, ...]
    """The series."""
    time: str | None
    """Column with the time."""
    clock: str
    """How times are written."""
    spacing: int
    """Seconds from row to row; 0 without times, and before there are two."""
    texts: tuple[str, ...] = ()
    """Columns known in advance that hold texts."""

    def as_dict(self) -> dict[str, Any]:
        """Return the plan for JSON."""
        return {**self._asdict(), "names": list(self.names), "texts": list(self.texts)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the plan that `as_dict` gave; raise KeyError, TypeError or ValueError for anything else."""
        names, time, clock, spacing = (values[name] for name in ("names", "time", "clock", "spacing"))
        if not isinstance(clock, str) or not isinstance(time, (str, type(None))) or not isinstance(names, list):
            raise TypeError("'plan' must name the columns")
        if type(spacing) is not int or not 0 <= spacing <= LONGEST_SPACING:
            raise ValueError("'spacing' must be a number of seconds")
        return cls(tuple(map(str, names)), time, clock, spacing, tuple(map(str, values["texts"])))


class Panel(NamedTuple):
    """Rows of all series on one grid."""

    plan: PanelPlan
    times: Seconds | None
    """Seconds since 1970 of each row."""
    values: Matrix
    """(rows, series), NaN where missing."""
    known: Matrix
    """Columns known in advance, of texts their places in `texts`, NaN where missing; rows beyond are still to come."""
    own: NDArray[np.float64]
    """Forecasts of the user's own, made after each row (rows, series, candidates, steps), NaN where there is none."""
    notes: tuple[str, ...]
    """What was decided or left out."""
    skipped: int
    """Rows that were not later than the last one learned."""
    texts: Mapping[str, Sequence[str]] = MappingProxyType({})
    """The texts of the columns known in advance that hold some."""


class _Cells(NamedTuple):
    """The rows of a file, one for each series and time, in the file's order."""

    when: NDArray[np.int64]
    which: NDArray[np.int64]
    values: Matrix
    known: Matrix
    own: Matrix
    """The candidates' columns, one after the other."""
    candidates: tuple[CandidateColumns, ...]
    horizon: int
    texts: Mapping[str, Sequence[str]]
    """As in a panel."""


def read_panel(
    source: Source, settings: ForecastSettings, plan: PanelPlan | None = None, after: int | None = None
) -> Panel:
    """Return the series of a file.

    Parameters
    ----------
    source
        The file.
    settings
        Which columns to take.
    plan
        What an earlier file decided; None: this is the first.
    after
        The time, or the number of the row, learned last; rows up to it are left out and counted.
    """
    names, cells, (time, clock), notes = _read_cells(source, settings, plan)
    if time is None and settings.series is None:
        return _in_order(cells, PanelPlan(names, None, clock, 0, tuple(cells.texts)), notes, after)
    if time is None:
        raise DataError(f"{source.name}: several series need a column with times; name it with --time")
    return _on_grid(source, cells, names, time, clock, plan, after, notes)


class LaterCells(NamedTuple):
    """Cells of columns known in advance: numbers and texts, None where missing, row by row."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[float | str | None]]
    """Of the rows that have come."""
    ahead: Mapping[int, Sequence[float | str | None]]
    """Of rows that were still to come, by their time or number."""


def make_later_panel(
    plan: PanelPlan, values: Matrix, times: Seconds | None, last: int | None, cells: LaterCells, first: int = 0
) -> Panel:
    """Return rows that came one by one as a panel; rows that are missing between their times are NaN.

    Parameters
    ----------
    plan
        What the first file decided.
    values
        (n, series).
    times
        Seconds since 1970, later from row to row, on the grid of the rows so far; None without times.
    last
        The time of the last row so far.
    cells
        Columns known in advance.
    first
        Without times, the number of the first row.
    """
    series, columns = values.shape[1], [*zip(*cells.rows, *cells.ahead.values(), strict=True)]
    texts = {name: [*dict.fromkeys(cell for cell in columns[k] if cell is not None)] if columns else []
             for k, name in enumerate(cells.columns) if name in plan.texts}  # fmt: skip
    codes = np.full((len(cells.rows) + len(cells.ahead), len(cells.columns)), np.nan)
    for k, (name, column) in enumerate(zip(cells.columns, columns, strict=False)):
        codes[:, k] = [
            math.nan if cell is None else texts[name].index(cell) if name in texts else cell for cell in column
        ]
    values = np.hstack([values, codes[: len(values)]])
    if times is not None and last is not None and len(times):
        spacing = plan.spacing or usual_spacing(np.append(last, times))
        steps, _ = count_steps(last, times, max(spacing, 1))
        gaps = np.diff(steps, prepend=0)
        if not 0 < gaps.min() <= gaps.max() <= LONGEST_GAP:
            raise InputError("times must go forward, from row to row; sort the rows and drop those that come twice")
        plan, given = plan._replace(spacing=spacing), values
        values = np.full((int(steps[-1]), values.shape[1]), np.nan)
        values[steps - 1] = given
        times = later_times(last, np.arange(1, len(values) + 1), spacing)
    places = np.array([*cells.ahead], np.int64) - first
    if times is not None and len(times):
        places, _ = count_steps(int(times[0]), np.array([*cells.ahead], np.int64), max(plan.spacing, 1))
    if len(places) and not 0 <= places.min() <= places.max() <= LONGEST_GAP:
        raise InputError(f"rows to come must be at most {LONGEST_GAP:,} rows ahead; correct their times or numbers")
    known = np.full((max([len(values), *(places + 1)]), len(cells.columns)), np.nan)
    known[: len(values)] = values[:, series:]
    for at, row in zip(places, codes[len(cells.rows) :], strict=True):
        known[at] = np.where(np.isnan(known[at]), row, known[at])
    own = np.empty((len(values), series, 0, 0))
    return Panel(plan, times, np.ascontiguousarray(values[:, :series]), known, own, (), 0, texts)


class KeyCells(NamedTuple):
    """The rows of a file with many keys, each of which is a series of its own."""

    source: Source
    names: tuple[str, ...]
    """The keys, in order of appearance."""
    cells: _Cells
    plan: PanelPlan
    """What is the same for all keys; without names."""
    notes: tuple[str, ...]

    def rows_by_key(self) -> dict[str, NDArray[np.int64]]:
        """Return which rows are of each key."""
        order = np.argsort(self.cells.which, kind="stable")
        ends = np.cumsum(np.bincount(self.cells.which, minlength=len(self.names)))
        return dict(zip(self.names, np.split(order, ends[:-1]), strict=True))


def read_key_cells(source: Source, settings: ForecastSettings, plan: PanelPlan | None) -> KeyCells:
    """Return the rows of a file with many keys; `plan` is what an earlier file decided, None: this is the first."""
    names, cells, (time, clock), notes = _read_cells(source, settings, plan)
    spacing = plan.spacing if plan is not None else 0
    if time is not None and not spacing:
        order = np.lexsort((cells.when, cells.which))
        gaps = np.diff(cells.when[order])[np.diff(cells.which[order]) == 0]
        found, counts = np.unique(gaps[gaps > 0], return_counts=True)
        spacing = int(found[np.argmax(counts)]) if len(found) else 0
    return KeyCells(source, names, cells, PanelPlan((), time, clock, spacing, tuple(cells.texts)), tuple(notes))


def key_panel(given: KeyCells, key: str, rows: NDArray[np.int64], after: int | None) -> Panel:
    """Return one key's rows as a panel of one series; `after` as in `read_panel`."""
    cells, plan = given.cells, given.plan
    own = cells._replace(
        when=cells.when[rows], which=np.zeros(len(rows), np.int64), values=cells.values[rows], known=cells.known[rows],
        own=cells.own[rows],
    )  # fmt: skip
    if plan.time is None:
        return _in_order(own, plan._replace(names=(key,)), [], after)
    try:
        return _on_grid(given.source, own, (key,), plan.time, plan.clock, plan, after, [])
    except DataError as error:
        raise DataError(f"key '{key:.60}': {error}") from None


def _read_cells(
    source: Source, settings: ForecastSettings, plan: PanelPlan | None
) -> tuple[tuple[str, ...], _Cells, tuple[str | None, str], list[str]]:
    """Return the series, the rows, the column of times and how they are written, and what was decided."""
    batches = list(source.batches())
    if not batches:
        raise DataError(f"{source.name} has no rows, only a header; there is nothing to learn")
    first = FirstRows(source, batches, whole=True)
    first.require(settings.target, "--target")
    first.require(settings.known, "--known")
    first.require([settings.series] if settings.series else [], "--series")
    first.require([settings.key] if settings.key else [], "--key")
    candidates = find_candidates(source.name, first.columns, settings.candidate, settings.horizon)
    taken = {*settings.target, *settings.known, settings.series, settings.key}
    taken |= {name for one in candidates for name in one.columns}
    notes: list[str] = []
    if plan is None:
        time, clock = find_time_column(first, [name for name in first.columns if name not in taken], notes)
        notes.extend(
            f"candidate '{one.columns[0]}' is taken to be known {one.ahead} rows before the row it stands in; if it is "
            f"known k rows before, pass {one.columns[0]}:k"
            for one in candidates
            if one.ahead > 1 and one.columns[0] in settings.candidate
        )
    else:
        time, clock = plan.time, plan.clock
        first.require([time] if time else [], "--time")
    names, cells = _cells(first, settings, time, clock, plan, candidates)
    return names, cells, (time, clock), notes


def _cells(
    first: FirstRows, settings: ForecastSettings, time: str | None, clock: str, plan: PanelPlan | None,
    candidates: tuple[CandidateColumns, ...],
) -> tuple[tuple[str, ...], _Cells]:  # fmt: skip
    names = [*settings.target, *settings.known, *(name for one in candidates for name in one.columns)]
    read = {
        name: read_known_column(first, name, text=None if plan is None else name in plan.texts)
        for name in settings.known
    }
    texts = {name: found for name, (_, found) in read.items() if found is not None}
    numbers = np.column_stack([read[name][0] if name in read else first.numbers(name) for name in names])
    ends = np.cumsum([len(settings.target), len(settings.known)])
    values, known, own = np.split(numbers, ends, axis=1)
    for name, column in zip(names, numbers.T, strict=True):
        bad = ~np.isnan(column) & ~(np.abs(column) <= LIMIT)
        if bad.any():
            where = first.source.at(int(first.lines[int(np.argmax(bad))]))
            raise DataError(f"{where}: '{name}' is infinite or larger than {LIMIT:g}; correct the cell, or empty it")
    when = np.arange(len(values))
    if time is not None:
        instants = first.times(time, clock)
        if np.isnat(instants).any():
            where = first.source.at(int(first.lines[int(np.argmax(np.isnat(instants)))]))
            raise DataError(f"{where}: '{time}' is empty, and without its time a row has no place; drop the row")
        when = instants.astype("datetime64[s]").astype(np.int64)
    by = settings.key or settings.series
    if by is None:
        which = np.zeros(len(values), np.int64)
        return settings.target, _Cells(when, which, values, known, own, candidates, settings.horizon, texts)
    series = parse_texts(first.columns[by], first.na)
    if None in series:
        where = first.source.at(int(first.lines[series.index(None)]))
        raise DataError(f"{where}: '{by}' is empty; say which series the row is of, or drop it")
    fixed = None if plan is None or settings.key else plan.names
    found = tuple(dict.fromkeys(str(text) for text in series)) if fixed is None else fixed
    if len(found) > MOST_SERIES and not settings.key:
        raise DataError(
            f"{first.source.name}: {len(found):,} series in '{by}', more than {MOST_SERIES} are not forecast together; "
            f"forecast each by itself with --key {by}, or split the file"
        )
    index = {name: i for i, name in enumerate(found)}
    strange = next((text for text in series if text not in index), None)
    if strange is not None:
        raise DataError(
            f"{first.source.name}: series '{strange:.60}' was not there in the first file; forecast it anew"
        )
    which = np.array([index[str(text)] for text in series])
    return found, _Cells(when, which, values, known, own, candidates, settings.horizon, texts)


def _in_order(cells: _Cells, plan: PanelPlan, notes: list[str], after: int | None) -> Panel:
    """Return rows without times, as they come."""
    begin = 0 if after is None else after + 1
    end = _last_known(cells.values)
    values, known = cells.values[begin:end], cells.known[begin:]
    own = make_own_forecasts(cells.own[begin:, None, :], cells.candidates, len(values), cells.horizon)
    return Panel(plan, None, values, known, own, tuple(notes), min(begin, len(cells.values)), cells.texts)


def _on_grid(
    source: Source, cells: _Cells, names: tuple[str, ...], time: str, clock: str, plan: PanelPlan | None,
    after: int | None, notes: list[str],
) -> Panel:  # fmt: skip
    """Return rows with times on a grid of equal steps; of rows that share one time and series the first counts."""
    seen = cells.when if after is None else np.append(cells.when, after)
    spacing = plan.spacing if plan is not None and plan.spacing else usual_spacing(seen)
    fresh = cells.when > after if after is not None else np.ones(len(cells.when), bool)
    start = int(cells.when.min()) if after is None else after
    step, fits = count_steps(start, cells.when, max(spacing, 1))
    if not fits[fresh].all():
        bad = np.flatnonzero(fresh & ~fits)[0]
        when = np.int64(cells.when[bad]).astype("datetime64[s]")
        raise DataError(
            f"{source.name}: rows are {spacing} seconds apart, and {when} is between two of them; round the times"
        )
    step = step - (0 if after is None else 1)
    rows = int(step[fresh].max()) + 1 if fresh.any() else 0
    if rows * len(names) > LONGEST_GRID:
        raise DataError(
            f"{source.name}: {rows:,} steps of {spacing} seconds from the first to the last row are too many; "
            "leave out times that are wrong"
        )
    values = np.full((rows, len(names)), np.nan)
    known = np.full((rows, cells.known.shape[1]), np.nan)
    own = np.full((rows, len(names), cells.own.shape[1]), np.nan)
    width = cells.values.shape[1]
    repeated = 0
    taken = np.zeros((rows, len(names)), bool)
    for i in np.flatnonzero(fresh):
        at, s = int(step[i]), int(cells.which[i])
        if taken[at, s]:
            repeated += 1
            continue
        taken[at, s : s + width] = True
        values[at, s : s + width] = cells.values[i]
        known[at] = np.where(np.isnan(known[at]), cells.known[i], known[at])
        own[at, s] = cells.own[i]
    count = int(np.count_nonzero(fresh))
    if 2 * repeated >= count and repeated > 1 and len(names) == width:
        raise DataError(
            f"{source.name}: {repeated:,} of {count:,} rows repeat a time; if they are several series, name the column "
            "that tells them apart with --series"
        )
    if repeated:
        what = "1 row repeats" if repeated == 1 else f"{repeated:,} rows repeat"
        notes.append(f"{what} a time; the first of each counts")
    if after is None and (np.diff(cells.when) < 0).any() and len(names) == width:
        notes.append("rows were sorted by time")
    end = _last_known(values)
    missing = end - len(np.unique(np.nonzero(taken[:end])[0]))
    if missing:
        notes.append(f"{missing:,} of {end:,} rows are missing between the first and the last time")
    times = later_times(start, np.arange(end) + (0 if after is None else 1), max(spacing, 1))
    found = PanelPlan(names, time, clock, spacing, tuple(cells.texts))
    said = make_own_forecasts(own, cells.candidates, end, cells.horizon)
    skipped = int(np.count_nonzero(~fresh))
    return Panel(found, times, values[:end], known, said, tuple(notes), skipped, cells.texts)


def _last_known(values: Matrix) -> int:
    """Return the number of rows up to the last one with a value."""
    there = np.flatnonzero(~np.isnan(values).all(axis=1))
    return int(there[-1]) + 1 if len(there) else 0

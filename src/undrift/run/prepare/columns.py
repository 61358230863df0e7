"""The plan of a run: what each column is, found on the first rows, stated, and then kept to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from undrift.errors import DataError, InputError
from undrift.run.prepare.task import MOSTLY, TargetColumn, are_numbers, infer_task
from undrift.run.read.cells import (
    LIMIT,
    UnreadableCell,
    is_missing,
    parse_number,
    parse_numbers,
    parse_texts,
    parse_times,
    time_parser,
)
from undrift.run.read.rows import Cells, Lines, RowBatch
from undrift.run.read.source import Source
from undrift.run.settings import did_you_mean

PREFIX = 2
"""Batches the plan is made from."""
LONGEST_TEXT = 1000
"""Characters of a text that may stand for a category: its name is kept with the model."""
CLOCKS = ("time", "timestamp", "date", "datetime", "ds", "index", "id", "row")


@dataclass(frozen=True)
class ColumnRoles:
    """What each column is."""

    task: str
    """"regression" or "classification"."""
    classes: tuple[str, ...] | None
    """The labels, the negative one first."""
    time: str | None
    """Column with the time."""
    clock: str
    """How it is written: "iso", "epoch", or the letters of strptime."""
    hours: bool
    """Whether times have hours."""
    numbers: tuple[str, ...]
    """Number columns."""
    texts: tuple[tuple[str, tuple[str, ...]], ...]
    """Text columns, with the texts of the first rows in order of arrival."""
    notes: tuple[str, ...]
    """What was decided that the user may want to know."""

    def sentence(self, target: str, features: Sequence[str]) -> str:
        """Return what was found, for the user to check."""
        what = "a number" if self.classes is None else f"{self.classes[0] or '?'} or {self.classes[1]}"
        shown = ", ".join(features[:8]) + (f" and {len(features) - 8} more" if len(features) > 8 else "")
        time = "" if self.time is None else f"; time is '{self.time}'"
        return f"{self.task}: '{target}' ({what}) from {shown}{time}"

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON would hold it."""
        out = asdict(self)
        out["texts"] = {name: list(values) for name, values in self.texts}
        return out


class FirstRows:
    """The first rows, column by column."""

    def __init__(self, source: Source, batches: list[RowBatch], whole: bool) -> None:
        self.source, self.whole = source, whole
        self.settings, self.na = source.settings, frozenset(source.settings.na)
        names = list(dict.fromkeys(name for batch in batches for name in batch.columns))
        self.columns: dict[str, Cells] = {name: join_column(name, batches) for name in names}
        self.lines: Lines = np.concatenate([batch.lines for batch in batches])

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.lines)

    @property
    def where(self) -> str:
        """Which rows these are."""
        return f"all {self.rows} rows" if self.whole else f"the first {self.rows} rows"

    def known(self, name: str) -> list[object]:
        """Return the cells of a column that say something."""
        cells = self.columns[name]
        return [cell for cell in _objects(cells) if not is_missing(cell, self.na)]

    def require(self, names: Iterable[str], option: str) -> None:
        """Refuse names that no column has."""
        for name in names:
            if name not in self.columns:
                what = f"{option} '{name}': {self.source.name} has no such column"
                raise InputError(what + did_you_mean(name, self.columns))


def infer_columns(source: Source, batches: list[RowBatch], *, whole: bool) -> ColumnRoles:
    """Return what the columns are, from the first batches; `whole`: there are no others."""
    if not batches:
        raise DataError(f"{source.name} has no rows, only a header; there is nothing to learn")
    first, settings = FirstRows(source, batches, whole), source.settings
    first.require([settings.target], "--target")
    if settings.time is not None:
        first.require([settings.time], "--time")
    first.require(settings.features or (), "--features")
    first.require(settings.drop, "--drop")
    if first.rows == 1 and whole:
        raise DataError(f"{source.name} has one row; a stream needs at least two, each predicted from those before it")
    notes: list[str] = []
    task, classes = _target(first)
    if classes is None:
        _require_usable(first)
    others = [name for name in first.columns if name != settings.target and name not in settings.drop]
    kinds = {name: _kind(first, name) for name in others}
    time, how = _time(first, kinds, notes)
    columns = [name for name in others if name != time]
    if settings.features is not None:
        columns = [name for name in columns if name in settings.features]
    number_columns, text_columns = [], []
    for name in columns:
        if kinds[name] == "number":
            number_columns.append(name)
        elif kinds[name] == "text":
            text_columns.append((name, _categories(first, name)))
        elif kinds[name] == "counter":
            continue
        elif settings.features is not None:
            raise InputError(f"--features '{name}': that is a time, not a feature; pass --time '{name}' --calendar")
        else:
            notes.append(f"'{name}' is a second time and was left out")
    hours = False
    if time is not None:
        instants = _times(first, time, how)
        hours = bool((instants != instants.astype("datetime64[D]"))[~np.isnat(instants)].any())
    if settings.calendar and time is None:
        raise InputError("--calendar needs a column with times; none was found, name it with --time")
    if not number_columns and not text_columns and not settings.calendar and not settings.lag:
        raise DataError(
            f"{source.name} has no column to learn from besides '{settings.target}'; add features, or --lag 1"
        )
    return ColumnRoles(task, classes, time, how, hours, tuple(number_columns), tuple(text_columns), tuple(notes))


def join_column(name: str, batches: Sequence[RowBatch]) -> Cells:
    """Return the cells of a column in all batches."""
    parts = [batch.columns.get(name, [None] * len(batch.lines)) for batch in batches]
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)  # type: ignore[arg-type]  # arrays, as just checked
    return [cell for part in parts for cell in part]


def _objects(cells: Cells) -> list[object]:
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind == "M":
            return [None if np.isnat(cell) else cell for cell in cells]
        return list(cells.tolist())
    return list(cells)


def _kind(first: FirstRows, name: str) -> str:
    """Return "number", "time" or "text"; a column that says nothing yet counts as numbers."""
    cells = first.columns[name]
    if isinstance(cells, np.ndarray):
        return "time" if cells.dtype.kind == "M" else "number"
    known = first.known(name)
    if not known:
        return "number"
    enough = MOSTLY * len(known)
    if sum(parse_number(cell) is not None for cell in known) >= enough:
        return "number"
    form = first.settings.time_format or "iso"
    if sum(_is_time(cell, form) or _is_time(cell, "iso") for cell in known) >= enough:
        return "time"
    return "text"


def _is_time(cell: object, form: str) -> bool:
    if not isinstance(cell, str) or len(cell.strip()) < 6:
        return False
    try:
        time_parser(form)(cell.strip())
    except (ValueError, OverflowError):
        return False
    return True


def _time(first: FirstRows, kinds: dict[str, str], notes: list[str]) -> tuple[str | None, str]:
    """Return the time column and how it is written."""
    settings = first.settings
    form = settings.time_format or "iso"
    if settings.time is not None:
        how = "epoch" if kinds.get(settings.time) == "number" else form
        _times(first, settings.time, how)
        return settings.time, how
    wanted = settings.features or ()
    found = [name for name, kind in kinds.items() if kind == "time" and name not in wanted]
    if found:
        _times(first, found[0], form)
        return found[0], form
    for name, kind in kinds.items():
        if kind == "number" and name.lower() in CLOCKS and name not in wanted:
            column = _numbers(first, name)
            steps = np.diff(column[~np.isnan(column)])
            if len(steps) and (steps >= 0.0).all() and (steps > 0.0).any():
                if float(np.nanmin(column)) > 1e8:
                    return name, "epoch"
                notes.append(f"'{name}' counts the rows and was left out; pass --features to use it")
                kinds[name] = "counter"
    return None, form


def _times(first: FirstRows, name: str, how: str) -> np.ndarray[Any, Any]:
    try:
        return parse_times(first.columns[name], how, first.na)
    except UnreadableCell as bad:
        line = int(first.lines[bad.row])
        raise DataError(
            f"{first.source.at(line)}: '{name}' should be a time, got {bad.cell!r:.60}; "
            "correct it, or say how times are written with --time-format"
        ) from None


def _numbers(first: FirstRows, name: str) -> np.ndarray[Any, Any]:
    try:
        return parse_numbers(first.columns[name], first.na)
    except UnreadableCell as bad:
        raise not_a_number(first.source, int(first.lines[bad.row]), name, bad.cell) from None


def not_a_number(source: Source, line: int, name: str, cell: object) -> DataError:
    """Return the error for a text in a number column."""
    text = str(cell)
    hint = "correct the cell"
    if text.count(",") == 1 and text.replace(",", "").lstrip("+-").isdigit():
        hint = "write a decimal point, not a comma"
    last = "drop the row" if name == source.settings.target else f"--drop '{name}'"
    return DataError(
        f"{source.at(line)}: '{name}' is a column of numbers, got {text[:60]!r}; "
        f"{hint}, pass --na {text[:20]!r} if it means missing, or {last}"
    )


def _require_usable(first: FirstRows) -> None:
    """Refuse a target of which no value is within what learners take."""
    name = first.settings.target
    column = _numbers(first, name)
    known = column[~np.isnan(column)]
    if not (np.abs(known) <= LIMIT).any():
        what = f"infinite or larger than {LIMIT:g} in size" if np.isfinite(known).any() else "infinite"
        raise DataError(
            f"{first.source.name}: the target '{name}' is {what} wherever it is known in {first.where}, where numbers "
            f"up to {LIMIT:g} are allowed; write it in larger units"
        )


def require_short(source: Source, line: int, name: str, text: str) -> None:
    """Refuse a text that is too long to stand for a category."""
    if len(text) > LONGEST_TEXT:
        raise DataError(
            f"{source.at(line)}: '{name}' holds a text of {len(text):,} characters, more than {LONGEST_TEXT:,}; "
            f"leave it out with --drop '{name}'"
        )


def _categories(first: FirstRows, name: str) -> tuple[str, ...]:
    cells = parse_texts(first.columns[name], first.na)
    found = tuple(dict.fromkeys(text for text in cells if text is not None))
    longest = max(found, key=len, default="")
    require_short(first.source, int(first.lines[cells.index(longest)]) if longest else 0, name, longest)
    if len(found) > first.settings.categories:
        raise DataError(
            f"{first.source.name}: '{name}' has {len(found)} different texts in {first.where}, more than "
            f"{first.settings.categories}; leave it out with --drop '{name}', or raise --categories"
        )
    return found


def _target(first: FirstRows) -> tuple[str, tuple[str, ...] | None]:
    """Return the task and the classes, or say why the target cannot be predicted."""
    name = first.settings.target
    task, classes = infer_task(TargetColumn(first.source, first.columns[name], first.lines, first.whole))
    if task == "regression" and not are_numbers(first.known(name)):
        _numbers(first, name)  # which names the first cell that is none
    return task, classes

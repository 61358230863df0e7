"""Mix forecasts made elsewhere that are columns of a file, and score the mix beside each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.errors import DataError, InputError
from undrift.learners import Mix
from undrift.learners.mix import COMBINED
from undrift.metrics import mae, pinball, rmse
from undrift.run.read.rows_in_order import read_first_rows
from undrift.run.read.source import Source
from undrift.stream.cells import LIMIT, Cells, Lines, is_missing
from undrift.stream.first_rows import FirstRows
from undrift.stream.schema import column_kind, counts_rows, find_time_column
from undrift.stream.settings import MixSettings

MEASURES = {"squared": ("rmse", "mae"), "absolute": ("mae", "rmse"), "quantile": ("pinball",)}
"""Measures of error by loss; the first one follows from the loss itself."""
NAMED = 8
"""Columns named in a note."""


class MixScore(NamedTuple):
    """Errors of one candidate, of the mean or median of all, or of the mix."""

    name: str
    """Column of the candidate; "mean", "median" or "mix" otherwise."""
    kind: str
    """"candidate", "combined" (mean and median) or "mix"."""
    rows: int
    """Rows that it is scored on: those with a label and a forecast of its own."""
    errors: dict[str, float | None]
    """Its errors by measure, the one that follows from the loss first; None without a row."""
    mix_error: float | None
    """The first of these measures, for the mix in the same rows."""
    weight: float | None
    """Its weight in the coming row; None for the mix."""
    cost: float | None
    """Bound on the total loss of the mix minus its own, over the labels learned; None for the mix."""


class MixResult(NamedTuple):
    """Predictions of the mix for every row of a file, and scores."""

    target: str
    """Column that is forecast."""
    model: Mix
    """The mixture after the last row."""
    lines: Lines
    """Where the rows are in the file."""
    times: Cells | None
    """Their times as in the file; None without a column of times."""
    y: Vector
    """Labels, NaN where missing."""
    yhat: Vector
    """Predictions, each made before the label of its row was known."""
    scores: tuple[MixScore, ...]
    """The candidates in order, their mean, their median, and the mix."""
    best: str
    """The best single candidate: the smallest total loss, counting the mix's loss where it has no forecast."""
    notes: tuple[str, ...]
    """What the user may want to know about the data."""

    @property
    def unlabelled(self) -> int:
        """Rows after the last label: those to come."""
        return len(self.y) - 1 - int(np.flatnonzero(~np.isnan(self.y))[-1])

    def columns(self, last: int | None = None) -> dict[str, Any]:
        """Return line, time, y and yhat of all rows or of the last ones; None for a missing label."""
        part = slice(None) if last is None else slice(len(self.y) - last, None)
        labels = [None if label != label else label for label in self.y[part].tolist()]
        time = {} if self.times is None else {"time": self.times[part]}
        return {"line": self.lines[part], **time, "y": labels, "yhat": self.yhat[part]}


class MixSource(Source):
    """A file with forecasts in its columns."""

    def leave_out(self, name: str) -> str:
        """Return how a column is left out, for an error."""
        if name in self.settings.candidate:
            return "leave it out of --candidate"
        return "name the columns to mix with --candidate"


def mix_file(path: str, settings: MixSettings) -> MixResult:
    """Mix the forecasts in a file, each row before its label is known; `path` may be "-", the standard input."""
    exact = () if settings.time is None else (settings.time,)
    source = MixSource(path, settings.reading().replace(time=None), exact=exact)
    begin, batches = read_first_rows(source)
    begin.require([settings.target], "--target")
    begin.require(exact, "--time")
    begin.require(settings.candidate, "--candidate")
    time = settings.time or _find_times(begin)
    notes = list[str]()
    names = settings.candidate or _find_candidates(begin, time, notes)
    rows = FirstRows(source, list(batches), whole=True)
    if len(rows.lines) == 1:
        raise DataError(f"{source.name} has one row; mixing needs at least two, as weights are learned row by row")
    y, Z = _numbers(rows, settings.target), np.column_stack([_numbers(rows, name) for name in names])
    _require_data(rows, y, ~np.isnan(Z).all(axis=1))
    model = Mix(settings.loss, quantile=settings.quantile, names=list(names))
    yhat = model.play(Z, y, delay=settings.delay).yhat
    scores, best = _score(model, settings, Z, y, yhat)
    notes += [*source.notes, *_notes_on_gaps(names, np.isnan(Z))]
    if settings.delay >= len(y):
        notes.append(f"no label was learned: --delay {settings.delay} is not less than the {len(y)} rows")
    times = None if time is None else _times(rows, time)
    return MixResult(settings.target, model, rows.lines, times, y, yhat, scores, names[best], tuple(notes))


def _score(model: Mix, settings: MixSettings, Z: Matrix, y: Vector, yhat: Vector) -> tuple[tuple[MixScore, ...], int]:
    """Return scores over rows with a label and a forecast, and which candidate is best."""
    scored = ~np.isnan(y) & ~np.isnan(Z).all(axis=1)
    Z, y, yhat = Z[scored], y[scored], yhat[scored]
    columns = np.column_stack([Z, np.nanmean(Z, axis=1), np.nanmedian(Z, axis=1), yhat])
    names = [*model.candidates, "mix"]
    kinds = ["candidate"] * Z.shape[1] + ["combined"] * len(COMBINED) + ["mix"]
    weights, costs = [*model.weights.tolist(), None], [*model.cost().tolist(), None]
    scores, excess = list[MixScore](), list[float]()
    for k, answer in enumerate(columns.T):
        there = ~np.isnan(answer)
        own, mixed = (_measure(settings, answers[there], y[there]) for answers in (answer, yhat))
        mix_error = next(iter(mixed.values()))
        scores.append(MixScore(names[k], kinds[k], len(y[there]), own, mix_error, weights[k], costs[k]))
        lost = model.loss.value(answer[there], y[there]) - model.loss.value(yhat[there], y[there])
        excess.append(float(lost.sum()) if there.any() else np.inf)
    return tuple(scores), int(np.argmin(excess[: Z.shape[1]]))


def _measure(settings: MixSettings, yhat: Vector, y: Vector) -> dict[str, float | None]:
    """Return the errors of forecasts by measure; None without a row."""
    measures = MEASURES[settings.loss]
    if not len(y):
        return dict.fromkeys(measures)
    if settings.quantile is not None:
        return {"pinball": pinball(yhat, y, level=settings.quantile)}
    return {name: rmse(yhat, y) if name == "rmse" else mae(yhat, y) for name in measures}


def _find_times(first: FirstRows) -> str | None:
    """Return the first column of times, or None."""
    settings = first.source.settings
    taken = {settings.target, *settings.candidate}
    return next((name for name in first.columns if name not in taken and column_kind(first, name) == "time"), None)


def _find_candidates(first: FirstRows, time: str | None, notes: list[str]) -> tuple[str, ...]:
    """Return all columns of numbers but the target, times and counters of rows, and add a note on them."""
    source = first.source
    others = [name for name in first.columns if name not in (source.settings.target, time) and first.known_cells(name)]
    found = [
        name
        for name in others
        if column_kind(first, name) == "number"
        and not counts_rows(first, name)
        and find_time_column(first, [name], [])[0] is None
    ]
    if not found:
        raise InputError(
            f"{source.name} has no column of numbers besides the target '{source.settings.target}'; "
            "add a column for each forecast"
        )
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    notes.append(f"mixing all other columns of numbers: {', '.join(found[:NAMED])}{more}; --candidate chooses others")
    return tuple(found)


def _numbers(rows: FirstRows, name: str) -> Vector:
    """Return a column as numbers, NaN where missing."""
    column = rows.numbers(name)
    large = np.flatnonzero(np.abs(column) > LIMIT)
    if len(large):
        raise DataError(
            f"{rows.source.at(int(rows.lines[large[0]]))}: '{name}' is {column[large[0]]:g}, but numbers are at most "
            f"{LIMIT:g} in size; correct the cell, or leave it empty"
        )
    return column


def _times(rows: FirstRows, name: str) -> Cells:
    """Return times as they are in the file: an array, or texts."""
    cells = rows.columns[name]
    return cells if isinstance(cells, np.ndarray) else [None if is_missing(c, rows.na) else str(c) for c in cells]


def _require_data(rows: FirstRows, y: Vector, forecast: Any) -> None:
    """Refuse a file from which nothing can be learned; `forecast` says which rows have one."""
    name, target = rows.source.name, rows.source.settings.target
    if np.isnan(y).all():
        raise DataError(f"{name}: the target '{target}' is missing in {rows.where}; is it the right column?")
    if not forecast.any():
        raise DataError(f"{name}: all candidates are missing in {rows.where}; are they the right columns?")
    if not (forecast & ~np.isnan(y)).any():
        raise DataError(f"{name}: no row has both a forecast and a value of '{target}'; nothing can be learned")


def _notes_on_gaps(names: Sequence[str], missing: Any) -> Iterator[str]:
    """Yield which candidates have no forecast at all, in how many rows all are missing, and if there is only one."""
    for name, gaps in zip(names, missing.T, strict=True):
        if gaps.all():
            yield f"'{name}' has no forecast in any row"
    empty = int(np.count_nonzero(missing.all(axis=1)))
    if empty:
        yield (
            f"{empty:,} of {len(missing):,} rows have no forecast at all; the last known label is predicted there, and "
            "these rows are not scored"
        )
    if len(names) == 1:
        yield f"'{names[0]}' is the only candidate, so the mix is equal to it"

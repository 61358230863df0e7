"""Keyed runs: a file whose rows belong to many streams, each with a model of its own."""

from __future__ import annotations

import csv
import heapq
import io
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from undrift import store
from undrift.errors import DataError, InputError
from undrift.fleet import Fleet, FleetRun, Output
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.online.base import OnlineLearner
from undrift.run.cells import Unreadable, is_missing, number, times
from undrift.run.settings import Settings
from undrift.run.source import Batch, Cells, Source

BATCH = 20_000
"""Records advanced and saved at a time."""
READ = 1000
"""Models whose memory is looked at, at most."""


@dataclass
class KeyReport:
    """How one key fared."""

    key: str
    rounds: int = 0
    loss: float = 0.0
    """Sum over rounds: half the squared error, or the log-loss."""
    naive: float = 0.0
    """The same for a naive guess: "same as last time" from the second round on, or the running base rate."""
    counts: dict[str, int] = field(default_factory=dict)
    half_life: float | None = None
    """Learned memory in rounds: short where the key drifts; None if not looked at."""
    last: float | None = None
    plus: int = 0
    """Rounds with a positive label."""

    @property
    def mean_loss(self) -> float:
        """Loss by round."""
        return self.loss / self.rounds if self.rounds else math.nan

    @property
    def skill(self) -> float:
        """Part of the naive loss that was saved; 0 is no better than the naive guess."""
        return 1.0 - self.loss / self.naive if self.naive > 0.0 else math.nan


class KeyedRun(NamedTuple):
    """What a keyed run found."""

    run: FleetRun
    """States and models by key."""
    task: str
    """regression or classification."""
    features: list[str]
    """Columns learned from."""
    left_out: list[str]
    """Columns that are no numbers."""
    keys: list[KeyReport]
    """A report for every key, the worst first."""
    problems: dict[str, int]
    """What was wrong with records, and how often."""
    bytes_per_key: float
    """Mean size of a saved state."""


def play_keyed(
    path: str,
    folder: Path,
    settings: Settings,
    *,
    key: str,
    order: str | None = None,
    wait: int = 0,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> KeyedRun:
    """Predict and learn every row of a file with the model of its key; the same call again continues.

    Writes predictions.csv and keys.csv beside the states.
    """
    source = Source(path, settings)
    digest = source.digest()
    if digest is None:
        raise InputError("undrift fleet: name a file; the standard input cannot be read twice")
    first = next(source.batches(), None)
    if first is None:
        raise DataError(f"{path} has no rows")
    columns = list(first.columns)
    for name in [key, settings.target, *filter(None, (order, settings.time)), *(settings.features or ())]:
        if name not in columns:
            raise InputError(f"column '{name}' not found; columns are {', '.join(columns)}")
    na = frozenset(settings.na)
    taken = {key, settings.target, order, settings.time, *settings.drop}
    features = list(settings.features or (name for name in columns if name not in taken))
    left_out: list[str] = []
    if settings.features is None:
        left_out = [name for name in features if not _numeric(first.columns[name], na)]
        features = [name for name in features if name not in left_out]
    if not features:
        raise InputError("no column is left to learn from; name some with --features")
    task = settings.task if settings.task != "auto" else _task(first.columns[settings.target], na)
    model = OnlineClassifier if task == "classification" else OnlineRegressor
    fleet = Fleet(
        model(speed=settings.model, seed=settings.seed),
        key=key,
        order=order or settings.time,
        features=features,
        target=settings.target,
        wait=wait,
        numbered=order is not None,
        on_error="report",
    )
    records = _records(Source(path, settings), fleet, settings.time if order is None else None, na)
    run = fleet.run(records, folder=folder, source=digest, batch=BATCH, workers=workers, progress=progress)
    return _summed(run, folder, task, left_out)


def _numeric(cells: Cells, na: frozenset[str]) -> bool:
    """Whether a column is numbers, a few bad cells aside, which will be reported one by one."""
    if isinstance(cells, np.ndarray):
        return cells.dtype.kind != "M"
    known = [number(cell) is not None for cell in cells if not is_missing(cell, na)]
    return 2 * sum(known) > len(known)


def _task(cells: Cells, na: frozenset[str]) -> str:
    values = cells.tolist() if isinstance(cells, np.ndarray) else cells
    known = {number(cell) for cell in values if not is_missing(cell, na)}
    return "classification" if known in ({0.0, 1.0}, {-1.0, 1.0}) else "regression"


def _records(source: Source, fleet: Fleet, time: str | None, na: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield rows as mappings; what is no number stays as it is, and is reported as such."""
    done, limit = 0, source.settings.limit
    for batch in source.batches():
        columns = _columns(source, batch, fleet, time, na)
        for values in zip(*columns.values(), strict=True):
            if limit is not None and done >= limit:
                return
            done += 1
            yield dict(zip(columns, values, strict=True))


def _columns(source: Source, batch: Batch, fleet: Fleet, time: str | None, na: frozenset[str]) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {}
    for name in fleet.fields.names:
        cells = batch.columns[name]
        if name == fleet.fields.key:
            out[name] = [_name(cell, na) for cell in (cells.tolist() if isinstance(cells, np.ndarray) else cells)]
        elif name == time:
            try:
                stamps = times(cells, source.settings.time_format or "iso", na)
            except Unreadable as bad:
                where = source.at(int(batch.lines[bad.row]))
                raise DataError(f"{where}: {bad.cell!r} in '{name}' is not a time; pass --time-format") from None
            out[name] = [None if np.isnat(one) else int(one.astype(np.int64)) for one in stamps]
        elif isinstance(cells, np.ndarray):
            out[name] = cells.astype(np.float64).tolist() if cells.dtype.kind != "M" else [str(one) for one in cells]
        else:
            out[name] = [_value(cell, na) for cell in cells]
    return out


def _name(cell: object, na: frozenset[str]) -> str | None:
    if is_missing(cell, na):
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _value(cell: object, na: frozenset[str]) -> object:
    if is_missing(cell, na):
        return None
    found = number(cell)
    return cell if found is None else found


def _summed(run: FleetRun, folder: Path, task: str, left_out: list[str]) -> KeyedRun:
    """Go through the outputs once: write them, add up by key."""
    reports: dict[Any, KeyReport] = {}
    problems: dict[str, int] = {}
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(Output._fields)
    for row in run.outputs:
        writer.writerow(["" if value is None else value for value in row])
        report = reports.setdefault(row.key, KeyReport("" if row.key is None else str(row.key)))
        report.counts[row.status] = report.counts.get(row.status, 0) + 1
        if row.status not in ("ok", "labelled", "predicted"):
            what = f"{row.status}: {row.reason}" if row.status in ("poison", "error") else row.status
            problems[what] = problems.get(what, 0) + 1
        if row.prediction is not None and row.target is not None:
            _score(report, row.prediction, row.target, task)
    store.replace(folder / "predictions.csv", text.getvalue().encode())
    ordered = sorted((one for key, one in reports.items() if key is not None), key=lambda one: (_rank(one), one.key))
    for one in heapq.nlargest(READ, ordered, key=lambda one: one.rounds):
        model = run.model(one.key)
        if isinstance(model, OnlineLearner) and model.rounds:
            spectrum = model.spectrum()
            rate = float(np.sum(spectrum.weights / spectrum.half_lives))  # what the weights amount to
            one.half_life = 1.0 / rate if rate else math.inf
    _write_keys(folder / "keys.csv", ordered)
    some = [len(run.states[one.key]) for one in ordered[:READ]]
    features = list(run.fleet.fields.features)
    return KeyedRun(run, task, features, left_out, ordered, problems, sum(some) / max(1, len(some)))


def _score(report: KeyReport, yhat: float, y: float, task: str) -> None:
    if task == "classification":
        report.loss += float(np.logaddexp(0.0, -yhat if y > 0.0 else yhat))
        alike = report.plus if y > 0.0 else report.rounds - report.plus
        report.naive -= math.log((alike + 1.0) / (report.rounds + 2.0))
        report.plus += y > 0.0
    else:
        report.loss += 0.5 * (yhat - y) ** 2
        report.naive += 0.0 if report.last is None else 0.5 * (y - report.last) ** 2
    report.rounds += 1
    report.last = y


def _rank(report: KeyReport) -> float:
    """Worst first: least skill; keys without a score last."""
    return math.inf if math.isnan(report.skill) else report.skill


def _write_keys(path: str | os.PathLike[str], reports: list[KeyReport]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["key", "rounds", "mean_loss", "skill", "half_life", "problems"])
    for one in reports:
        bad = sum(n for status, n in one.counts.items() if status not in ("ok", "labelled", "predicted"))
        memory = "" if one.half_life is None else one.half_life
        writer.writerow([one.key, one.rounds, one.mean_loss, one.skill, memory, bad])
    store.replace(path, text.getvalue().encode())

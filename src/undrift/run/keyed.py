"""Keyed runs: a file whose rows belong to many streams, each with a model of its own."""

from __future__ import annotations

import csv
import heapq
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import undrift
from undrift import kernels, store
from undrift.errors import DataError, InputError
from undrift.fleet import Fleet, FleetRun, Output
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.online.base import OnlineLearner
from undrift.run.cells import is_missing, number
from undrift.run.data import BASELINES, Words
from undrift.run.formulas import escape_formula
from undrift.run.records import batches
from undrift.run.settings import Settings
from undrift.run.source import Cells, Source
from undrift.run.tally import LONG, Age, KeyReport, Problem, tally

BATCH, FEWEST, CELLS = 500_000, 50_000, 10_000_000
"""Records advanced and saved at a time: as many as leave a key several, fewer if they have many features."""
PIECE = 10_000
"""Rows of a table written at a time."""
READ = 5000
"""Models whose memory is looked at, at most."""
USED = ("target", "time", "features", "drop", "task", "model", "na", "limit", "seed")
"""Settings that keyed runs have."""


class KeyedRun(NamedTuple):
    """What a keyed run found."""

    run: FleetRun
    """States and models by key."""
    provenance: Words
    """Versions, kernel level, source (path, size, sha256), and the settings."""
    task: str
    """regression or classification."""
    left_out: list[str]
    """Columns that are no numbers."""
    keys: list[KeyReport]
    """A report for every key, the worst first."""
    problems: list[Problem]
    """What was wrong with records, the most frequent first."""
    ages: list[Age]
    """Losses by how many rows a key had seen."""
    bytes_per_key: float
    """Mean size of a saved state."""

    @property
    def features(self) -> list[str]:
        """Columns learned from."""
        return list(self.run.fleet.fields.features)

    @property
    def worst(self) -> list[KeyReport]:
        """Keys with a score over 20 rounds or more, if any has, the worst first: in few rounds it is chance."""
        scored = [one for one in self.keys if not math.isnan(one.skill)]
        return [one for one in scored if one.scored >= LONG] or scored

    @property
    def rounds(self) -> int:
        """Rounds of all keys."""
        return sum(one.rounds for one in self.keys)


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
    records = batches(Source(path, settings), fleet, settings.time if order is None else None, na)
    size = max(FEWEST, min(BATCH, CELLS // len(features)))
    run = fleet.run(records, folder=folder, source=digest, batch=size, workers=workers, progress=progress)
    asked = settings.as_dict()
    provenance = {
        "undrift": undrift.__version__,
        "kernels": kernels.level(),
        "source": {"path": source.name, "size": source.size, "sha256": digest},
        "settings": {"key": key, "order": order, "wait": wait, **{name: asked[name] for name in USED if name in asked}},
    }
    return _summed(run, folder, provenance, task, left_out)


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


def _summed(run: FleetRun, folder: Path, provenance: Words, task: str, left_out: list[str]) -> KeyedRun:
    """Write the outputs and what they amount to by key."""
    outputs = run.outputs
    _write(folder / "predictions.csv", Output._fields, (["" if x is None else x for x in row] for row in outputs))
    found = tally(outputs, task)
    looked_at = {one.key: one for one in heapq.nlargest(READ, found.keys, key=KeyReport.draw)}
    for key, model in run.each(list(looked_at)):
        one = looked_at[key]
        if isinstance(model, OnlineLearner) and model.rounds:
            spectrum = model.spectrum()
            rate = float(np.sum(spectrum.weights / spectrum.half_lives))  # what the weights amount to
            one.half_life = 1.0 / rate if rate else math.inf
    naives = [name.replace(" ", "_") for name in BASELINES[task]]
    names = ["key", "rounds", "mean_loss", *naives, "skill", "half_life", "before", "lately", "problems"]
    _write(folder / "keys.csv", names, map(_row, found.keys))
    some = [len(run.states[one.key]) for one in found.keys[:1000]]
    size = sum(some) / max(1, len(some))
    return KeyedRun(run, provenance, task, left_out, found.keys, found.problems, found.ages, size)


def _row(one: KeyReport) -> list[Any]:
    """Return a line of keys.csv; the naive guesses' losses are means too."""
    naives = [total / one.scored if one.scored else math.nan for total in one.naives or (math.nan, math.nan)]
    memory = "" if one.half_life is None else one.half_life
    return [one.key, one.rounds, one.mean_loss, *naives, one.skill, memory, one.before, one.lately, one.problems]


def _write(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    store.replace(path, _csv(chain([names], rows)))


def _csv(rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Yield a CSV file some rows at a time."""
    left = iter(rows)
    while some := list(islice(left, PIECE)):
        text = io.StringIO()
        csv.writer(text).writerows([[escape_formula(cell) for cell in row] for row in some])
        yield text.getvalue().encode()

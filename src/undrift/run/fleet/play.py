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
from undrift import kernels
from undrift._typing import JsonObject
from undrift.baselines import BASELINES
from undrift.errors import DataError, InputError
from undrift.fleet import FleetRun, Output
from undrift.fleet.state_store import FleetMismatchError
from undrift.folder import Folder
from undrift.online.base import OnlineLearner
from undrift.run.fleet.columns import FleetColumns, infer_fleet_columns
from undrift.run.fleet.key_reports import MIN_SCORED, AgeLosses, KeyReport, RecordProblem, summarize_keys
from undrift.run.fleet.records import RecordReader
from undrift.run.read.source import Source
from undrift.run.settings import Settings
from undrift.run.write.formulas import escape_formula
from undrift.stopping import Stop

BATCH, FEWEST, CELLS = 500_000, 50_000, 10_000_000
"""Records advanced and saved at a time: as many as leave a key several, fewer if they have many features."""
PIECE = 10_000
"""Rows of a table written at a time."""
READ = 5000
"""Models whose memory is looked at, at most."""
PREDICTIONS, KEYS, REPORT = WRITTEN = ("predictions.csv", "keys.csv", "report.html")
"""Files of a fleet beside its states."""
DECIDING = ("na", "time_format", "encoding", "delimiter", "format", "limit", "task", "positive")
"""Settings that decide about the results and that neither the model nor its columns show."""
USED = ("target", "time", "features", "drop", "task", "positive", "model", "na", "limit", "seed")
"""Settings that keyed runs have."""


class FleetResult(NamedTuple):
    """What a keyed run found."""

    run: FleetRun
    """States and models by key."""
    provenance: JsonObject
    """Versions, kernel level, source (path, size, sha256), and the settings."""
    task: str
    """regression or classification."""
    left_out: list[str]
    """Columns that are no numbers."""
    keys: list[KeyReport]
    """A report for every key, the worst first."""
    problems: list[RecordProblem]
    """What was wrong with records, the most frequent first."""
    ages: list[AgeLosses]
    """Losses by how many rows a key had seen."""
    bytes_per_key: float
    """Mean size of a saved state."""
    classes: tuple[str, ...] | None = None
    """The two labels, the negative one first; None for numbers."""

    @property
    def features(self) -> list[str]:
        """Columns learned from."""
        return list(self.run.fleet.fields.features)

    @property
    def worst(self) -> list[KeyReport]:
        """Keys with a score over 20 rounds or more, if any has, the worst first: in few rounds it is chance."""
        scored = [one for one in self.keys if not math.isnan(one.skill)]
        return [one for one in scored if one.scored >= MIN_SCORED] or scored

    @property
    def rounds(self) -> int:
        """Rounds of all keys."""
        return sum(one.rounds for one in self.keys)


def play_fleet(
    path: str,
    folder: str | Path,
    settings: Settings,
    *,
    key: str,
    order: str | None = None,
    wait: str = "0",
    force: bool = False,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
    report: Callable[[FleetResult, Path], object] | None = None,
    stop: Stop | None = None,
) -> FleetResult:
    """Predict and learn every row of a file with the model of its key; the same call again continues.

    Parameters
    ----------
    path
        A CSV (also .gz, .zst), Parquet or NDJSON file.
    folder
        Folder of the fleet: the states, predictions.csv and keys.csv. One process at a time writes there.
    settings
        What to predict, and how.
    key
        Column that says which stream a row is of.
    order
        Column of integers that says a row's place in its stream; None: `settings.time`, or the order of the file.
    wait
        How late a row may come: a number of orders, or for times a duration such as "90s", "15m", "2h", "1d".
    force
        Replace the fleet that is there, once the first batch of the new one is learned.
    workers
        Threads.
    progress
        Called with the number of rows that are saved.
    report
        Writes report.html at the path it is given.
    stop
        A wish to stop, which raises `Interrupted` in the middle of anything: what is saved stays whole.

    Returns
    -------
    KeyedRun
        What was found.
    """
    with (stop or Stop()).waiting():
        source = Source(path, settings, exact=filter(None, (key, order, settings.time)))
        digest = source.digest()
        if digest is None:
            raise InputError("undrift fleet: name a file; the standard input cannot be read twice")
        plan = infer_fleet_columns(source, key, order, wait)
        place = Folder(folder, "fleet")
        with place.locked():
            place.refuse_foreign(WRITTEN)
            run = _played(source, digest, place, plan, force, workers, progress)
            asked = settings.as_dict()
            words = {"key": key, "order": order, "wait": wait, **{name: asked[name] for name in USED if name in asked}}
            provenance = {
                "undrift": undrift.__version__,
                "kernels": kernels.level(),
                "source": {"path": source.name, "size": source.size, "sha256": digest},
                "settings": words,
            }
            found = _summed(run, place, provenance, plan)
            if not found.rounds:
                worst = found.problems[0] if found.problems else None
                why = "" if worst is None else f"; most often ({worst.count} rows) because: {worst.text}"
                raise DataError(f"{source.name}: no row could be learned{why}; {place.path} has predictions.csv")
            if report is not None:
                with place.new(REPORT) as temporary:
                    report(found, temporary)
    return found


def _played(
    source: Source,
    digest: str,
    place: Folder,
    plan: FleetColumns,
    force: bool,
    workers: int,
    progress: Callable[[int], None] | None,
) -> FleetRun:
    """Play the rows that are not learned yet; refuse a folder of another file or with other settings."""
    settings = source.settings
    classes = None if plan.classes is None else list(plan.classes)
    rows = RecordReader(plan.fleet, plan.clock, classes, frozenset(settings.na))
    asked = settings.as_dict()
    about = {name: asked.get(name) for name in DECIDING} | {
        "file": digest,
        "classes": plan.classes,
        "clock": plan.clock,
    }
    size = max(FEWEST, min(BATCH, CELLS // len(plan.fleet.fields.features)))
    try:
        return plan.fleet.run(
            rows.batches(source),
            folder=place,
            source=digest,
            about=about,
            replace=force,
            finish=True,
            batch=size,
            workers=workers,
            progress=progress,
        )
    except FleetMismatchError as other:
        instead = "replace it with --force, or choose another folder with --out"
        if other.name == "file":
            what = "the fleet of another file, or of this one before it changed"
            raise InputError(f"{place.path}: {what}; {instead}") from None
        raise InputError(
            f"{place.path}: this fleet has {other.name} = {other.then!r:.60}, not {other.now!r:.60}; "
            f"use the same settings to continue it, {instead}"
        ) from None


def _summed(run: FleetRun, place: Folder, provenance: JsonObject, plan: FleetColumns) -> FleetResult:
    """Write the outputs and what they amount to by key."""
    outputs = run.outputs
    rows = (["" if x is None else x for x in row] for row in outputs)
    place.put(PREDICTIONS, _csv(chain([Output._fields], rows)))
    found = summarize_keys(outputs, plan.task)
    looked_at = {one.key: one for one in heapq.nlargest(READ, found.keys, key=KeyReport.draw)}
    for key, model in run.iter_models(list(looked_at)):
        one = looked_at[key]
        if isinstance(model, OnlineLearner) and model.rounds:
            spectrum = model.spectrum()
            rate = float(np.sum(spectrum.weights / spectrum.half_lives))  # what the weights amount to
            one.half_life = 1.0 / rate if rate else math.inf
    naives = [name.replace(" ", "_") for name in BASELINES[plan.task]]
    names = ["key", "rounds", "mean_loss", *naives, "skill", "half_life", "before", "lately", "problems"]
    place.put(KEYS, _csv(chain([names], map(_row, found.keys))))
    some = [len(run.states[one.key]) for one in found.keys[:1000]]
    size = sum(some) / max(1, len(some))
    columns = plan.task, plan.left_out
    return FleetResult(run, provenance, *columns, found.keys, found.problems, found.ages, size, plan.classes)


def _row(one: KeyReport) -> list[Any]:
    """Return a line of keys.csv; the naive guesses' losses are means too."""
    naives = [total / one.scored if one.scored else math.nan for total in one.naives or (math.nan, math.nan)]
    memory = "" if one.half_life is None else one.half_life
    return [one.key, one.rounds, one.mean_loss, *naives, one.skill, memory, one.before, one.lately, one.problems]


def _csv(rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Yield a CSV file some rows at a time."""
    left = iter(rows)
    while some := list(islice(left, PIECE)):
        text = io.StringIO()
        csv.writer(text).writerows([[escape_formula(cell) for cell in row] for row in some])
        yield text.getvalue().encode()

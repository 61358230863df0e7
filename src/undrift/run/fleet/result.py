"""What a fleet over a file found, and the tables it leaves: predictions.csv and keys.csv."""

from __future__ import annotations

import csv
import heapq
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._internal.folder import Folder
from undrift._typing import JsonObject, Vector
from undrift.events import Event
from undrift.fleet import Fleet, FleetRun, Output
from undrift.losses import sigmoid
from undrift.online.estimator import OnlineEstimator
from undrift.run.fleet.key_reports import (
    MIN_SCORED,
    AgeLosses,
    KeyReport,
    RecordProblem,
    error_of,
    find_events,
    summarize_keys,
)
from undrift.run.fleet.plan import FleetPlan
from undrift.run.ledger import LedgerEntry
from undrift.run.tables import escape_formula
from undrift.stream.answers import probability_column, quantile_column
from undrift.stream.keyed.keys_and_orders import split_key
from undrift.stream.keyed.outputs import PREDICTED, Outputs

PIECE_ROWS = 10_000
"""Rows of a table written at a time."""
MOST_MODELS = 5000
"""Models that are opened to read their learned half-life, at most."""
PREDICTIONS, KEYS = "predictions.csv", "keys.csv"


class FleetResult(NamedTuple):
    """What a fleet over a file found."""

    run: FleetRun
    """States and models by key."""
    provenance: JsonObject
    """Versions, kernel level, and the settings."""
    learned: Sequence[LedgerEntry]
    """The ledger: what was learned, in order."""
    task: str
    """regression, classification or multiclass."""
    left_out: list[str]
    """Columns that nothing is learned from."""
    keys: list[KeyReport]
    """A report for every key, the worst first."""
    problems: list[RecordProblem]
    """What was wrong with records, the most frequent first."""
    ages: list[AgeLosses]
    """Losses by how many rows a key had seen."""
    bytes_per_key: float
    """Mean size of a saved state."""
    classes: tuple[str, ...] | None = None
    """The two labels, the negative one first, or several in order of appearance; None for numbers."""
    time_unit: str | None = None
    """What orders that are times count in; None: they are no times."""
    warnings: Sequence[str] = ()
    """Sentences about the file that was learned last, for the user to hear at once."""

    baselines: Sequence[str] = ()
    """Names of the naive guesses, in the order of each key's losses of them."""
    events: Sequence[Event] | None = None
    """What changed, by the rows of predictions.csv; None: nobody looked."""
    new_events: int = 0
    """How many of them are of the file that was learned last."""
    withheld: int = 0
    """With intervals: rows that were predicted without one, as no label was learned since the row before them."""

    @property
    def features(self) -> list[str]:
        """Columns learned from."""
        return self.run.fleet.features

    @property
    def worst(self) -> list[KeyReport]:
        """Keys with a score over 20 rounds or more, if any has, the worst first: in few rounds it is chance."""
        scored = [one for one in self.keys if not math.isnan(one.skill)]
        return [one for one in scored if one.scored >= MIN_SCORED] or scored

    @property
    def coverage(self) -> float:
        """Part of the labels of all keys that lay inside their intervals; NaN where there is none."""
        judged = sum(one.judged for one in self.keys)
        return sum(one.inside for one in self.keys) / judged if judged else math.nan

    @property
    def rounds(self) -> int:
        """Rounds of all keys."""
        return sum(one.rounds for one in self.keys)


def write_result(run: FleetRun, folder: Folder, provenance: JsonObject, plan: FleetPlan) -> FleetResult:
    """Write predictions.csv and keys.csv, and return what the fleet found."""
    fleet = plan.fleet
    outputs = run.all_outputs()
    labels = fleet.classes if fleet.binary else None
    shown = outputs if labels is None else (_name_classes(row, labels) for row in outputs)
    rows: Iterable[Sequence[Any]] = (["" if x is None else x for x in row] for row in shown)
    columns: dict[str, Iterable[Any]] = {}
    if labels is not None:
        chances = sigmoid(-outputs.prediction), sigmoid(outputs.prediction)
        columns |= dict(zip(map(probability_column, labels), map(_or_empty, chances), strict=True))
    for name in _extra_names(fleet, outputs):
        columns[name] = _or_empty(outputs.extra(name))
    unit = None if fleet.time is None else fleet.time.unit
    if unit is not None:
        columns["time"] = _time_texts(outputs.order, unit)
    if len(fleet.fields.key) > 1:
        texts = [split_key(key, len(fleet.fields.key)) for key in outputs.keys]
        columns |= {name: [text[k] for text in texts] for k, name in enumerate(fleet.fields.key)}
    names = [*Output._fields, *columns]
    rows = (
        ([*row, *more] for row, more in zip(rows, zip(*columns.values(), strict=True), strict=True))
        if columns
        else rows
    )
    folder.put(PREDICTIONS, _csv_pieces(chain([names], rows)))
    found = summarize_keys(outputs, fleet.schema.task, fleet.settings.lag, unit)
    opened = {one.key: one for one in heapq.nlargest(MOST_MODELS, found.keys, key=KeyReport.sampling_key)}
    for key, model in run.iter_models(list(opened)):
        if isinstance(model, OnlineEstimator) and model.rounds:
            spectrum = model.spectrum()
            rate = float(np.sum(spectrum.weights / spectrum.half_lives))  # mean forgetting by round, in half-lives
            opened[key].half_life = 1.0 / rate if rate else math.inf
    naives = [name.replace(" ", "_") for name in found.baselines]
    names = ["key", "rounds", "mean_loss", *naives, "skill", "half_life", "before", "lately", "problems"]
    names.append("rmse" if fleet.schema.task == "regression" else "log_loss")
    lines: Iterable[Sequence[Any]]
    lines = ([*_key_row(one, len(naives)), error_of(one.mean_loss, fleet.schema.task)] for one in found.keys)
    if fleet.interval is not None:
        names.append("coverage")
        lines = ([*line, one.coverage] for line, one in zip(lines, found.keys, strict=True))
    folder.put(KEYS, _csv_pieces(chain([names], lines)))
    some = [len(run.states[one.key]) for one in found.keys[:1000]]
    size = sum(some) / max(1, len(some))
    classes = outputs.classes if fleet.several else fleet.classes
    parts = found.keys, found.problems, found.ages, size, None if classes is None else tuple(classes), unit
    task, left_out = fleet.schema.task, list(plan.left_out)
    done = FleetResult(run, provenance, plan.learned, task, left_out, *parts, baselines=found.baselines)
    if plan.settings.alert:
        events = find_events(outputs, task, 0.9 if fleet.interval is None else fleet.interval)
        done = done._replace(events=events, new_events=len(events) - len(plan.events or ()))
    return done if fleet.interval is None else done._replace(withheld=_count_withheld(outputs))


def _extra_names(fleet: Fleet, outputs: Outputs) -> list[str]:
    """Return the columns beside predictions: those that were asked for, and those that some row has."""
    asked = [
        *(["lower", "upper"] if fleet.interval is not None else []),
        *map(quantile_column, fleet.settings.quantiles),
    ]
    return list(dict.fromkeys([*asked, *outputs.extras]))


def _or_empty(numbers: Vector) -> Iterable[Any]:
    """Return numbers as cells, empty where there is none."""
    return ("" if x != x else x for x in numbers.tolist())


def _count_withheld(outputs: Outputs) -> int:
    """Return how many rows without a label were predicted without an interval."""
    bare = (outputs.status == PREDICTED) & ~np.isnan(outputs.prediction) & np.isnan(outputs.intervals()).any(axis=1)
    return int(np.count_nonzero(bare))


def _name_classes(row: Output, labels: Sequence[str]) -> list[Any]:
    """Return a row with labels for its log-odds and for the number of its class."""
    predicted = None if row.prediction is None else labels[int(float(row.prediction) > 0.0)]
    target = None if row.target is None else labels[int(row.target)]
    return [row.key, row.order, predicted, target, row.status, row.reason]


def _key_row(one: KeyReport, guesses: int) -> list[Any]:
    """Return a line of keys.csv; all losses in it are means, and there are so many naive guesses."""
    naives = [total / one.scored if one.scored else math.nan for total in one.naives or [math.nan] * guesses]
    memory = "" if one.half_life is None else one.half_life
    return [one.key, one.rounds, one.mean_loss, *naives, one.skill, memory, one.before, one.lately, one.problems]


def _time_texts(orders: NDArray[np.int64], unit: str) -> Iterator[str]:
    """Yield the times that orders count, as ISO 8601; nothing where there is none."""
    for a in range(0, len(orders), PIECE_ROWS):
        times = orders[a : a + PIECE_ROWS].view(f"datetime64[{unit}]")
        yield from ("" if text == "NaT" else text for text in np.datetime_as_string(times).tolist())


def _csv_pieces(rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Yield a CSV file some rows at a time."""
    left = iter(rows)
    while some := list(islice(left, PIECE_ROWS)):
        text = io.StringIO()
        csv.writer(text).writerows([["" if cell != cell else escape_formula(cell) for cell in row] for row in some])
        yield text.getvalue().encode()

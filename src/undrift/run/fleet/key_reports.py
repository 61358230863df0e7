"""What a fleet's outputs amount to: key by key, problem by problem, and by how many rows a key had seen."""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.baselines import ClassBaselines, baseline_names, grouped_baselines
from undrift.events import Event, KeyedWatch
from undrift.losses import sigmoid
from undrift.metrics import class_losses, round_losses
from undrift.stream.answers import probability_column
from undrift.stream.calendar import find_seasons
from undrift.stream.keyed.outputs import LABELLED, OK, PREDICTED, STATUSES, Outputs

MOST_PROBLEMS = 10_000
"""Different problems that are counted apart, at most."""
EXAMPLES = 5
"""Keys named for each problem."""
MIN_SCORED = 20
"""Scored rounds from which a key's numbers say something, and its last quarter is held against the two before."""


@dataclass
class KeyReport:
    """Scores of one key; rounds before which no label was known are not scored."""

    key: str
    rounds: int = 0
    """Rounds learned."""
    scored: int = 0
    """Rounds that are scored."""
    loss: float = 0.0
    """Sum over the scored rounds: half the squared error, or the log-loss."""
    naives: tuple[float, ...] = ()
    """The same for the naive guesses, in the order of `FleetSummary.baselines`."""
    counts: dict[str, int] = field(default_factory=dict)
    """How many records ended as what."""
    before: float = math.nan
    """Mean loss of its rounds between the first and the last quarter; NaN where fewer than 20 are scored."""
    lately: float = math.nan
    """Mean loss of the last quarter."""
    change: float = math.nan
    """How clearly larger losses are lately, by their ranks, in standard errors; negative where they are smaller."""
    judged: int = 0
    """Rounds that had an interval before their label came."""
    inside: int = 0
    """Those of them whose label lay inside it."""
    half_life: float | None = None
    """Learned memory in rounds: short where the key drifts; None if its model was not opened."""

    def sampling_key(self) -> tuple[int, int]:
        """Return what sorts keys by rounds and, among equals, as good as at random, so that the first are no choice."""
        return self.rounds, zlib.crc32(self.key.encode("utf-8", "surrogatepass"))

    @property
    def mean_loss(self) -> float:
        """Loss by round."""
        return self.loss / self.scored if self.scored else math.nan

    @property
    def coverage(self) -> float:
        """Part of the labels that lay inside their intervals; NaN where there is none."""
        return self.inside / self.judged if self.judged else math.nan

    @cached_property
    def naive(self) -> float:
        """Loss of the naive guess that did best on this key."""
        return min(self.naives, default=math.nan)

    @cached_property
    def skill(self) -> float:
        """Part of that loss that was saved; 0 is no better than the naive guess."""
        return 1.0 - self.loss / self.naive if self.naive > 0.0 else math.nan

    @cached_property
    def problems(self) -> int:
        """Records that were not simply predicted or learned."""
        fine = (STATUSES[OK], STATUSES[LABELLED], STATUSES[PREDICTED])
        return sum(n for status, n in self.counts.items() if status not in fine)


@dataclass
class RecordProblem:
    """One thing that was wrong with records."""

    status: str
    """What became of them: poison, error, duplicate, late, gap, expired."""
    reason: str
    """What was wrong, where there is something to explain."""
    count: int = 0
    """Records."""
    keys: int = 0
    """Keys they are of."""
    examples: list[str] = field(default_factory=list)
    """Some of these keys."""

    @property
    def text(self) -> str:
        """Status and reason in one line."""
        return f"{self.status}: {self.reason}" if self.reason else self.status


class AgeLosses(NamedTuple):
    """Rounds of all keys that had seen about as many rows."""

    first: int
    """Rows seen before, the fewest."""
    last: int
    """The most."""
    keys: int
    """Keys that were as old."""
    losses: tuple[float, ...]
    """Mean loss where 1 is the mean of the naive guess that did best on the key: ours, then the naive guesses'."""


class FleetSummary(NamedTuple):
    """The outputs of a fleet, summed up."""

    keys: list[KeyReport]
    """The worst first: least skill, then keys without a score."""
    problems: list[RecordProblem]
    """The most frequent first."""
    ages: list[AgeLosses]
    """The youngest first."""
    baselines: list[str]
    """Names of the naive guesses."""


def error_of(mean_loss: float, task: str) -> float:
    """Return a mean loss as people read it: the root mean squared error, or the log-loss."""
    return math.sqrt(2.0 * mean_loss) if task == "regression" else mean_loss


def summarize_keys(outputs: Outputs, task: str, lags: Sequence[int] = (), time_unit: str | None = None) -> FleetSummary:
    """Sum up the outputs of a fleet: by key, by problem, and by how many rows a key had seen.

    Naive guesses repeat labels of so many rows ago that are features, `lags`, and those of a day and a week ago where
    orders are regular times.
    """
    index: dict[Any, int] = {}
    codes = np.fromiter((index.setdefault(key, len(index)) for key in outputs.keys), np.int64, len(outputs))
    reports = [KeyReport("" if key is None else str(key)) for key in index]
    pairs, numbers = np.unique(codes * len(STATUSES) + outputs.status, return_counts=True)
    for pair, n in zip(pairs.tolist(), numbers.tolist(), strict=True):
        code, status = divmod(pair, len(STATUSES))
        reports[code].counts[STATUSES[status]] = n
    rows = np.flatnonzero(np.isin(outputs.status, (OK, LABELLED)))
    rows = rows[np.argsort(codes[rows], kind="stable")]
    seasons = () if time_unit is None else _find_seasons(codes[rows], outputs.order[rows], time_unit)
    most = int(np.bincount(codes[rows]).max(initial=0))
    repeated = sorted({lag for lag in (*lags, *seasons) if 1 < lag < most})
    ages = _score_keys(reports, codes, outputs, task, rows, repeated)
    named = [report for key, report in zip(index, reports, strict=True) if key is not None]
    worst_first = sorted(named, key=lambda report: (_sort_key(report), report.key))
    return FleetSummary(worst_first, _count_problems(outputs), ages, baseline_names(task, repeated))


def find_events(outputs: Outputs, task: str, level: float) -> list[Event]:
    """Return what changed, by the rows of predictions.csv: errors of each key, and the coverage of its intervals.

    False alarms are 5,000 rows apart or more on average, those of all keys counted together.
    """
    what = "the predicted class" if task == "multiclass" else "the positive label"
    watch, found = KeyedWatch(level=level, binary=task != "regression", what=what), list[Event]()
    rows = np.flatnonzero(np.isin(outputs.status, (OK, LABELLED)) & ~np.isnan(outputs.prediction))
    y, yhat = outputs.target[rows], outputs.prediction[rows]
    if task == "multiclass":  # whether the likeliest class came, and its probability
        shares = [outputs.extra(probability_column(label))[rows] for label in outputs.classes]
        y, yhat = (y == yhat).astype(np.float64), np.fmax.reduce(shares, initial=0.0)
    elif task == "classification":
        y, yhat = (y > 0.0).astype(np.float64), sigmoid(yhat)
    ends = outputs.intervals()[rows].tolist()
    for row, label, shown, (low, high) in zip(rows.tolist(), y.tolist(), yhat.tolist(), ends, strict=True):
        interval = (low, high) if low == low else (None, None)
        found += watch.add_round(outputs.keys[row], row + 1, label, shown, *interval)
    return found


def _find_seasons(codes: NDArray[np.int64], times: NDArray[np.int64], unit: str) -> tuple[int, ...]:
    """Return how many rows of a key a day and a week have, from rows sorted by key."""
    steps = np.diff(times.view(f"datetime64[{unit}]"))[codes[1:] == codes[:-1]]
    return find_seasons(np.asarray(steps / np.timedelta64(1, "s")))


def _sort_key(report: KeyReport) -> float:
    return math.inf if math.isnan(report.skill) else report.skill


def _count_problems(outputs: Outputs) -> list[RecordProblem]:
    found: dict[tuple[int, str], RecordProblem] = {}
    keys: defaultdict[tuple[int, str], set[Any]] = defaultdict(set)
    for i in np.flatnonzero(~np.isin(outputs.status, (OK, LABELLED, PREDICTED))).tolist():
        status = int(outputs.status[i])
        reason = outputs.reasons.get(i, "") if STATUSES[status] in ("poison", "error") else ""
        what = (status, reason if (status, reason) in found or len(found) < MOST_PROBLEMS else "other reasons")
        one = found.setdefault(what, RecordProblem(STATUSES[status], what[1]))
        key = outputs.keys[i]
        one.count += 1
        if key is not None and key not in keys[what]:
            keys[what].add(key)
            one.keys += 1
            if len(one.examples) < EXAMPLES:
                one.examples.append(str(key))
    return sorted(found.values(), key=lambda one: (-one.count, one.text))


def _score_keys(
    reports: list[KeyReport],
    codes: NDArray[np.int64],
    outputs: Outputs,
    task: str,
    rows: NDArray[np.int64],
    lags: Sequence[int],
) -> list[AgeLosses]:
    """Fill in rounds, losses and recent change of each report from the learned rows; return the losses by rows seen."""
    if not len(rows):
        return []
    code, y, yhat = codes[rows], outputs.target[rows], outputs.prediction[rows]
    starts = np.flatnonzero(np.concatenate(([True], code[1:] != code[:-1])))
    sizes = np.diff(np.append(starts, len(rows)))
    age = np.arange(len(rows)) - np.repeat(starts, sizes)
    scored = ~np.isnan(yhat)
    scored[starts] = False
    if task == "multiclass":
        losses = _class_losses(outputs, rows, starts, lags)
    else:
        binary = task == "classification"
        guesses = grouped_baselines(y, starts, binary=binary, lags=lags)
        served = np.where(scored, yhat, 0.0)
        losses = np.array([round_losses(one, y, binary=binary) for one in (served, *guesses)])
    losses[:, ~scored] = 0.0
    sums, counts = np.add.reduceat(losses, starts, axis=1), np.add.reduceat(scored.astype(np.int64), starts)
    lower, upper = outputs.intervals()[rows].T
    held = np.array([np.isfinite(lower) & np.isfinite(upper), (lower <= y) & (y <= upper)], np.int64)
    judged, inside = np.add.reduceat(held, starts, axis=1)
    for k, at in enumerate(starts.tolist()):
        report = reports[int(code[at])]
        report.judged, report.inside = int(judged[k]), int(inside[k])
        report.rounds, report.scored, report.loss = int(sizes[k]), int(counts[k]), float(sums[0, k])
        report.naives = tuple(sums[1:, k].tolist())
        if report.scored >= MIN_SCORED:
            own = slice(at, at + report.rounds)
            _compare_quarters(report, losses[0, own][scored[own]])
    usual = np.repeat(sums[1:].min(axis=0) / np.maximum(counts, 1), sizes)
    return _losses_by_age(losses[:, scored], age[scored], usual[scored])


def _class_losses(outputs: Outputs, rows: NDArray[np.int64], starts: NDArray[np.int64], lags: Sequence[int]) -> Matrix:
    """Return the log-losses of several classes: ours, then those of the naive guesses of each key."""
    shares = np.column_stack([outputs.extra(probability_column(label))[rows] for label in outputs.classes])
    y = outputs.target[rows]
    guesses = [np.full(shares.shape, np.nan) for _ in baseline_names("multiclass", lags)]
    for a, b in zip(starts, np.append(starts[1:], len(rows)), strict=True):
        for whole, own in zip(guesses, ClassBaselines(lags=lags).play(y[a:b], shares.shape[1]), strict=True):
            whole[a:b] = own
    return np.array([class_losses(p, y) for p in (shares, *guesses)])


def _compare_quarters(report: KeyReport, loss: Vector) -> None:
    """Compare the last quarter with the two before: by means, and by the rank-sum test, which no outlier can bend."""
    quarter = len(loss) // 4
    both = loss[quarter:]
    old, new = both[:-quarter], both[-quarter:]
    report.before, report.lately = float(np.mean(old)), float(np.mean(new))
    ordered = np.sort(both)
    ranks = (np.searchsorted(ordered, new) + np.searchsorted(ordered, new, "right") + 1) / 2.0  # the mean, of equals
    expected = len(new) * (len(both) + 1) / 2.0
    spread = math.sqrt(len(old) * len(new) * (len(both) + 1) / 12.0)
    report.change = (float(np.sum(ranks)) - expected) / spread


def _losses_by_age(losses: NDArray[np.float64], age: NDArray[np.int64], usual: Vector) -> list[AgeLosses]:
    """Return mean losses by rows seen before, in doubling steps; keys that a naive guess never misses are left out."""
    found = []
    first, oldest = 1, int(age.max(initial=0))
    while first <= oldest:
        last = 2 * first - 1
        rows = np.flatnonzero((age >= first) & (age <= last) & (usual > 0.0))
        if len(rows):
            means = (losses[:, rows] / usual[rows]).mean(axis=1)
            keys = int(np.count_nonzero(age[rows] == first))
            found.append(AgeLosses(first, min(last, oldest), keys, tuple(means.tolist())))
        first = last + 1
    return found

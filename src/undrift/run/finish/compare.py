"""Our default beside other learners and the naive baselines, on one file, each row predicted before it is learned.

`ComparisonTable` says who is scored on which rows, by what, and in which order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from undrift._internal.stopping import Interrupted, StopRequest
from undrift._typing import Matrix, Vector
from undrift.baselines import Baselines, ClassBaselines, baseline_names
from undrift.errors import DataError, InputError
from undrift.learners.row_context import check_context
from undrift.losses import log_odds
from undrift.metrics import coverage, interval_pinball, pinball
from undrift.online.design import fill_holes
from undrift.run.finish.peers import (
    absent_libraries,
    choose_contenders,
    count_classes,
    installed_peers,
    our_contenders,
    use_one_thread,
)
from undrift.run.play.scores import score_predictions
from undrift.run.read.rows_in_order import add_default_lags, load_rows
from undrift.run.read.source import Source
from undrift.stream.schema import Schema, naive_lags
from undrift.stream.settings import Settings
from undrift.trace import Trace

ROWS = 20_000
"""Rows compared on unless told otherwise: some peers take a millisecond a row."""
REFUSED = {"alert": "a comparison does not watch the stream; undrift run does"}
"""Settings that mean nothing in a comparison, and why."""
REFUSED_OF_CLASSES = dict.fromkeys(("level", "quantiles"), "classes are predicted by probabilities, not by intervals")
"""Those that mean nothing where the target is classes."""


class FileComparison:
    """Learners beside each other on the rows of a file, one after the other, those that cost least first.

    Everyone sees the same rows, and gets labels equally late. Our learners are made as `play_file` makes its model, and
    honour its settings: weights, elapsed times, indicators of holes, a memory length. Other libraries' learners have
    their own defaults; their rows have holes filled with the last value seen and are scaled by running means, and they
    get weights if they take some. Columns with predictions made elsewhere are candidates for our learners and features
    for the others. They are scored where they have a prediction, beside everyone's score over those rows.
    Scores count every row once. A file with nothing but a time and a target is compared on its own past, as `play_file`
    learns it.

    Parameters
    ----------
    path
        The file, which is read at once.
    settings
        What to predict, from what; those that mean nothing in a comparison are refused.
    peers
        Whether learners of other libraries take part.
    only, without
        Words that name learners or libraries: these alone, and all but these. Naive guesses always take part.
    """

    def __init__(
        self,
        path: str,
        settings: Settings,
        *,
        peers: bool = True,
        only: Sequence[str] = (),
        without: Sequence[str] = (),
    ) -> None:
        self._settings = add_default_lags(path, settings.replace(limit=settings.limit or ROWS))
        names, rows, schema = load_rows(Source(path, self._settings), self._settings.limit or ROWS)
        self.task = schema.task
        _refuse_settings(settings, self.task)
        self._Z, self._y = rows.Z, rows.y
        self._context = check_context(self, len(rows.y), weight=rows.weight, elapsed=rows.elapsed, delay=settings.delay)
        given = {name: rows.Z[:, names.index(name)] for name in settings.candidate}
        self._table = ComparisonTable(self.task, rows.y, settings, given)
        if not self._table.scored.any():
            late = f" {settings.delay} rows late" if settings.delay else ""
            raise DataError(f"{path}: no row can be scored, as no label is known{late} before another; add rows")
        absent = absent_libraries() if peers else []
        for word in only:
            if word.lower() in absent:
                raise InputError(f"--only '{word}': {word} is not installed here; pip install {word} brings it in")
        self.absent = [] if only else absent
        """Libraries whose learners would take part if they were installed."""
        others = installed_peers(self.task, settings.seed) if peers else ()
        self._contenders = choose_contenders(chain(our_contenders(settings, self.task, names), others), only, without)
        self.notes = self._make_notes(schema)
        """What else to know about the table."""
        self._play_naive(schema)
        self._table.add_given(given)

    @property
    def rows(self) -> int:
        """Rows that are compared on."""
        return len(self._y)

    @property
    def results(self) -> list[LearnerResult]:
        """Results of the learners that are done, best first; a column empty in some rows stands by those it has."""
        return self._table.rank()

    @property
    def missing(self) -> list[str]:
        """Names of the learners that have not played."""
        return [contender.name for contender in self._contenders]

    @property
    def seconds_left(self) -> float:
        """About how long the learners take that have not played, by what they took on another machine."""
        return sum(contender.microseconds for contender in self._contenders) * self.rows / 1e6

    def play(
        self,
        *,
        log: Callable[[str], None] | None = None,
        show: Callable[[str, float], None] | None = None,
        stop: StopRequest | None = None,
    ) -> None:
        """Let one learner after the other play; a request to stop is granted at any moment and raises Interrupted.

        `log` is told how each one did, and `show` who plays and which share of the whole is over.
        """
        request, whole = stop or StopRequest(), self.seconds_left
        for_peers = self._fill_rows()
        while self._contenders:
            contender = self._contenders[0]
            if show is not None:
                show(contender.name, 1.0 - self.seconds_left / whole)
            begin = time.perf_counter()
            with request.interruptible(), use_one_thread():
                Z = self._Z if contender.library == "undrift" else for_peers
                predictions = contender.play(Z, self._y, self._context)
            if request():  # a learner may have caught the exception
                raise Interrupted
            seconds = time.perf_counter() - begin
            trace = predictions if isinstance(predictions, Trace) else Trace(predictions)
            result = self._table.add(contender.name, contender.library, trace, seconds)
            del self._contenders[0]
            if log is not None:
                measure, value = next(iter(result.scores.items()))
                log(f"{contender.name}: {measure} {value:.4g}, {seconds:.1f} s")

    def _fill_rows(self) -> Matrix:
        """Return the rows without holes, and where the settings ask for indicators, where the holes were."""
        filled, holes = np.nan_to_num(fill_holes(self._Z)), np.isnan(self._Z)
        if self._settings.missing != "indicators":
            return filled
        return np.column_stack([filled, holes[:, holes.any(axis=0)]])

    def _play_naive(self, schema: Schema) -> None:
        """Let the naive guesses play, which know the same labels as everyone."""
        y, delay, begin = self._y, self._settings.delay, time.perf_counter()
        lags = [lag for lag in naive_lags(self._settings, schema.seasons) if lag < len(y)]
        if self.task == "multiclass":
            guesses: Sequence[Vector | Matrix] = ClassBaselines(delay=delay, lags=lags).play(y, count_classes(y))
        else:
            guesses = list(Baselines(binary=self.task == "classification", delay=delay, lags=lags).play(y).T)
        seconds = time.perf_counter() - begin
        for name, guess in zip(baseline_names(self.task, lags), guesses, strict=True):
            self._table.add(name, "naive", Trace(guess), seconds)

    def _make_notes(self, schema: Schema) -> list[str]:
        """Return what a reader of the table should know: how settings reach learners, and how columns are read."""
        settings, notes = self._settings, []
        if settings.candidate:
            notes.append("ours weigh the given predictions too")
        notes += [f"'{name}' is left out: it is empty in every row that is scored" for name in self._table.empty]
        if settings.delay:
            late = f"every learner gets labels {settings.delay} row{'s' if settings.delay > 1 else ''} late"
            notes.append(f"{late}; rows before the first known label are not scored")
        if settings.weight is not None:
            unweighted = [contender.name for contender in self._contenders if not contender.takes_weights]
            without = ", ".join(["the naive guesses", *unweighted])
            notes.append(f"these take no weights and learn every row once: {without}")
        if settings.elapsed:
            notes.append("only ours forget by the time between rows; other learners have no such option")
        return [*notes, *schema.notes]


def compare_file(path: str, settings: Settings, *, peers: bool = True) -> tuple[str, int, list[LearnerResult]]:
    """Return the task, the rows, and every learner's result, best first; `FileComparison` says how they play."""
    comparison = FileComparison(path, settings, peers=peers)
    comparison.play()
    return comparison.task, comparison.rows, comparison.results


def _refuse_settings(settings: Settings, task: str) -> None:
    """Refuse settings that would have no effect, each with its reason."""
    for name, reason in (REFUSED if task == "regression" else REFUSED | REFUSED_OF_CLASSES).items():
        if getattr(settings, name) != Settings.default_of(name):
            raise InputError(f"compare: {name} is not for comparisons: {reason}; leave it out")


RowMask = NDArray[np.bool_]


@dataclass(frozen=True)
class LearnerResult:
    """How one learner did."""

    name: str
    """Of the learner."""
    kind: str
    """"undrift", "naive", "given" (a column of predictions made elsewhere), or the library it is from."""
    scores: dict[str, float]
    """Scores by name over `rows`; the first is what the table is sorted by."""
    intervals: dict[str, float]
    """Coverage of intervals, and pinball loss of the quantiles asked for or of the ends of intervals, over those of
    `rows` that have them; empty for learners without."""
    microseconds: float
    """A row."""
    rows: int
    """Rows it is scored on: all with a label from the first one on for which another label was known, of a given column
    those of them in which it has a prediction."""
    same_rows: dict[str, float]
    """The first score over the rows of each given column that is empty in some, by the column's name."""


class ComparisonTable:
    """Results of learners, all scored on the same rows: those with a label for which an earlier label was known.

    A column of predictions made elsewhere is scored in the rows of these in which it has one. If it is empty in others,
    the table has everyone's score over its rows too, and the column stands among the others by that.

    Parameters
    ----------
    task
        regression, classification or multiclass.
    y
        Labels, NaN where missing.
    settings
        Of the comparison: by how many rows labels are late, and which intervals and quantiles are scored.
    given
        Columns of predictions made elsewhere, NaN where they have none; probabilities of two classes.
    """

    def __init__(self, task: str, y: Vector, settings: Settings, given: Mapping[str, Vector]) -> None:
        self.task, self.y, self.settings = task, y, settings
        labelled = ~np.isnan(y)
        known = np.concatenate((np.zeros(settings.delay + 1), np.cumsum(labelled)))[: len(y)]  # labels before each row
        self.scored: RowMask = labelled & (known > 0)
        self._given_rows: dict[str, RowMask] = {name: self.scored & ~np.isnan(column) for name, column in given.items()}
        self._results: list[LearnerResult] = []
        self.empty = [name for name, rows in self._given_rows.items() if not rows.any()]
        """Given columns without a prediction in any row that is scored: they are left out."""
        self.partial = [name for name, rows in self._given_rows.items() if rows.any() and (rows < self.scored).any()]
        """Given columns that are empty in some rows that are scored."""

    def add(self, name: str, kind: str, trace: Trace, seconds: float) -> LearnerResult:
        """Score the predictions of a learner that took so many seconds."""
        rows = self._given_rows[name] if kind == "given" else self.scored
        scores = self._score(trace, rows)
        leading = next(iter(scores))
        same_rows = {column: self._score(trace, rows & self._given_rows[column])[leading] for column in self.partial}
        cost = seconds / len(self.y) * 1e6
        result = LearnerResult(name, kind, scores, self._score_intervals(trace), cost, int(np.sum(rows)), same_rows)
        self._results.append(result)
        return result

    def add_given(self, given: Mapping[str, Vector]) -> None:
        """Score the columns of predictions made elsewhere that have some."""
        for name, predictions in given.items():
            if name not in self.empty:
                units = predictions if self.task == "regression" else log_odds(predictions)
                self.add(name, "given", Trace(units), 0.0)

    def rank(self) -> list[LearnerResult]:
        """Return the results, best first; a column that is empty in some rows stands where its rows put it."""
        first = next(iter(self._results[0].scores))
        partial = [result for result in self._results if result.kind == "given" and result.name in self.partial]
        whole = [result for result in self._results if result not in partial]
        ranked = sorted(whole, key=lambda result: result.scores[first])
        for column in sorted(partial, key=lambda result: result.scores[first]):
            worse = (k for k, result in enumerate(ranked) if result.same_rows[column.name] > column.scores[first])
            ranked.insert(next(worse, len(ranked)), column)
        return ranked

    def _score(self, trace: Trace, rows: RowMask) -> dict[str, float]:
        return score_predictions(self.task, trace.yhat[rows], self.y[rows])

    def _score_intervals(self, trace: Trace) -> dict[str, float]:
        """Return the scores of intervals and quantiles by title, where a learner has made some."""
        if trace.lower is None or trace.upper is None:
            return {}
        level, levels, y = self.settings.level, self.settings.quantiles, self.y[self.scored]
        lower, upper = (np.where(np.isfinite(ends), ends, np.nan)[self.scored] for ends in (trace.lower, trace.upper))
        scores = {f"{100 * level:g}% coverage": coverage(lower, upper, y)}
        if trace.quantiles is None:
            scores["pinball"] = interval_pinball(lower, upper, y, level=level)
        else:
            rows = self.scored & np.isfinite(trace.quantiles).all(axis=1)
            columns = zip(trace.quantiles[rows].T, levels, strict=True)
            losses = [pinball(yhat, self.y[rows], level=level) for yhat, level in columns] if rows.any() else [math.nan]
            scores["pinball"] = float(np.mean(losses))
        return {title: score for title, score in scores.items() if not math.isnan(score)}

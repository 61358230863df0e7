"""The table of a comparison: who is scored on which rows, by what, and in which order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Vector
from undrift.losses import log_odds
from undrift.metrics import coverage, interval_pinball, pinball
from undrift.run.play.scores import score_predictions
from undrift.stream.settings import Settings
from undrift.trace import Trace

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

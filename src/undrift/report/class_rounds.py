"""The rounds of a run of two or several classes as figures and tables see them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.losses import sigmoid
from undrift.metrics import confusion
from undrift.report.formatting import number, percent, shorten
from undrift.run import RunData

COMMON = 20
"""Rows of a class that is worth a word, and a curve."""
CLASS_COLUMNS = ("Class", "rows", "share", "predicted", "recall", "precision", "F1")
"""Titles of the table of scores by class."""


@dataclass(frozen=True)
class ClassRounds:
    """Rounds in which something was predicted (n)."""

    names: list[str]
    """Labels of the classes by number (K)."""
    y: Vector
    """Class numbers that came (n,)."""
    yhat: Vector
    """Class numbers that were most likely (n,)."""
    p: Matrix
    """Probabilities (n, K), 0 where a class was not known yet."""
    shown: NDArray[np.bool_]
    """Which of the run's rounds these are (T,)."""

    @cached_property
    def counts(self) -> Matrix:
        """How often each class was predicted (columns) for each that came (rows)."""
        return confusion(self.yhat, self.y, len(self.names))

    @cached_property
    def frequent_first(self) -> list[int]:
        """Classes by how often they came."""
        return [int(k) for k in np.argsort(-self.counts.sum(axis=1), kind="stable")]

    @cached_property
    def recall(self) -> Vector:
        """Part of each class's rows that were predicted as such, NaN for one that never came."""
        return _share(np.diag(self.counts), self.counts.sum(axis=1))

    @cached_property
    def precision(self) -> Vector:
        """Part of the rows predicted as each class in which it came, NaN for one that was never predicted."""
        return _share(np.diag(self.counts), self.counts.sum(axis=0))

    def table(self) -> list[list[str]]:
        """Return the scores by class as text, the most frequent one first."""
        n, came, said = max(len(self.y), 1), self.counts.sum(axis=1), self.counts.sum(axis=0)
        f1 = _share(2.0 * np.diag(self.counts), came + said)
        return [
            [
                shorten(self.names[k]),
                number(float(came[k]), 6),
                percent(float(came[k] / n)),
                percent(float(said[k] / n)),
                percent(float(self.recall[k])),
                percent(float(self.precision[k])),
                percent(float(f1[k])),
            ]
            for k in self.frequent_first
        ]


def _share(part: Vector, whole: Vector) -> Vector:
    return np.where(whole > 0.0, part / np.maximum(whole, 1.0), np.nan)


def read_class_rounds(data: RunData) -> ClassRounds | None:
    """Return the rounds of a run of classes; None for numbers."""
    some = data.predicted
    if data.task == "regression":
        return None
    if data.probabilities is not None:
        p, yhat = np.nan_to_num(data.probabilities[some]), data.yhat[some]
    else:
        odds = data.yhat[some]
        p, yhat = np.column_stack([sigmoid(-odds), sigmoid(odds)]), (odds > 0.0).astype(np.float64)
    return ClassRounds(list(data.classes or ("0", "1")), (data.y[some]).astype(np.float64), yhat, p, some)

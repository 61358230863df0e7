"""Predictions of two or more classes as a table: labels, the likeliest classes, and a column of probabilities each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.losses import sigmoid
from undrift.metrics import most_likely
from undrift.run.play.run_model import BlockPredictions
from undrift.run.prepare.encoder import EncodedRows
from undrift.run.write.tables import probability_column

LOG_ODDS = "log_odds"
"""Name of the column with the log-odds of the second of two classes, to the last bit: certificates need them."""


class ClassTable:
    """Columns of rows whose labels are the numbers of `classes`; `baselines` names the naive predictors."""

    def __init__(self, classes: list[str], baselines: Sequence[str]) -> None:
        self.classes, self.baselines = classes, baselines

    def wide(self, predictions: BlockPredictions) -> Matrix:
        """Return the probabilities of every class (n, K), NaN where one was not known yet."""
        p = predictions.probabilities
        if p is None:
            return np.full((len(predictions.yhat), len(self.classes)), np.nan)
        return np.pad(p, ((0, 0), (0, len(self.classes) - p.shape[1])), constant_values=np.nan)

    def columns(self, rows: EncodedRows, predictions: BlockPredictions, naive: Iterable[Matrix]) -> dict[str, Any]:
        """Return the columns of the predictions by name: those of the classes last, as more of them may follow."""
        guesses = [most_likely(p) for p in naive]
        return self._columns(rows, predictions.yhat, guesses, self.wide(predictions))

    def columns_of_two(self, rows: EncodedRows, log_odds: Vector, naive: Matrix) -> dict[str, Any]:
        """Return the columns of two classes, the same and their log-odds, from log-odds, NaN where there are none."""
        choose = [np.where(np.isnan(odds), np.nan, odds > 0.0) for odds in (log_odds, *naive.T)]
        p = np.column_stack([sigmoid(-log_odds), sigmoid(log_odds)])
        return self._columns(rows, choose[0], choose[1:], p) | {LOG_ODDS: log_odds}

    def _columns(self, rows: EncodedRows, yhat: Vector, naive: Sequence[Vector], p: Matrix) -> dict[str, Any]:
        """Return the columns from the numbers of the likeliest classes, the naive guesses' and the probabilities."""
        out: dict[str, Any] = {"line": rows.line}
        if rows.time is not None:
            out["time"] = rows.time
        out |= {"y": self._labels(rows.y), "yhat": self._labels(yhat)}
        out |= {name: self._labels(guess) for name, guess in zip(self.baselines, naive, strict=True)}
        return out | {probability_column(label): p[:, k] for k, label in enumerate(self.classes)}

    def _labels(self, numbers: Vector) -> Any:
        """Return labels as they stand in the source, None where there is none."""
        names = [None if k != k else self.classes[int(k)] for k in numbers.tolist()]
        return np.array(names, dtype=object)

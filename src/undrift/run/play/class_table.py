"""Predictions of several classes as a table: labels, the most likely classes, and a column of probabilities each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.metrics import most_likely
from undrift.run.play.run_model import BlockPredictions
from undrift.run.prepare.encoder import EncodedRows


def probability_column(label: str) -> str:
    """Return the name of the column with a class's probabilities."""
    return f"p({label})"


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
        out: dict[str, Any] = {"line": rows.line}
        if rows.time is not None:
            out["time"] = rows.time
        out |= {"y": self._labels(rows.y), "yhat": self._labels(predictions.yhat)}
        for name, p in zip(self.baselines, naive, strict=True):
            out[name] = self._labels(most_likely(p))
        p = self.wide(predictions)
        return out | {probability_column(label): p[:, k] for k, label in enumerate(self.classes)}

    def _labels(self, numbers: Vector) -> Any:
        """Return labels as they stand in the source, None where there is none."""
        names = [None if one != one else self.classes[int(one)] for one in numbers.tolist()]
        return np.array(names, dtype=object)

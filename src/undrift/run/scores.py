"""Scores: how far off predictions were, beside the naive ones, as running sums."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.losses import logistic

LEADING = {"regression": "rmse", "classification": "log-loss"}
"""The measure that leads everywhere, by task: what the model minimises, and what its certificates bound."""


class Scores:
    """Sums over finished rounds, one for each predictor."""

    def __init__(self, task: str, names: Sequence[str]) -> None:
        self.task, self.names = task, list(names)
        self.count = 0
        self.sums = {name: [0.0, 0.0] for name in names}  # squared and absolute errors, or log-loss and mistakes
        self.labels = [0.0, 0.0]  # sum and sum of squares
        self.lately = math.nan

    def add(self, y: Vector, E: Matrix, inside: int | None = None) -> None:
        """Count rounds whose labels are y, in which predictor k said E[:, k]."""
        known = ~np.isnan(y)
        y, E = y[known], E[known]
        if not len(y):
            return
        self.count += len(y)
        self.labels = [self.labels[0] + float(np.sum(y)), self.labels[1] + float(np.sum(y * y))]
        for name, yhat in zip(self.names, E.T, strict=True):
            if self.task == "regression":
                away = yhat - y
                added = float(np.sum(away * away)), float(np.sum(np.abs(away)))
            else:
                loss = logistic.value(yhat, 2.0 * y - 1.0)
                added = float(np.sum(loss)), float(np.count_nonzero((yhat > 0.0) != (y > 0.5)))
            self.sums[name] = [self.sums[name][0] + added[0], self.sums[name][1] + added[1]]
            if name == self.names[0]:
                self.lately = math.sqrt(added[0] / len(y)) if self.task == "regression" else added[0] / len(y)

    def table(self) -> dict[str, dict[str, float | None]]:
        """Return for each predictor its measures by name; the one that leads comes first."""
        out: dict[str, dict[str, float | None]] = {}
        n = max(self.count, 1)
        spread = self.labels[1] - self.labels[0] ** 2 / n
        for name, (first, second) in self.sums.items():
            if self.task == "regression":
                r2 = 1.0 - first / spread if spread > 0.0 else None
                out[name] = {"rmse": math.sqrt(first / n), "mean absolute error": second / n, "r2": r2}
            else:
                out[name] = {"log-loss": first / n, "accuracy": 1.0 - second / n}
        return out

    def carry(self) -> dict[str, Any]:
        """Return the sums."""
        return {"count": self.count, "sums": self.sums, "labels": self.labels}

    def resume(self, words: Mapping[str, Any]) -> None:
        """Go on with the sums of `carry`."""
        self.count, self.sums, self.labels = words["count"], dict(words["sums"]), list(words["labels"])

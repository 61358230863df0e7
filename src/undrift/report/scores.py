"""The scores of a run and of its baselines, and one compared with another in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from undrift import metrics
from undrift.report.formatting import percent
from undrift.run import RunData
from undrift.run.finish.run_data import OWN as OWN

SCORE_TITLES = {
    "rmse": "typical error (RMSE)",
    "mae": "mean error (MAE)",
    "r2": "variance explained (R²)",
    "log_loss": "log-loss",
    "accuracy": "right (accuracy)",
    "brier": "Brier score",
}
"""What pages call the scores of `undrift.metrics`."""
SAME = 0.01
"""Errors that differ by less than this share of themselves count as the same."""


@dataclass(frozen=True)
class Score:
    """One predictor over the whole run."""

    name: str
    """"undrift" or the baseline's name."""
    total: float
    """Sum of losses, in the certificates' units: squared error / 2, or log-loss."""
    measures: Mapping[str, float]
    """Regression: rmse, mae, r2. Two classes: log_loss, accuracy, brier; several: log_loss, accuracy."""


def score_predictors(data: RunData) -> list[Score]:
    """Return the run's score, then the baselines'."""
    some, found = data.predicted, []
    for name, yhat in {OWN: data.yhat, **data.baselines}.items():
        losses, labels = data.losses(name), data.y[some]
        if data.task == "multiclass":
            right = float(np.mean(yhat[some] == labels)) if len(labels) else math.nan
            measures = {"log_loss": float(np.mean(losses)) if len(losses) else math.nan, "accuracy": right}
        else:
            measures = metrics.scores(yhat[some], labels, binary=data.task == "classification")
        found.append(Score(name, float(np.sum(losses)), measures))
    return found


def best_baseline(scores: list[Score]) -> Score | None:
    """Return the baseline with the smallest loss."""
    return min(scores[1:], key=lambda one: one.total, default=None)


def compare_errors(mine: float, theirs: float) -> str:
    """Return how one error compares to another, in words that differ only where the errors do.

    >>> compare_errors(0.75, 1.0), compare_errors(1.004, 1.0), compare_errors(2.0, 1.0)
    ('25% less than', 'about the same as', '100% more than')
    """
    gain = 1.0 - mine / theirs
    if gain >= SAME:
        return f"{percent(gain, 2)} less than"
    return "about the same as" if gain > -SAME else f"{percent(-gain, 2)} more than"

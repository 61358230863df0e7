"""How well: the run beside the naive guesses, in measures people know."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from undrift._typing import Vector
from undrift.losses import logistic, sigmoid, squared
from undrift.report.words import percent
from undrift.run import RunData

OWN = "undrift"
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
    """Regression: rmse, mae, r2. Classification: log_loss, accuracy, brier."""


def losses(task: str, yhat: Vector, y: Vector) -> Vector:
    """Return the loss of each round; labels of classification are 0 and 1."""
    return logistic.value(yhat, 2.0 * y - 1.0) if task == "classification" else squared.value(yhat, y)


def headline(task: str) -> str:
    """Return the measure that leads everywhere: what the model minimises; smaller is better in both tasks."""
    return "log_loss" if task == "classification" else "rmse"


def compared(mine: float, theirs: float) -> str:
    """Return how one error compares to another, in words that differ only where the errors do.

    >>> compared(0.75, 1.0), compared(1.004, 1.0), compared(2.0, 1.0)
    ('25% less than', 'about the same as', '100% more than')
    """
    gain = 1.0 - mine / theirs
    if gain >= SAME:
        return f"{percent(gain, 2)} less than"
    return "about the same as" if gain > -SAME else f"{percent(-gain, 2)} more than"


def score(task: str, name: str, yhat: Vector, y: Vector) -> Score:
    """Score one predictor."""
    total = float(np.sum(losses(task, yhat, y)))
    if task == "classification":
        p = sigmoid(yhat)
        right = float(np.mean((yhat > 0.0) == (y > 0.5)))
        return Score(
            name,
            total,
            {"log_loss": total / len(y), "accuracy": right, "brier": float(np.mean((p - y) ** 2))},
        )
    spread = float(np.sum((y - np.mean(y)) ** 2))
    return Score(
        name,
        total,
        {
            "rmse": math.sqrt(2.0 * total / len(y)),
            "mae": float(np.mean(np.abs(yhat - y))),
            "r2": 1.0 - 2.0 * total / spread if spread > 0.0 else math.nan,
        },
    )


def scores(data: RunData) -> list[Score]:
    """Return the run's score, then the baselines'."""
    said = {OWN: data.yhat, **data.baselines}
    return [score(data.task, name, yhat, data.y) for name, yhat in said.items()]


def best_baseline(data: RunData, table: list[Score]) -> Score | None:
    """Return the naive guess with the smallest loss."""
    return min(table[1:], key=lambda one: one.total, default=None)

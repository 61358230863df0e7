"""Scores of a run's model beside the naive baselines, kept as running sums and written into `run.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.metrics import TITLES, RunningScores, class_scores, scores


class ScoreTable:
    """Running scores of several predictors over the same rounds; the first one is the model."""

    def __init__(self, task: str, names: Sequence[str]) -> None:
        self.running = {name: RunningScores(binary=task != "regression") for name in names}

    @property
    def latest(self) -> float:
        """The model's leading score over the rounds added last."""
        return next(iter(self.running.values())).latest

    def add(self, y: Vector, predictions: Matrix) -> None:
        """Count rounds whose labels are y, NaN where unknown, and whose k-th predictor gave `predictions[:, k]`."""
        known = ~np.isnan(y)
        for running, yhat in zip(self.running.values(), predictions.T, strict=True):
            running.add(yhat[known], y[known])

    def add_classes(self, y: Vector, probabilities: Sequence[Matrix]) -> None:
        """Count rounds of several classes, the probabilities of the k-th predictor being `probabilities[k]`."""
        known = ~np.isnan(y)
        for running, p in zip(self.running.values(), probabilities, strict=True):
            running.add_classes(p[known], y[known])

    def as_dict(self) -> dict[str, dict[str, float | None]]:
        """Return for each predictor its scores by title; None where a score has no value."""
        return {
            name: {
                title: None if math.isnan(value) else value for title, value in with_titles(running.scores()).items()
            }
            for name, running in self.running.items()
        }

    def state(self) -> dict[str, Any]:
        """Return the sums as `run.json` holds them."""
        first = next(iter(self.running.values()))
        sums = {name: running.errors for name, running in self.running.items()}
        return {"count": first.count, "sums": sums, "labels": first.labels}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on with the sums of `state`; raise KeyError, TypeError or ValueError for what is none."""
        count, labels = state["count"], _read_sums(state["labels"])
        if type(count) is not int or count < 0:
            raise ValueError("'count' of the scores must be a number of rounds")
        for name, running in self.running.items():
            running.count, running.errors, running.labels = count, _read_sums(state["sums"][name]), labels
            if min(running.errors) < 0.0:
                raise ValueError("'sums' of the scores must be 0 or more")


def _read_sums(values: Any) -> list[float]:
    """Return two sums; raise TypeError or ValueError for anything else."""
    first, second = (float(value) for value in values)
    if not math.isfinite(first) or not math.isfinite(second):
        raise ValueError("a sum of the scores is not finite")
    return [first, second]


def with_titles(named: Mapping[str, float]) -> dict[str, float]:
    """Return scores under the titles that tables and JSON show, without those that have none."""
    return {TITLES[name]: value for name, value in named.items() if name in TITLES}


def score_predictions(task: str, yhat: Vector | Matrix, y: Vector) -> dict[str, float]:
    """Return the scores of predictions by title, the leading one first; those of several classes are probabilities."""
    if task == "multiclass":
        return with_titles(class_scores(yhat, y))
    return with_titles(scores(yhat, y, binary=task == "classification"))

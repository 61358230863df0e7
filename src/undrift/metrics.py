"""Scores of predictions, in the words users know: RMSE, MAE, R2, log-loss, accuracy, Brier, MASE, pinball, coverage.

Arguments come in the order of `undrift.losses`: predictions first, then labels. Predictions of two classes are log-odds
of the positive one, whose label is greater than 0 (1 of 0 and 1, or of -1 and +1); of several classes, probabilities
(rounds, K), and labels are class numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.losses import logistic, sigmoid, squared

LEADING = {"regression": "rmse", "classification": "log_loss", "multiclass": "log_loss"}
"""The score that leads everywhere, by task: what the model minimises, and what its certificates bound."""
TITLES = {"rmse": "rmse", "mae": "mean absolute error", "r2": "r2", "log_loss": "log-loss", "accuracy": "accuracy"}
"""What `undrift run` and `undrift compare` call the scores they show."""


_LEAST = 1e-300
"""Probabilities of several classes count as this at least."""


def _mean(values: NDArray[Any]) -> float:
    """Return the mean; NaN over no rounds at all."""
    return float(np.mean(values)) if len(values) else math.nan


def rmse(yhat: Vector, y: Vector) -> float:
    """Return the root of the mean squared error, in the units of the labels."""
    return math.sqrt(_mean((yhat - y) ** 2))


def mae(yhat: Vector, y: Vector) -> float:
    """Return the mean absolute error."""
    return _mean(np.abs(yhat - y))


def r2(yhat: Vector, y: Vector) -> float:
    """Return the part of the labels' variance that is explained; NaN where labels are constant."""
    return _explained_share(float(np.sum((yhat - y) ** 2)), float(np.sum((y - _mean(y)) ** 2)))


def log_loss(yhat: Vector, y: Vector) -> float:
    """Return the mean of -ln(probability given to what came true)."""
    return _mean(round_losses(yhat, y, binary=True))


def accuracy(yhat: Vector, y: Vector) -> float:
    """Return the part of rounds in which the more likely class came true."""
    return _mean((yhat > 0.0) == (y > 0.0))


def brier(yhat: Vector, y: Vector) -> float:
    """Return the mean squared distance of the positive class's probability from 0 or 1, whichever came true."""
    return _mean((sigmoid(yhat) - (y > 0.0)) ** 2)


def mase(yhat: Vector, y: Vector, *, season: int = 1) -> float:
    """Return the mean absolute error in units of that of repeating the label of `season` rounds ago.

    >>> mase(np.array([2.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    0.6666666666666666
    """
    naive = mae(y[:-season], y[season:]) if len(y) > season else 0.0
    return mae(yhat, y) / naive if naive > 0.0 else math.nan


def pinball(yhat: Vector, y: Vector, *, level: float) -> float:
    """Return the mean loss that the `level` quantile minimises.

    >>> pinball(np.array([0.0, 0.0]), np.array([1.0, -1.0]), level=0.9)
    0.5
    """
    away = y - yhat
    return float(np.mean(np.maximum(level * away, (level - 1.0) * away)))


def interval_pinball(lower: Vector, upper: Vector, y: Vector, *, level: float) -> float:
    """Return the mean pinball loss of both ends of intervals, rows without one left out; NaN where all are.

    >>> interval_pinball(np.array([0.0, np.nan]), np.array([2.0, np.nan]), np.array([1.0, 5.0]), level=0.5)
    0.25
    """
    there = np.isfinite(lower) & np.isfinite(upper)
    if not there.any():
        return math.nan
    tail, y = (1.0 - level) / 2.0, y[there]
    ends = pinball(lower[there], y, level=tail), pinball(upper[there], y, level=1.0 - tail)
    return (ends[0] + ends[1]) / 2.0


def coverage(lower: Vector, upper: Vector, y: Vector) -> float:
    """Return the part of labels that lie in their interval."""
    there = ~(np.isnan(lower) | np.isnan(upper))
    return float(np.mean(((lower <= y) & (y <= upper))[there])) if there.any() else math.nan


def round_losses(yhat: Vector, y: Vector, *, binary: bool) -> Vector:
    """Return the loss of each round in the units of certificates: half the squared error, or the log-loss."""
    return logistic.value(yhat, np.where(y > 0.0, 1.0, -1.0)) if binary else squared.value(yhat, y)


def scores(yhat: Vector, y: Vector, *, binary: bool) -> dict[str, float]:
    """Return the scores of a task by name; the one that leads comes first."""
    measures = (log_loss, accuracy, brier) if binary else (rmse, mae, r2)
    return {measure.__name__: measure(yhat, y) for measure in measures}


def class_losses(p: Matrix, y: Vector) -> Vector:
    """Return the log-loss of each round from probabilities (T, K), NaN where a class was not known yet.

    A class that was not known has what the others leave.

    >>> class_losses(np.array([[0.5, np.nan], [0.25, 0.75]]), np.array([1.0, 1.0])).round(4).tolist()
    [0.6931, 0.2877]
    """
    given = np.take_along_axis(p, y.astype(np.int64)[:, None], axis=1)[:, 0]
    left = 1.0 - np.nansum(p, axis=1)
    return np.asarray(-np.log(np.maximum(np.where(np.isnan(given), left, given), _LEAST)))


def most_likely(p: Matrix) -> Vector:
    """Return the number of the most likely class of each round, the first of equals; NaN where none is known."""
    out = np.full(len(p), np.nan)
    if not p.shape[1]:
        return out
    known = ~np.isnan(p).all(axis=1)
    out[known] = np.argmax(np.where(np.isnan(p[known]), -1.0, p[known]), axis=1)
    return out


def class_brier(p: Matrix, y: Vector) -> Vector:
    """Return half the squared distance of each round's probabilities from what came true: for two, as `brier`."""
    there = np.nan_to_num(p)
    at = np.arange(len(y)), y.astype(np.int64)
    return np.asarray(0.5 * (np.sum(there**2, axis=1) - 2.0 * there[at] + 1.0))


def class_scores(p: Matrix, y: Vector) -> dict[str, float]:
    """Return the scores of several classes by name; the one that leads comes first."""
    right = most_likely(p) == y
    return {"log_loss": _mean(class_losses(p, y)), "accuracy": _mean(right), "brier": _mean(class_brier(p, y))}


class RankingCurve(NamedTuple):
    """What a threshold on a score finds, from the highest down to the lowest, one point for each different score."""

    found: Vector
    """Part of the positive rounds above each threshold: recall, the true positive rate."""
    alarms: Vector
    """Part of the other rounds above it: the false positive rate."""
    precision: Vector
    """Part of the rounds above it that are positive."""

    @property
    def roc_auc(self) -> float:
        """How often a positive round has the higher score of two, one of each kind; ties count half."""
        x, y = (np.concatenate(([0.0], one)) for one in (self.alarms, self.found))
        return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2.0)) if len(self.found) else math.nan

    @property
    def average_precision(self) -> float:
        """The precision at each threshold, weighed by what it finds more than the one before."""
        return float(np.sum(np.diff(self.found, prepend=0.0) * self.precision)) if len(self.found) else math.nan


def ranking_curve(score: Vector, positive: NDArray[np.bool_]) -> RankingCurve:
    """Return what thresholds on a score find; nothing where all rounds are of one kind.

    >>> curve = ranking_curve(np.array([0.9, 0.8, 0.3, 0.1]), np.array([True, False, True, False]))
    >>> curve.roc_auc, round(curve.average_precision, 3)
    (0.75, 0.833)
    """
    order = np.argsort(-score, kind="stable")
    hits = positive[order].astype(np.float64)
    last = np.append(np.diff(score[order]) != 0.0, True) if len(score) else np.zeros(0, bool)
    above, total = np.cumsum(hits)[last], float(np.sum(hits))
    count = (np.flatnonzero(last) + 1).astype(np.float64)
    if total in (0.0, float(len(score))):
        return RankingCurve(np.zeros(0), np.zeros(0), np.zeros(0))
    return RankingCurve(above / total, (count - above) / (len(score) - total), above / count)


def confusion(predicted: Vector, y: Vector, classes: int) -> Matrix:
    """Return how often each class was predicted (columns) for each class that came (rows)."""
    pairs = y.astype(np.int64) * classes + predicted.astype(np.int64)
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes).astype(np.float64)


class RunningScores:
    """Scores of one predictor over rounds that come in blocks, from a few sums.

    Parameters
    ----------
    binary
        Whether labels are classes.

    Notes
    -----
    Rounds are summed up one after the other, so that scores are the same bits however rounds are cut into blocks.

    Examples
    --------
    >>> running = RunningScores(binary=False)
    >>> running.add(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    >>> running.add(np.array([2.0]), np.array([1.0]))
    >>> running.scores()["mae"]
    1.0
    """

    def __init__(self, *, binary: bool) -> None:
        self.binary, self.count = binary, 0
        self.errors = [0.0, 0.0]  # squared and absolute errors, or log-losses and mistakes
        self.labels = [0.0, 0.0]  # labels and their squares
        self.latest = math.nan
        """The leading score of the last block."""

    def add(self, yhat: Vector, y: Vector) -> None:
        """Count some rounds."""
        if not len(y):
            return
        if self.binary:
            self._add(round_losses(yhat, y, binary=True), (yhat > 0.0) != (y > 0.0), y)
        else:
            self._add((yhat - y) ** 2, np.abs(yhat - y), y)

    def add_classes(self, p: Matrix, y: Vector) -> None:
        """Count some rounds of several classes, whose probabilities are p (n, K)."""
        if len(y):
            self._add(class_losses(p, y), most_likely(p) != y, y)

    def _add(self, first: Vector, second: Any, y: Vector) -> None:
        self.count += len(y)
        before, series = [*self.errors, *self.labels], np.array([first, second, y, y * y]).T
        totals = np.add.accumulate(np.vstack([before, series]))[-1].tolist()
        self.errors, self.labels = totals[:2], totals[2:]
        latest = float(np.mean(first))
        self.latest = latest if self.binary else math.sqrt(latest)

    def scores(self) -> dict[str, float]:
        """Return the scores so far by name, the leading one first; Brier's is not among them."""
        n = max(self.count, 1)
        first, second = self.errors
        if self.binary:
            return {"log_loss": first / n, "accuracy": 1.0 - second / n}
        spread = self.labels[1] - self.labels[0] ** 2 / n
        return {"rmse": math.sqrt(first / n), "mae": second / n, "r2": _explained_share(first, spread)}


def _explained_share(squares: float, spread: float) -> float:
    return 1.0 - squares / spread if spread > 0.0 else math.nan

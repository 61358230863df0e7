"""The last rounds of a service: what its page shows, and how well it did."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from undrift import metrics
from undrift._typing import Vector
from undrift.losses import log_odds
from undrift.stream import Answers

KEPT_ROUNDS = 1000
"""Rounds that are kept, shown and judged."""


class Round(NamedTuple):
    """One row whose label came."""

    id: int
    """Of the answer."""
    y: float
    """The label; 0 or 1 for two classes; of several, whether the most likely one came."""
    yhat: float
    """What was served; log-odds of the positive label for two classes, of the most likely one of several."""
    lower: float | None
    """Ends of the interval that was served."""
    upper: float | None
    known: bool
    """Whether any label had been learned before."""
    label: str | int | float | bool | None = None
    """Of several classes, the one that came."""
    predicted: str | int | float | bool | None = None
    """The one that was most likely."""
    loss: float | None = None
    """Its log-loss."""
    probabilities: Mapping[str, float] | None = None
    """Of each of several classes, by its label."""

    def page_values(self) -> list[Any]:
        """Return what the live page draws."""
        return list(self[:8])


def make_rounds(
    numbers: Sequence[int],
    y: Vector,
    answers: Answers,
    names: Sequence[str] = (),
    show: Callable[[str], Any] = lambda label: label,
) -> Iterator[Round]:
    """Yield the rounds of rows whose labels came, NaN where one never does.

    `names` are the classes so far, of which an answer may not have known all; `show` is as for `make_answers`.
    """
    labels = y.tolist()
    if answers.several is None:
        none = np.full(len(labels), math.nan)
        ends = [or_none(none if end is None else end) for end in (answers.lower, answers.upper)]
        yhat = np.where(answers.known, answers.yhat, 0.0).tolist()
        for number, label, *served in zip(numbers, labels, yhat, *ends, answers.known.tolist(), strict=True):
            if label == label:
                yield Round(number, label, *served)
        return
    for i, (number, label) in enumerate(zip(numbers, labels, strict=True)):
        if label != label or not answers.known[i]:
            continue
        shares, came = answers.several[i], names[int(label)]
        there = np.flatnonzero(~np.isnan(shares)).tolist()
        best = int(answers.yhat[i])
        own = float(shares[int(label)]) if int(label) in there else max(1.0 - float(np.nansum(shares)), 0.0)
        loss, odds = -math.log(max(own, 1e-300)), float(log_odds(float(shares[best])))
        each = {names[k]: float(f"{shares[k]:.6g}") for k in there}  # short in snapshots
        right = float(best == label)
        yield Round(number, right, odds, None, None, True, show(came), show(names[best]), loss, each)


def or_none(values: Any) -> list[float | None]:
    """Return numbers for JSON, None for NaN."""
    return [None if value != value else value for value in np.asarray(values).tolist()]


class RecentRounds:
    """The last rounds, oldest first."""

    def __init__(self) -> None:
        self._rounds: deque[Round] = deque(maxlen=KEPT_ROUNDS)

    def add(self, one: Round) -> None:
        """Take a round in; the oldest one may leave."""
        self._rounds.append(one)

    def last(self, count: int) -> list[Round]:
        """Return the last rounds, oldest first."""
        return list(self._rounds)[-count:]

    def summary(self, level: float, *, binary: bool) -> dict[str, Any]:
        """Return the error of the last rounds, and the coverage of their intervals."""
        judged = [one for one in self._rounds if one.known]
        if not judged:
            return {"judged": 0}
        losses = [one.loss for one in judged if one.loss is not None]
        if losses:
            right = float(np.mean([one.y for one in judged]))
            found = {
                "log_loss": float(np.mean(losses)),
                "accuracy": right,
                "average_precision": _mean_precision(judged),
            }
            return {"judged": len(judged), **_there(found)}
        yhat, y = np.array([one.yhat for one in judged]), np.array([one.y for one in judged])
        scores = (metrics.log_loss, metrics.accuracy) if binary else (metrics.rmse, metrics.mae)
        found = {score.__name__: score(yhat, y) for score in scores}
        if binary:
            found["average_precision"] = metrics.ranking_curve(yhat, y > 0.0).average_precision
        inside = [one.lower <= one.y <= one.upper for one in judged if one.lower is not None and one.upper is not None]
        coverage = {"coverage": float(np.mean(inside)), "level": level} if inside else {}
        return {"judged": len(judged), **_there(found), **coverage}

    def state(self) -> list[Sequence[Any]]:
        """Return the rounds as JSON values."""
        return [list(one) for one in self._rounds]

    def resume(self, state: Sequence[Sequence[Any]]) -> None:
        """Go on where `state` left off."""
        self._rounds = deque((Round(*one) for one in state), maxlen=KEPT_ROUNDS)


def _mean_precision(rounds: Sequence[Round]) -> float:
    """Return the mean over classes of the average precision of each against the others; NaN if one class came alone."""
    served = [one for one in rounds if one.probabilities is not None]
    labels = np.array([str(one.label) for one in served])
    found = []
    for label in np.unique(labels):
        p = np.array([(one.probabilities or {}).get(str(label), 0.0) for one in served])
        found.append(metrics.ranking_curve(p, labels == label).average_precision)
    return float(np.mean(found)) if found else math.nan


def _there(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores that there are: some are not defined while all labels are of one kind."""
    return {name: score for name, score in scores.items() if math.isfinite(score)}

"""Naive baselines: what needs no learning, and what anything useful must beat.

| task | first baseline | second baseline |
|---|---|---|
| regression | the last value | the mean so far |
| classification | same as last time, as sure as labels stayed so far | the base rate of the positive class so far |
| multiclass | same as last time, likewise | each class as often as it came so far |

Predictions of two classes are log-odds, of several probabilities; counts begin at 1, so that nothing is ever certain. A
round is predicted from the labels known before it, 0 where there are none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector

BASELINES = {
    "regression": ("last value", "running mean"),
    "classification": ("same as last time", "base rate"),
    "multiclass": ("same as last time", "most frequent"),
}
"""Names of the baselines by task, in the order of every table, file and page."""

Indices = NDArray[np.int64]


def no_change_log_odds(last: Vector, stayed: Vector, changed: Vector, reg: float = 1.0) -> Vector:
    """Return the log-odds of label +1 if it stays at `last` (-1, +1; 0: none yet) as often as it did so far."""
    return last * np.log((stayed + reg) / (changed + reg))


def base_rate_log_odds(negative: Vector, positive: Vector, reg: float = 1.0) -> Vector:
    """Return the log-odds of label +1 from the counts of both labels."""
    return np.log((positive + reg) / (negative + reg))


class Baselines:
    """Both baselines over one stream whose labels may come late, or never.

    Parameters
    ----------
    binary
        Whether labels are two classes, 0 and 1.
    delay
        Labels become known so many rows late.

    Examples
    --------
    >>> baselines = Baselines(binary=False)
    >>> baselines.play(np.array([2.0, 4.0, np.nan, 9.0])).tolist()
    [[0.0, 0.0], [2.0, 2.0], [4.0, 3.0], [4.0, 3.0]]
    """

    def __init__(self, *, binary: bool, delay: int = 0) -> None:
        self.binary = binary
        self.waiting = np.zeros((delay, 5 if binary else 3))  # states that rows to come may use, oldest first
        self.state = np.zeros(5 if binary else 3)

    def play(self, y: Vector) -> Matrix:
        """Return both predictions for each of the next rows (n, 2), then take their labels in."""
        after = self._class_states(y) if self.binary else self._number_states(y)
        full = np.concatenate((self.waiting, after[:-1]))
        self.waiting, self.state = full[len(y) :].copy(), after[-1].copy()
        columns = full[: len(y)].T
        if self.binary:
            last, stayed, changed, negative, positive = columns
            same = no_change_log_odds(last, stayed, changed)
            return np.column_stack([same, base_rate_log_odds(negative, positive)])
        last, total, count = columns
        return np.column_stack([last, total / np.maximum(count, 1.0)])

    def _number_states(self, y: Vector) -> Matrix:
        """Return (last label, sum, count) before the first row and after each."""
        known = ~np.isnan(y)
        last, total, count = self.state
        return np.column_stack(
            [
                _last_known(last, y, known),
                _running_sum(total, np.where(known, y, 0.0)),
                _running_sum(count, known.astype(np.float64)),
            ]
        )

    def _class_states(self, y: Vector) -> Matrix:
        """Return (last sign, stayed, changed, labels 0, labels 1) before the first row and after each."""
        known, sign = ~np.isnan(y), 2.0 * y - 1.0
        last = _last_known(self.state[0], sign, known)
        product = np.where(known, last[:-1] * sign, 0.0)
        events = [event.astype(np.float64) for event in (product > 0.0, product < 0.0, sign < 0.0, sign > 0.0)]
        return np.column_stack([last, *(_running_sum(s, e) for s, e in zip(self.state[1:], events, strict=True))])


class ClassBaselines:
    """Both baselines over one stream of several classes, of which some may appear later; labels may come late.

    Of the probability, 1/(t + 1) is kept for a class that is not among the t labels known so far.

    Parameters
    ----------
    delay
        Labels become known so many rows late.

    Examples
    --------
    >>> same, frequent = ClassBaselines().play(np.array([0.0, 1.0, 1.0]), 2)
    >>> frequent.round(3).tolist()
    [[nan, nan], [0.5, nan], [0.333, 0.333]]
    """

    def __init__(self, *, delay: int = 0) -> None:
        self.delay = delay
        self.waiting = np.zeros(0)  # labels that rows to come may not use yet, oldest first
        self.state = np.zeros(3)  # last label, stayed, changed, then how often each class came

    def play(self, y: Vector, classes: int) -> tuple[Matrix, Matrix]:
        """Return both predictions for each of the next rows (n, classes), then take their labels in.

        They are NaN for classes that have not come yet, of which there are `classes` with those.
        """
        same, frequent = np.full((len(y), classes), np.nan), np.full((len(y), classes), np.nan)
        waiting = self.waiting.tolist()
        for t, label in enumerate(y.tolist()):
            self._predict(same[t], frequent[t])
            waiting.append(label)
            if len(waiting) > self.delay:
                self._learn(waiting.pop(0))
        self.waiting = np.array(waiting)
        return same, frequent

    def _predict(self, same: Vector, frequent: Vector) -> None:
        last, stayed, changed = self.state[:3]
        seen = np.flatnonzero(self.state[3:])
        counts = self.state[3 + seen]
        K, t = len(seen), float(np.sum(counts))
        if not K:
            return
        known = t / (t + 1.0)
        frequent[seen] = known * (counts + 1.0) / (t + K)
        stays = (stayed + 1.0) / (stayed + changed + 2.0) if K > 1 else 1.0
        same[seen] = known * (1.0 - stays) / max(K - 1.0, 1.0)
        same[int(last)] = known * stays

    def _learn(self, label: float) -> None:
        if np.isnan(label):
            return
        if self.state[3:].any():
            self.state[1 if label == self.state[0] else 2] += 1.0
        at = 3 + int(label)
        if at >= len(self.state):
            self.state = np.pad(self.state, (0, at + 1 - len(self.state)))
        self.state[0], self.state[at] = label, self.state[at] + 1.0


def _last_known(before: float, series: Vector, known: NDArray[np.bool_]) -> Vector:
    """Return the last known value before the first row and after each."""
    at = np.maximum.accumulate(np.where(known, np.arange(1, len(series) + 1), 0))
    return np.concatenate(([before], series))[np.concatenate(([0], at))]


def _running_sum(before: float, series: Vector) -> Vector:
    return np.add.accumulate(np.concatenate(([before], series)))


def grouped_baselines(y: Vector, starts: Indices, *, binary: bool) -> list[Vector]:
    """Return both baselines over many streams, one after the other in `y`, each from its own labels alone.

    Parameters
    ----------
    y
        Labels, all of them known; positive above 0 where `binary`.
    starts
        Where each stream begins in `y`.
    binary
        Whether labels are two classes.
    """
    sizes = np.diff(np.append(starts, len(y)))
    age = np.arange(len(y)) - np.repeat(starts, sizes)
    series = np.where(y > 0.0, 1.0, -1.0) if binary else y
    last = np.concatenate(([0.0], series[:-1]))
    last[starts] = 0.0
    if not binary:
        total = np.zeros(len(y))
        for a, n in zip(starts.tolist(), sizes.tolist(), strict=True):  # one sum over all would mix their rounding
            np.add.accumulate(y[a : a + n - 1], out=total[a + 1 : a + n])
        return [last, total / np.maximum(age, 1)]

    def count_before(events: NDArray[np.bool_]) -> Vector:
        """Count the earlier rounds of a stream; whole numbers, so one sum over all streams is exact."""
        total = np.concatenate(([0.0], np.cumsum(events)))[:-1]
        return np.asarray(total - np.repeat(total[starts], sizes))

    product = last * series
    positive = count_before(series > 0.0)
    same = no_change_log_odds(last, count_before(product > 0.0), count_before(product < 0.0))
    return [same, base_rate_log_odds(age - positive, positive)]

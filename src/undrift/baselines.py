"""Naive baselines: what needs no learning, and what anything useful must beat.

| task | first baseline | second baseline |
|---|---|---|
| regression | the last value | the mean so far |
| classification | same as last time, as sure as labels stayed so far | the base rate of the positive class so far |

Predictions of classes are log-odds; counts begin at 1, so that nothing is ever certain. A round is predicted from the
labels known before it, 0 where there are none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector

BASELINES = {"regression": ("last value", "running mean"), "classification": ("same as last time", "base rate")}
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

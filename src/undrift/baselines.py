"""Naive baselines: what needs no learning, and what anything useful must beat.

| task | first baseline | second baseline |
|---|---|---|
| regression | the last value | the mean so far |
| classification | same as last time, as sure as labels stayed so far | the base rate of the positive class so far |
| multiclass | same as last time, likewise | each class as often as it came so far |

Predictions of two classes are log-odds, of several probabilities; counts begin at 1, so that nothing is ever certain. A
round is predicted from the labels known before it, 0 where there are none.

Where a season is known, or lags are features, the label of so many rows ago is one more baseline each ("same as 168
rows ago"), of two classes as sure as labels stayed over so many rows. It is scored on all rows: where that label is not
known, the longest other lag that divides it (a day in place of the week) stands in for it, else the first baseline.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def baseline_names(task: str, lags: Sequence[int] = ()) -> list[str]:
    """Return the names of the baselines of a task, those of the lags last.

    >>> baseline_names("regression", [24])
    ['last value', 'running mean', 'same as 24 rows ago']
    """
    return [*BASELINES[task], *(f"same as {lag} rows ago" for lag in lags)]


def take_lags(last: Vector, y: Vector, lags: Sequence[int]) -> tuple[Matrix, Vector]:
    """Return for rows with labels y those of so many rows ago (n, lags), and the last labels after these rows.

    `last` are the labels before these rows, as many as the longest lag, NaN where there is none.

    >>> take_lags(np.array([5.0, 6.0]), np.array([7.0, 8.0, 9.0]), (1, 2))[0].tolist()
    [[6.0, 5.0], [7.0, 6.0], [8.0, 7.0]]
    """
    series, longest = np.concatenate((last, y)), len(last)
    out = np.empty((len(y), len(lags)))
    for k, lag in enumerate(lags):
        out[:, k] = series[longest - lag : len(series) - lag]
    return out, series[len(series) - longest :]


def no_change_log_odds(last: Vector, stayed: Vector, changed: Vector, reg: float = 1.0) -> Vector:
    """Return the log-odds of label +1 if it stays at `last` (-1, +1; 0: none yet) as often as it did so far."""
    return last * np.log((stayed + reg) / (changed + reg))


def base_rate_log_odds(negative: Vector, positive: Vector, reg: float = 1.0) -> Vector:
    """Return the log-odds of label +1 from the counts of both labels."""
    return np.log((positive + reg) / (negative + reg))


class Baselines:
    """The baselines of one stream whose labels may come late, or never.

    Parameters
    ----------
    binary
        Whether labels are two classes, 0 and 1.
    delay
        Labels become known so many rows late.
    lags
        Rows ago whose label is a baseline too, ascending, each more than `delay`.

    Examples
    --------
    >>> baselines = Baselines(binary=False)
    >>> baselines.play(np.array([2.0, 4.0, np.nan, 9.0])).tolist()
    [[0.0, 0.0], [2.0, 2.0], [4.0, 3.0], [4.0, 3.0]]
    >>> Baselines(binary=False, lags=[2]).play(np.array([2.0, 4.0, np.nan, 9.0]))[:, 2].tolist()
    [0.0, 2.0, 2.0, 4.0]
    """

    def __init__(self, *, binary: bool, delay: int = 0, lags: Sequence[int] = ()) -> None:
        self.binary, self.lags = binary, tuple(lags)
        width = 5 + 2 * len(self.lags) if binary else 3
        self.waiting = np.zeros((delay, width))  # states that rows to come may use, oldest first
        self.state = np.zeros(width)
        self.past = np.full(max(self.lags, default=0), np.nan)  # the last labels, for the lags

    def play(self, y: Vector) -> Matrix:
        """Return all predictions for each of the next rows (n, baselines), then take their labels in."""
        earlier, self.past = take_lags(self.past, y, self.lags)
        after = self._class_states(y, earlier) if self.binary else self._number_states(y)
        full = np.concatenate((self.waiting, after[:-1]))
        self.waiting, self.state = full[len(y) :].copy(), after[-1].copy()
        columns = full[: len(y)].T
        if self.binary:
            last, stayed, changed, negative, positive, *pairs = columns
            first, second = no_change_log_odds(last, stayed, changed), base_rate_log_odds(negative, positive)
            lagged = [
                no_change_log_odds(2.0 * label - 1.0, *counts)
                for label, *counts in zip(earlier.T, pairs[::2], pairs[1::2], strict=True)
            ]
        else:
            first, total, count = columns
            second, lagged = total / np.maximum(count, 1.0), list(earlier.T)
        return np.column_stack([first, second, *_fill_in(first, self.lags, lagged)])

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

    def _class_states(self, y: Vector, earlier: Matrix) -> Matrix:
        """Return (last sign, stayed, changed, labels 0, labels 1, then stayed and changed over each lag).

        They are those before the first row and after each.
        """
        known, sign = ~np.isnan(y), 2.0 * y - 1.0
        last = _last_known(self.state[0], sign, known)
        product = np.where(known, last[:-1] * sign, 0.0)
        events = [product > 0.0, product < 0.0, sign < 0.0, sign > 0.0]
        for label in earlier.T:
            events += [label == y, (label == 1.0 - y)]
        counts = [_running_sum(s, e.astype(np.float64)) for s, e in zip(self.state[1:], events, strict=True)]
        return np.column_stack([last, *counts])


class ClassBaselines:
    """The baselines of one stream of several classes, of which some may appear later; labels may come late.

    Of the probability, 1/(t + 1) is kept for a class that is not among the t labels known so far.

    Parameters
    ----------
    delay
        Labels become known so many rows late.
    lags
        Rows ago whose class is a baseline too, ascending, each more than `delay`.

    Examples
    --------
    >>> same, frequent = ClassBaselines().play(np.array([0.0, 1.0, 1.0]), 2)
    >>> frequent.round(3).tolist()
    [[nan, nan], [0.5, nan], [0.333, 0.333]]
    """

    def __init__(self, *, delay: int = 0, lags: Sequence[int] = ()) -> None:
        self.delay, self.lags = delay, tuple(lags)
        self.waiting = np.zeros(0)  # labels that rows to come may not use yet, oldest first
        self._head = 3 + 2 * len(self.lags)
        # last label, stayed, changed, then stayed and changed over each lag, then how often each class came
        self.state = np.zeros(self._head)
        self.past = np.full(delay + max(self.lags) if self.lags else 0, np.nan)  # the last labels, for the lags

    def play(self, y: Vector, classes: int) -> list[Matrix]:
        """Return all predictions for each of the next rows (n, classes), then take their labels in.

        They are NaN for classes that have not come yet, of which there are `classes` with those.
        """
        guesses = [np.full((len(y), classes), np.nan) for _ in range(2 + len(self.lags))]
        waiting, series, before = self.waiting.tolist(), np.concatenate((self.past, y)).tolist(), len(self.past)
        for t, label in enumerate(y.tolist()):
            self._predict([guess[t] for guess in guesses], [series[before + t - lag] for lag in self.lags])
            waiting.append(label)
            if len(waiting) > self.delay:
                row = before + t - self.delay
                self._learn(waiting.pop(0), [series[row - lag] for lag in self.lags])
        self.waiting, self.past = np.array(waiting), np.array(series[len(y) :])
        return guesses

    def _predict(self, out: list[Vector], earlier: list[float]) -> None:
        """Fill in the predictions of one row, to which `earlier` labels belong by lag."""
        seen = np.flatnonzero(self.state[self._head :])
        counts = self.state[self._head + seen]
        K, t = len(seen), float(np.sum(counts))
        if not K:
            return
        known = t / (t + 1.0)
        same, frequent, *lagged = out
        frequent[seen] = known * (counts + 1.0) / (t + K)

        def repeat(p: Vector, label: float, stayed: float, changed: float) -> None:
            stays = (stayed + 1.0) / (stayed + changed + 2.0) if K > 1 else 1.0
            p[seen] = known * (1.0 - stays) / max(K - 1.0, 1.0)
            p[int(label)] = known * stays

        repeat(same, self.state[0], *self.state[1:3])
        for j, label in enumerate(earlier):
            if label == label:
                repeat(lagged[j], label, *self.state[3 + 2 * j : 5 + 2 * j])
        for p, filled in zip(lagged, _fill_in(same, self.lags, lagged), strict=True):
            p[seen] = filled[seen]

    def _learn(self, label: float, earlier: list[float]) -> None:
        """Count one label, to which `earlier` labels belong by lag."""
        if np.isnan(label):
            return
        if self.state[self._head :].any():
            self.state[1 if label == self.state[0] else 2] += 1.0
        for j, before in enumerate(earlier):
            if before == before:
                self.state[3 + 2 * j + (label != before)] += 1.0
        at = self._head + int(label)
        if at >= len(self.state):
            self.state = np.pad(self.state, (0, at + 1 - len(self.state)))
        self.state[0], self.state[at] = label, self.state[at] + 1.0


def _fill_in(first: Vector, lags: Sequence[int], lagged: Sequence[Vector]) -> list[Vector]:
    """Return the guesses of lags in ascending order, NaN filled by the longest lag that divides it, else by `first`."""
    out: dict[int, Vector] = {}
    for lag, guess in zip(lags, lagged, strict=True):
        shorter = max((other for other in out if lag % other == 0), default=0)
        out[lag] = np.where(np.isnan(guess), out.get(shorter, first), guess)
    return list(out.values())


def _last_known(before: float, series: Vector, known: NDArray[np.bool_]) -> Vector:
    """Return the last known value before the first row and after each."""
    at = np.maximum.accumulate(np.where(known, np.arange(1, len(series) + 1), 0))
    return np.concatenate(([before], series))[np.concatenate(([0], at))]


def _running_sum(before: float, series: Vector) -> Vector:
    return np.add.accumulate(np.concatenate(([before], series)))


def grouped_baselines(y: Vector, starts: Indices, *, binary: bool, lags: Sequence[int] = ()) -> list[Vector]:
    """Return the baselines of many streams, one after the other in `y`, each from its own labels alone.

    Parameters
    ----------
    y
        Labels, all of them known; positive above 0 where `binary`.
    starts
        Where each stream begins in `y`.
    binary
        Whether labels are two classes.
    lags
        Rows of the stream ago whose label is a baseline too, ascending.
    """
    sizes = np.diff(np.append(starts, len(y)))
    age = np.arange(len(y)) - np.repeat(starts, sizes)
    series = np.where(y > 0.0, 1.0, -1.0) if binary else y

    def count_before(events: NDArray[np.bool_]) -> Vector:
        """Count the earlier rounds of a stream; whole numbers, so one sum over all streams is exact."""
        total = np.concatenate(([0.0], np.cumsum(events)))[:-1]
        return np.asarray(total - np.repeat(total[starts], sizes))

    def repeat_label(lag: int) -> Vector:
        """Return the label of so many rows ago, or its log-odds of two classes; 0 where there is none."""
        there = age >= lag
        earlier = np.where(there, series[np.maximum(np.arange(len(y)) - lag, 0)], 0.0)
        if not binary:
            return earlier
        product = earlier * series
        return no_change_log_odds(earlier, count_before(product > 0.0), count_before(product < 0.0))

    first = repeat_label(1)
    if binary:
        positive = count_before(series > 0.0)
        second = base_rate_log_odds(age - positive, positive)
    else:
        total = np.zeros(len(y))
        for a, n in zip(starts.tolist(), sizes.tolist(), strict=True):  # one sum over all would mix their rounding
            np.add.accumulate(y[a : a + n - 1], out=total[a + 1 : a + n])
        second = total / np.maximum(age, 1)
    lagged = [np.where(age >= lag, repeat_label(lag), np.nan) for lag in lags]
    return [first, second, *_fill_in(first, lags, lagged)]

"""The naive guesses, made from the labels that were known by then."""

from __future__ import annotations

import numpy as np

from undrift._typing import Matrix, Vector


class Baselines:
    """Last value and running mean, or the odds of "same as last time" and of the base rate; labels may come late.

    Parameters
    ----------
    binary
        Whether labels are 0 and 1.
    delay
        Labels become known so many rows late.

    Examples
    --------
    >>> guesses = Baselines(binary=False, delay=0)
    >>> guesses.play(np.array([2.0, 4.0, np.nan, 9.0])).tolist()
    [[0.0, 0.0], [2.0, 2.0], [4.0, 3.0], [4.0, 3.0]]
    """

    def __init__(self, *, binary: bool, delay: int) -> None:
        self.binary = binary
        self.waiting = np.zeros((delay, 5 if binary else 3))  # states that rows to come may use, oldest first
        self.state = np.zeros(5 if binary else 3)

    def play(self, y: Vector) -> Matrix:
        """Return both guesses for each of the next rows, then take their labels in."""
        after = self._classes(y) if self.binary else self._numbers(y)
        full = np.concatenate((self.waiting, after[:-1]))
        self.waiting, self.state = full[len(y) :].copy(), after[-1].copy()
        used = full[: len(y)]
        if self.binary:
            last, stayed, changed, minus, plus = used.T
            same = last * np.log((stayed + 1.0) / (changed + 1.0))
            return np.column_stack([same, np.log((plus + 1.0) / (minus + 1.0))])
        last, total, count = used.T
        return np.column_stack([last, total / np.maximum(count, 1.0)])

    def _numbers(self, y: Vector) -> Matrix:
        """Return (last label, sum, count) before the first row and after each."""
        known = ~np.isnan(y)
        last, total, count = self.state
        return np.column_stack(
            [_last(last, y, known), _sums(total, np.where(known, y, 0.0)), _sums(count, known.astype(np.float64))]
        )

    def _classes(self, y: Vector) -> Matrix:
        """Return (last sign, stayed, changed, labels 0, labels 1) before the first row and after each."""
        known, sign = ~np.isnan(y), 2.0 * y - 1.0
        last = _last(self.state[0], sign, known)
        product = np.where(known, last[:-1] * sign, 0.0)
        events = [event.astype(np.float64) for event in (product > 0.0, product < 0.0, sign < 0.0, sign > 0.0)]
        return np.column_stack([last, *(_sums(s, e) for s, e in zip(self.state[1:], events, strict=True))])


def _last(before: float, series: Vector, known: Vector) -> Vector:
    """Return the last known value before the first row and after each."""
    at = np.maximum.accumulate(np.where(known, np.arange(1, len(series) + 1), 0))
    return np.concatenate(([before], series))[np.concatenate(([0], at))]


def _sums(before: float, series: Vector) -> Vector:
    return np.add.accumulate(np.concatenate(([before], series)))

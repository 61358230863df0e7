"""The level of features before a change and since it began, to be told when a change is found.

Where a change began is told by the cumulative sum of the log bets on a rise (or fall) of one deviation, never below
zero: it began after the last row at which that sum was zero (Page's test).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Vector

ROWS = 100
"""Rows over which the usual level is a mean, about."""
SHIFT = 1.0
"""The change that is betted on, in deviations."""


class Levels:
    """The usual level of each feature, and for both ways, up and down, its mean since it may have changed that way."""

    def __init__(self, count: int) -> None:
        self._usual, self._rows = np.zeros(count), np.zeros(count)
        self._sums, self._before = np.zeros((2, count)), np.zeros((2, count))
        self._since, self._total = np.zeros((2, count)), np.zeros((2, count))  # rows since, and the sum of their values

    def add(self, previous: Vector, values: Vector, score: Vector, judged: NDArray[np.bool_]) -> None:
        """Take one row of the judged features in, with the value before each and the normal score of its change."""
        usual = np.where(self._rows == 0.0, previous, self._usual)
        anew = judged & (self._sums <= 0.0)
        self._before = np.where(anew, usual, self._before)
        self._since = np.where(anew, 0.0, self._since) + judged
        self._total = np.where(anew, 0.0, self._total) + np.where(judged, values, 0.0)
        self._rows = self._rows + judged
        step = (values - usual) / np.clip(self._rows, 1.0, ROWS)
        self._usual = np.where(judged, usual + step, usual)
        bets = SHIFT * np.stack([score, -score]) - SHIFT**2 / 2.0
        self._sums = np.where(judged, np.maximum(self._sums + bets, 0.0), self._sums)

    def tell(self, way: int, j: int) -> str:
        """Return how the level of feature j went, up (0) or down (1)."""
        before, now = float(self._before[way, j]), float(self._total[way, j] / max(self._since[way, j], 1.0))
        return "its level went from about {} to about {}".format(*_round_alike(before, now))

    def begin_anew(self, changed: NDArray[np.bool_]) -> None:
        """Take the level of the rows to come as the usual one of some features."""
        self._rows[changed], self._sums[:, changed] = 0.0, 0.0

    def arrays(self) -> list[NDArray[np.float64]]:
        """Return what later rows depend on, the very arrays."""
        return [self._usual, self._rows, self._sums, self._before, self._since, self._total]

    def resume(self, arrays: Sequence[Any]) -> None:
        """Go on from such arrays."""
        saved = [np.array(one, dtype=np.float64) for one in arrays]
        self._usual, self._rows, self._sums, self._before, self._since, self._total = saved


def _round_alike(a: float, b: float) -> tuple[str, str]:
    """Return two numbers with the digits that tell them apart.

    >>> _round_alike(1013.2467, 1019.871), _round_alike(-0.2684, 0.0012)
    (('1013.2', '1019.9'), ('-0.27', '0'))
    """
    digits = 1 - math.floor(math.log10(abs(b - a))) if math.isfinite(b - a) and b != a else 6
    return f"{round(a, digits) + 0.0:.12g}", f"{round(b, digits) + 0.0:.12g}"  # -0 becomes 0

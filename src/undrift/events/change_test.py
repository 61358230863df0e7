r"""A test that may be looked at after every row, and whose false alarms are far apart.

Of a number that comes every row, let $\Lambda_t\ge0$ have mean at most 1, given the past, while nothing changes: a bet
on a change. The Shiryaev-Roberts sum $R_t=(1+R_{t-1})\Lambda_t$ then has $\mathbb E[R_t]\le t$, so that $R_t-t$ falls
on average, and by optional stopping the first row with $R_t\ge A$ comes after $A$ rows or more, on average. A mean of
several such sums is one again. No number of rows is fixed in advance, and looking costs nothing.

Bets here are on normal scores: with the rank of a number among the last ones, $x=\Phi^{-1}(\text{rank})$ is about
standard normal while the numbers are exchangeable, whatever their distribution, and
$\Lambda=e^{\delta x-\delta^2/2}$ bets that it rose by $\delta$.
"""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np

WINDOW = 1000
"""Numbers among which a new one is ranked."""
LEAST = 100
"""Numbers before the first rank is taken."""
SHIFTS = (0.5, 1.0, 1.5)
"""Changes that are betted on, in deviations."""
_NORMAL = NormalDist()


SCORES = np.array([_NORMAL.inv_cdf(k / 4000.0) for k in range(1, 4000)])
"""Normal scores of the ranks 1/4000, 2/4000, ...: those between them, read off it, are right to three digits."""


class Resumable(Protocol):
    """Something that can be written down, and go on later."""

    def state(self) -> Any:
        """Return what comes next depends on, as JSON values."""

    def resume(self, state: Any, /) -> None:
        """Go on where `state` left off."""


def states(parts: Sequence[Resumable]) -> list[Any]:
    """Return the states of several parts."""
    return [one.state() for one in parts]


def resume_all(parts: Sequence[Resumable], saved: Sequence[Any]) -> None:
    """Let several parts go on."""
    for part, state in zip(parts, saved, strict=True):
        part.resume(state)


class RankScores:
    """The normal score of each number among the last `window` before it."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, value: float) -> float | None:
        """Return the score of a number, None while there are too few; then keep it."""
        score = None
        if len(self._sorted) >= LEAST:
            below = bisect.bisect_left(self._sorted, value) + bisect.bisect_right(self._sorted, value)
            score = _NORMAL.inv_cdf((below / 2.0 + 0.5) / (len(self._sorted) + 1.0))
        self._recent.append(value)
        bisect.insort(self._sorted, value)
        if len(self._recent) > self._window:
            self._sorted.pop(bisect.bisect_left(self._sorted, self._recent.popleft()))
        return score

    def forget(self) -> None:
        """Begin anew: after a change, the past is no measure any more."""
        self._recent.clear()
        self._sorted.clear()

    def median(self) -> float:
        """Return the middle of the numbers that are kept."""
        return self._sorted[len(self._sorted) // 2] if self._sorted else math.nan

    def state(self) -> list[float]:
        """Return the numbers that are kept."""
        return list(self._recent)

    def resume(self, values: Sequence[float]) -> None:
        """Go on from these numbers."""
        self._recent, self._sorted = deque(values), sorted(values)


class ChangeTest:
    """Shiryaev-Roberts sums of several bets at once.

    Parameters
    ----------
    rows_between_alarms
        Mean number of rows between two false alarms, at least.
    bets
        How many bets are given each time; by default those of `bet_on_rise`.
    """

    def __init__(self, rows_between_alarms: float, bets: int = len(SHIFTS)) -> None:
        self._limit = rows_between_alarms
        self._sums = [0.0] * bets

    def add(self, ratios: Sequence[float]) -> bool:
        """Take the bets of one row in; whether they say that something changed (they then begin anew)."""
        self._sums = [min((1.0 + old) * ratio, 1e300) for old, ratio in zip(self._sums, ratios, strict=True)]
        if sum(self._sums) / len(self._sums) < self._limit:
            return False
        self._sums = [0.0] * len(self._sums)
        return True

    def state(self) -> list[float]:
        """Return the sums."""
        return list(self._sums)

    def resume(self, sums: Sequence[float]) -> None:
        """Go on from these sums."""
        self._sums = [float(one) for one in sums]


def bet_on_rise(score: float) -> list[float]:
    """Return the bets that a number, of this normal score, has risen against its own past; one for each of SHIFTS."""
    return [math.exp(shift * score - shift * shift / 2.0) for shift in SHIFTS]

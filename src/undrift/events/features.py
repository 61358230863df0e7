"""Events that rows bring, before any label: features are frozen, missing, or have another level.

All features are looked at together, a row at a time: an array holds a number for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Vector
from undrift.events.change_test import LEAST, SHIFTS, normal_scores
from undrift.events.event import EventKind

LEVEL_ROWS = 100
"""Rows over which the usual level is a mean, about."""
SHIFT = 1.0
"""The change that is betted on, in deviations."""


class Levels:
    """The usual level of each feature, and for both ways, up and down, its mean since it may have changed that way.

    A change began after the last row at which the cumulative sum of the log bets on a rise (or fall) of one deviation,
    never below zero, was zero (Page's test).
    """

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
        step = (values - usual) / np.clip(self._rows, 1.0, LEVEL_ROWS)
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


WINDOW = 500
"""Values among which a new one is ranked."""
ALWAYS = 0.999
"""The bet on a run: that it goes on with this probability."""
REPEATS = 0.1
"""Largest part of rows that repeat the value before them, for the level to be judged."""
Flags = NDArray[np.bool_]


class RunTests:
    """Whether something that happens in runs (a hole, a repeated value) goes on for longer than it ever did.

    How often it happens after it happened, and after it did not, is counted, a run when it is over; the bet is that it
    always happens from now on. What was so from the first row on is no change, and one run is told once.
    """

    def __init__(self, count: int, rows_between_alarms: float) -> None:
        self._limit = rows_between_alarms
        self._sums, self._rows, self._run = np.zeros(count), np.zeros(count), np.zeros(count)
        self._counts = np.ones((4, count))  # no after no, yes after no, no after yes, yes after yes
        self._stopped, self._told = np.zeros(count), np.zeros(count)

    def add(self, happened: Flags, given: Flags) -> Flags:
        """Take one row in, of the features that are given; return for which it goes on for too long."""
        after = self._run > 0.0
        no, yes = np.where(after, self._counts[2:], self._counts[:2])
        usual = np.where(happened, yes, no) / (no + yes)
        ratio = np.where(happened, ALWAYS, 1.0 - ALWAYS) / usual
        ends = given & ~happened
        self._count_runs(ends, after)
        self._rows += given
        self._stopped[ends] = 1.0
        self._told[ends] = 0.0
        self._run = np.where(given, np.where(happened, self._run + 1.0, 0.0), self._run)
        judged = given & (self._rows > LEAST) & (self._stopped > 0.0) & (self._told == 0.0)
        self._sums = np.where(judged, np.minimum((1.0 + self._sums) * ratio, 1e300), self._sums)
        over = judged & (self._sums >= self._limit)
        self._sums[over] = 0.0
        new = over & happened
        self._told[new] = 1.0
        return np.asarray(new)

    def _count_runs(self, ends: Flags, after: Flags) -> None:
        """Count the runs that are over, and the rows that ended them or that no run was before."""
        self._counts[0] += ends & ~after
        over = ends & after
        self._counts[1] += over
        self._counts[2] += over
        self._counts[3] += np.where(over, self._run - 1.0, 0.0)

    def share(self) -> Vector:
        """Return in which part of the rows it happened."""
        return np.asarray((self._counts[1] + self._counts[3]) / self._counts.sum(axis=0))

    def arrays(self) -> list[NDArray[np.float64]]:
        """Return what later rows depend on, the very arrays."""
        return [self._sums, self._rows, self._run, self._counts, self._stopped, self._told]

    def resume(self, arrays: Sequence[Any]) -> None:
        """Go on from such arrays."""
        saved = [np.array(one, dtype=np.float64) for one in arrays]
        self._sums, self._rows, self._run, self._counts, self._stopped, self._told = saved


class FeatureWatch:
    """Features by name. A level is judged on what the feature's last value did not foretell.

    The value is regressed on the one before it, over all rows so far: features that wander slowly and come back do not
    look shifted. Those that often repeat a value (counts, flags, rain) are watched for freezing and holes alone.
    """

    def __init__(self, names: Sequence[str], rows_between_alarms: float) -> None:
        self.names, count = list(names), len(names)
        self._limit = 4.0 * rows_between_alarms * count
        self._frozen, self._missing = RunTests(count, self._limit), RunTests(count, self._limit)
        self._last = np.full(count, math.nan)
        self._moments = np.zeros((5, count))  # count, means of before and now, variance of before, covariance
        self._past = np.full((WINDOW, count), math.nan)
        self._place = np.zeros(count)
        self._sums = np.zeros((2, len(SHIFTS), count))  # up and down, for each bet
        self._levels = Levels(count)

    def add(self, values: Vector) -> Iterator[tuple[EventKind, str, str]]:
        """Take one row in, NaN where a feature is missing; yield what changed, the feature, and a sentence."""
        there = ~np.isnan(values)
        for j in np.flatnonzero(self._missing.add(~there, np.ones(len(values), bool))):
            yield EventKind.FEATURE_MISSING, self.names[j], "it stays missing for longer than it ever did"
        before = self._last
        self._last = np.where(there, values, before)
        pair = there & ~np.isnan(before)
        same = pair & (values == before)
        for j in np.flatnonzero(self._frozen.add(same, pair)):
            sentence = f"it has been {values[j]:.6g} for longer than it ever kept a value"
            yield EventKind.FEATURE_FROZEN, self.names[j], sentence
        judged = pair & ~same & (self._frozen.share() <= REPEATS)
        if not judged.any():
            return
        found = self._find_shifts(before, values, judged)
        for way, j in zip(*np.nonzero(found), strict=True):
            yield EventKind.FEATURE_SHIFTED, self.names[j], self._levels.tell(int(way), int(j))
        self._levels.begin_anew(np.asarray(found.any(axis=0)))

    def _find_shifts(self, before: Vector, values: Vector, judged: Flags) -> NDArray[np.bool_]:
        """Return which features went up and which went down (2, features)."""
        news = np.where(judged, values - self._foretell(before), 0.0)
        self._learn(before, values, judged)
        known = ~np.isnan(self._past)
        count = known.sum(axis=0)
        below = (self._past < news).sum(axis=0) + 0.5 * (self._past == news).sum(axis=0)
        score = normal_scores((below + 0.5) / (count + 1.0))
        self._past[self._place[judged].astype(np.intp), np.flatnonzero(judged)] = news[judged]
        self._place[judged] = (self._place[judged] + 1.0) % WINDOW
        ranked = judged & (count >= LEAST)
        self._levels.add(before, values, np.where(ranked, score, 0.0), judged)
        shifts = np.array(SHIFTS)[:, None]
        bets = np.exp(np.stack([shifts * score, -shifts * score]) - shifts**2 / 2.0)
        self._sums = np.where(ranked, np.minimum((1.0 + self._sums) * bets, 1e300), self._sums)
        found = ranked & (self._sums.mean(axis=1) >= self._limit)
        either = found.any(axis=0)
        if either.any():  # after a change, the past is no measure any more
            self._sums[:, :, either], self._past[:, either], self._place[either] = 0.0, math.nan, 0.0
            self._moments[:, either] = 0.0
        return np.asarray(found)

    def _foretell(self, before: Vector) -> Vector:
        """Return what the values before say about these."""
        _, mean_before, mean_now, variance, covariance = self._moments
        slope = np.clip(covariance / np.where(variance > 0.0, variance, 1.0), -1.0, 1.0)
        return mean_now + slope * (before - mean_before)

    def _learn(self, before: Vector, now: Vector, judged: Flags) -> None:
        moments = self._moments[:, judged]
        away = before[judged] - moments[1]
        moments[0] += 1.0
        moments[1] += away / moments[0]
        moments[2] += (now[judged] - moments[2]) / moments[0]
        moments[3] += away * (before[judged] - moments[1])
        moments[4] += away * (now[judged] - moments[2])
        self._moments[:, judged] = moments

    def state(self) -> Any:
        """Return what later rows depend on, as JSON values."""
        arrays = [self._last, self._moments, self._past, self._place, self._sums]
        parts = [one.arrays() for one in (self._frozen, self._missing, self._levels)]
        return [self.names, [_plain(one) for one in arrays], [[_plain(one) for one in part] for part in parts]]

    def resume(self, state: Any) -> None:
        """Go on where `state` left off."""
        _, arrays, parts = state
        saved = [np.array(one, dtype=np.float64) for one in arrays]  # None becomes NaN
        self._last, self._moments, self._past, self._place, self._sums = saved
        self._frozen.resume(parts[0])
        self._missing.resume(parts[1])
        if len(parts) > 2:  # states of earlier versions have no levels: they are those of the rows to come
            self._levels.resume(parts[2])


def _plain(array: NDArray[np.float64]) -> Any:
    """Return an array as nested lists, None for NaN."""
    if array.ndim > 1:
        return [_plain(one) for one in array]
    return [None if math.isnan(value) else value for value in array.tolist()]

"""Events that rows bring, before any label: a feature is frozen, missing, or has another level."""

from __future__ import annotations

import math
from typing import Any

from undrift.events.change_test import RankScores, Resumable, RiseTest, RunTest, resume_all, states
from undrift.events.event import EventKind
from undrift.events.rounds import Found


class FeatureWatch:
    """One feature. A level is judged on what the feature's last value did not foretell.

    The value is regressed on the one before it, over all rows so far: features that wander slowly and come back do not
    look shifted. Features that often repeat a value (counts, flags, rain) are watched for freezing and holes alone.
    """

    REPEATS = 0.1
    """Largest part of rows that repeat the value before them, for the level to be judged."""

    def __init__(self, rows_between_alarms: float) -> None:
        each = 4.0 * rows_between_alarms
        self._frozen, self._missing = RunTest(each), RunTest(each)
        self._scores, self._up, self._down = RankScores(), RiseTest(each), RiseTest(each)
        self._last = math.nan
        self._sums = [0.0] * 5  # count, means of (before, now), variance sum of before, covariance sum

    def add(self, value: float) -> Found:
        """Take one value in, NaN where it is missing."""
        if self._missing.add(math.isnan(value)):
            yield EventKind.FEATURE_MISSING, "it stays missing for longer than it ever did"
        if math.isnan(value):
            return
        before, self._last = self._last, value
        if math.isnan(before):
            return
        if self._frozen.add(value == before):
            yield EventKind.FEATURE_FROZEN, f"it has been {value:.6g} for longer than it ever kept a value"
        if value == before or self._frozen.share() > self.REPEATS:
            return
        news = value - self._foretell(before)
        self._learn(before, value)
        score = self._scores.add(news)
        if score is None:
            return
        for test, signed, way in ((self._up, score, "up"), (self._down, -score, "down")):
            if test.add(signed):
                self._scores.forget()
                yield EventKind.FEATURE_SHIFTED, f"its level went {way}; it is {value:.6g} now"

    def _foretell(self, before: float) -> float:
        """Return what the value before says about this one."""
        _, mean_before, mean_now, variance, covariance = self._sums
        slope = covariance / variance if variance > 0.0 else 0.0
        return mean_now + max(-1.0, min(1.0, slope)) * (before - mean_before)

    def _learn(self, before: float, now: float) -> None:
        count, mean_before, mean_now, variance, covariance = self._sums
        count += 1.0
        away = before - mean_before
        mean_before += away / count
        mean_now += (now - mean_now) / count
        variance += away * (before - mean_before)
        covariance += away * (now - mean_now)
        self._sums = [count, mean_before, mean_now, variance, covariance]

    @property
    def _parts(self) -> tuple[Resumable, ...]:
        return self._frozen, self._missing, self._scores, self._up, self._down

    def state(self) -> Any:
        """Return what later rows depend on."""
        return [states(self._parts), None if math.isnan(self._last) else self._last, self._sums]

    def resume(self, state: Any) -> None:
        """Go on where `state` left off."""
        saved, last, self._sums = state
        self._last = math.nan if last is None else last
        resume_all(self._parts, saved)

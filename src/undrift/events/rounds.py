"""Events that labels bring: errors, intervals and the memory are not what they were."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Any

from undrift.events.change_test import WINDOW, ChangeTest, RankScores, Resumable, bet_on_rise, resume_all, states
from undrift.events.event import EventKind

MISSES = 2.5
"""The bet on coverage: so many times as many labels outside as the intervals say."""
PAST_CHECKS = 50
"""Looks at the memory that make its own past."""
SHORTER = math.log(12.0)
"""The memory is told to be shorter when it falls to a twelfth of its past."""
LONGER = math.log(4.0)
"""It can be told again once it is back within a quarter."""
CHECKS_TO_TELL = 2
"""Looks in a row that must agree."""

Found = Iterator[tuple[EventKind, str]]


class PartedWatch:
    """A watch that is made of parts, and goes on where they do."""

    _parts: tuple[Resumable, ...]

    def state(self) -> Any:
        """Return what later rounds depend on."""
        return states(self._parts)

    def resume(self, state: Any) -> None:
        """Go on where `state` left off."""
        resume_all(self._parts, state)


class ErrorWatch(PartedWatch):
    """Signed errors and their size, each ranked among the last ones."""

    def __init__(self, rows_between_alarms: float, window: int = WINDOW) -> None:
        each = 3.0 * rows_between_alarms
        self._signed, self._size = RankScores(window), RankScores(window)
        self._above, self._below, self._larger = ChangeTest(each), ChangeTest(each), ChangeTest(each)
        self._parts = self._signed, self._size, self._above, self._below, self._larger

    def add(self, error: float) -> Found:
        """Take label minus prediction in."""
        usual = self._size.median()
        signed, size = self._signed.add(error), self._size.add(abs(error))
        if signed is None or size is None:
            return
        for test, score, side in ((self._above, signed, "above"), (self._below, -signed, "below")):
            if test.add(bet_on_rise(score)):
                self._signed.forget()
                yield EventKind.ERROR_LEANS, f"labels lie {side} their predictions, as they did not use to"
        if self._larger.add(bet_on_rise(size)):
            self._size.forget()
            yield EventKind.ERROR_GREW, f"errors are larger than they used to be (half of them were below {usual:.3g})"


class ProbabilityWatch(PartedWatch):
    """Whether labels come as often as their probabilities say: a bet against the model's own words.

    `what` the probabilities are of, for sentences.
    """

    SHIFTS = (0.5, 1.0)
    """Changes of the log-odds that are betted on."""
    SHRINK = 0.5
    """Of the log-odds, if the model is too sure."""

    def __init__(self, rows_between_alarms: float, what: str = "the positive label") -> None:
        each, self._what = 3.0 * rows_between_alarms, what
        self._above, self._below = ChangeTest(each, len(self.SHIFTS)), ChangeTest(each, len(self.SHIFTS))
        self._sure = ChangeTest(each, 1)
        self._parts = self._above, self._below, self._sure

    def add(self, y: float, probability: float) -> Found:
        """Take a label, 0 or 1, and the probability of 1 in."""
        p = min(max(probability, 1e-6), 1.0 - 1e-6)
        odds = math.log(p / (1.0 - p))
        for test, sign, word in ((self._above, 1.0, "more"), (self._below, -1.0, "less")):
            if test.add([_likelihood_ratio(y, p, odds + sign * shift) for shift in self.SHIFTS]):
                yield EventKind.ERROR_LEANS, f"{self._what} comes {word} often than predicted"
        if self._sure.add([_likelihood_ratio(y, p, self.SHRINK * odds)]):
            yield EventKind.ERROR_GREW, "labels are less predictable than the model says"


def _likelihood_ratio(y: float, p: float, odds: float) -> float:
    """Return how much likelier a label is under other log-odds than under the probability p."""
    other = 1.0 / (1.0 + math.exp(-odds))
    return other / p if y > 0.0 else (1.0 - other) / (1.0 - p)


class CoverageWatch:
    """Whether labels fall outside their intervals as often as the intervals say."""

    def __init__(self, rows_between_alarms: float, level: float) -> None:
        self._level = level
        self._test = ChangeTest(rows_between_alarms, 1)

    def add(self, inside: bool) -> Found:
        """Take one label in."""
        usual = 1.0 - self._level
        bet = min(MISSES * usual, 0.5 * (1.0 + usual))
        if self._test.add([(1.0 - bet) / (1.0 - usual) if inside else bet / usual]):
            yield EventKind.COVERAGE_FELL, f"labels lie outside their {100 * self._level:g}% intervals too often"

    def state(self) -> Any:
        """Return what later rounds depend on."""
        return self._test.state()

    def resume(self, state: Any) -> None:
        """Go on where `state` left off."""
        self._test.resume(state)


class MemoryWatch:
    """Whether the model's memory has become much shorter than it was.

    A memory here is the geometric mean of the half-lives, by the weight that each has. It is looked at every few rows.
    """

    def __init__(self) -> None:
        self._past: deque[float] = deque(maxlen=PAST_CHECKS)
        self._short, self._told = 0, False

    def add(self, memory: float) -> Found:
        """Take the memory, in rounds, of this moment in."""
        now = math.log(memory)
        if len(self._past) == PAST_CHECKS:
            usual = sorted(self._past)[PAST_CHECKS // 2]
            self._short = self._short + 1 if now < usual - SHORTER else 0
            self._told = self._told and now < usual - LONGER
            if self._short >= CHECKS_TO_TELL and not self._told:
                self._told = True
                yield (
                    EventKind.MEMORY_SHORTENED,
                    f"rows count half after about {memory:.3g} rows now, where it was {math.exp(usual):.3g}: "
                    "the far past is of no use any more",
                )
        self._past.append(now)

    def state(self) -> Any:
        """Return what later looks depend on."""
        return [list(self._past), self._short, self._told]

    def resume(self, state: Any) -> None:
        """Go on where `state` left off."""
        past, self._short, self._told = state
        self._past = deque(past, maxlen=PAST_CHECKS)

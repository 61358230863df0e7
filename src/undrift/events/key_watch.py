"""KeyWatch: a watch small enough for each of a hundred thousand keys, and that knows no scale.

It is told what happened beside what the model said: labels inside or outside their intervals, or labels beside their
probabilities. The bets are those of `undrift.events.change_test`: with a limit of A rows for each key, the expected
number of false alarms over the n_k rows of every key k is at most the sum of n_k / A. So the mean number of rows of all
keys together between two false alarms is at least A, however many keys there are.
"""

from __future__ import annotations

from typing import Any

from undrift.events.rounds import CoverageWatch, Found, ProbabilityWatch

FIRST_ROUNDS = 30
"""Rounds of a key before it is judged: the first intervals rest on a handful of errors."""

LAST_MISSES = 5
"""Labels outside their interval from which the side is told."""


class KeyWatch:
    """Looks at the rounds of one key.

    Parameters
    ----------
    rows_between_alarms
        Mean number of rows between two false alarms, at least.
    level
        Of the intervals that are given.
    binary
        Whether labels are 0 and 1, and predictions the probability of 1.
    """

    __slots__ = ("_rounds", "_side", "_test")

    def __init__(self, rows_between_alarms: float = 5000.0, *, level: float = 0.9, binary: bool = False) -> None:
        each = rows_between_alarms
        self._test: CoverageWatch | ProbabilityWatch = ProbabilityWatch(each) if binary else CoverageWatch(each, level)
        self._rounds, self._side = 0, 0.0  # the side of the last labels outside: 1 above, -1 below

    def add(self, y: float, yhat: float, lower: float | None, upper: float | None) -> Found:
        """Take one label in, beside its prediction or probability and the ends of its interval."""
        self._rounds += 1
        if self._rounds <= FIRST_ROUNDS:
            return
        if isinstance(self._test, ProbabilityWatch):
            yield from self._test.add(y, yhat)
        elif lower is not None and upper is not None:
            inside = lower <= y <= upper
            if not inside:
                self._side += ((1.0 if y > upper else -1.0) - self._side) / LAST_MISSES
            for kind, sentence in self._test.add(inside):
                yield kind, sentence + self._name_side()

    def _name_side(self) -> str:
        """Return on which side labels lie, if it is nearly always the same one."""
        if abs(self._side) < 0.5:
            return ""
        return ", above them" if self._side > 0.0 else ", below them"

    def state(self) -> list[Any]:
        """Return what later rounds depend on."""
        return [self._rounds, self._side, self._test.state()]

    def resume(self, state: Any) -> None:
        """Go on where `state` left off."""
        self._rounds, self._side, test = state
        self._test.resume(test)

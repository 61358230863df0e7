"""Intervals: how far off predictions were lately, for several levels at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undrift import _check, kernels
from undrift._typing import Vector
from undrift.errors import InputError
from undrift.kernels.reference_interval import COUNT, FIRST, UNIT
from undrift.learners.served import Interval as Interval

LEVELS = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99])
START = np.array([0.85, 1.05, 1.3, 1.6, 2.06, 2.46, 2.92, 3.23])
"""Half-widths in mean absolute residuals to begin with: those of a normal distribution."""
STEP = 0.05
UP, DOWN = np.exp(STEP * LEVELS), np.exp(-STEP * (1.0 - LEVELS))


class Coverage(NamedTuple):
    """How often labels lay inside the intervals predicted for them."""

    level: float
    """What was asked for."""
    measured: float
    """What happened."""
    rounds: int
    """In how many rounds."""


class Intervals:
    r"""Half-widths that widen after a miss and narrow after a hit, so that hits settle at the level whatever the data.

    A round changes $\ln q$ by `STEP` times (level - hit); summed up, measured coverage differs from the level by
    $|\ln(q_T/q_1)|$ / (`STEP` T): adaptive conformal inference on a log scale, for any sequence of residuals.
    """

    def __init__(self) -> None:
        self.state = np.concatenate((np.zeros(FIRST), START, np.zeros(len(LEVELS))))

    def play(self, residual: Vector) -> None:
        """Follow residuals |y - yhat|."""
        kernels.interval_play(self.state, UP, DOWN, residual)

    def followed(self, who: object, residual: Vector, level: float) -> Vector:
        """Follow residuals and return the half-width before each of them."""
        tracked = np.flatnonzero(level == LEVELS)
        if not len(tracked):
            return np.array([self._next(who, residual[t : t + 1], level) for t in range(len(residual))])
        states, last = np.empty((len(residual), FIRST + len(LEVELS))), FIRST + int(tracked[0]) + 1
        now, play = self.state[: FIRST + len(LEVELS)], kernels.interval_play
        for t in range(len(residual)):
            states[t] = now
            play(self.state, UP, DOWN, residual[t : t + 1])
        return np.asarray(states[:, UNIT] * np.max(states[:, FIRST:last], axis=1))

    def _next(self, who: object, residual: Vector, level: float) -> float:
        width = self.half_width(who, level)
        self.play(residual)
        return width

    def half_width(self, who: object, level: float) -> float:
        """Return the half-width for a level, between tracked ones by their logarithms."""
        at = _check.number(who, "level", level)
        if not LEVELS[0] <= at <= LEVELS[-1]:
            raise InputError(f"{_check.name_of(who)}: level must be in [0.5, 0.99], got {level!r}")
        q = np.maximum.accumulate(self.state[FIRST : FIRST + len(LEVELS)])
        tracked = np.flatnonzero(at == LEVELS)
        if len(tracked):
            return float(self.state[UNIT] * q[tracked[0]])
        return float(self.state[UNIT]) * math.exp(float(np.interp(at, LEVELS, np.log(q))))

    def coverage(self) -> list[Coverage]:
        """Return measured coverage of every tracked level."""
        rounds, hits = int(self.state[COUNT]), self.state[FIRST + len(LEVELS) :]
        return [
            Coverage(float(level), float(hit) / max(1, rounds), rounds) for level, hit in zip(LEVELS, hits, strict=True)
        ]

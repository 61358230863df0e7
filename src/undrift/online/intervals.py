r"""Intervals: how far off served predictions were lately, for several levels at once.

The half-width of level p is $q_p$ times the mean |residual|. A label outside multiplies $q_p$ by exp(STEP p), one
inside by exp(-STEP (1 - p)); summed up, measured coverage differs from p by $|\ln(q_T/q_1)|$ / (STEP T): adaptive
conformal inference on a log scale, for any sequence of residuals. Late labels are compared with the interval that was
served, and take smaller steps (LATE_POWER) around a mean over more rounds (LATE_ROUNDS).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.kernels.definitions import IntervalState
from undrift.learners.served import Interval as Interval

LEVELS = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99])
"""Levels that are followed; others lie between them."""
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


def check_level(who: object, level: float) -> float:
    """Return a level that intervals can be given for."""
    at = _check.number(who, "level", level)
    if not LEVELS[0] <= at <= LEVELS[-1]:
        raise InputError(f"{_check.name_of(who)}: level must be in [0.5, 0.99], got {level!r}")
    return at


def half_widths(ends: Matrix, level: float) -> Vector:
    """Return the half-width at a level from the ends of all tracked levels (n, 2 levels), between two by logarithms."""
    half = (ends[:, 1::2] - ends[:, 0::2]) / 2.0
    tracked = np.flatnonzero(level == LEVELS)
    if len(tracked):
        return np.asarray(half[:, tracked[0]])
    k = int(np.searchsorted(LEVELS, level))
    part = (level - LEVELS[k - 1]) / (LEVELS[k] - LEVELS[k - 1])
    there = np.isfinite(half[:, k])
    low, high = (np.log(np.where(there, np.maximum(half[:, i], 1e-300), 1.0)) for i in (k - 1, k))
    return np.where(there, np.exp(low + part * (high - low)), math.inf)


def measured_coverage(state: Vector) -> list[Coverage]:
    """Return the coverage of every tracked level, from the state of the intervals."""
    rounds, hits = int(state[IntervalState.ROUNDS]), state[len(IntervalState) + len(LEVELS) :]
    return [
        Coverage(float(level), float(hit) / max(1, rounds), rounds) for level, hit in zip(LEVELS, hits, strict=True)
    ]

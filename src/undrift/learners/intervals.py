r"""Intervals and quantiles: where labels lie around their predictions, by the row and the time, at several levels.

The spread of a row is predicted from its features, the prediction, the candidates' disagreement, the last residuals and
the sizes of residuals at the same place in a season.
A quantile lies its own number w of spreads from the median, and w follows by adaptive conformal inference: a label
beyond it multiplies w by exp(step (1 - tail)), any other by exp(-step tail). For any sequence of labels the share of
them beyond a quantile then differs from its tail by at most $2\max_t|\ln w_t|$ / (step T), with the last step, which is
the smallest. Both sides are followed separately, so that intervals need not be symmetric, and so is a factor for every
fifth of the predictions by size, so that levels are kept for large ones as for small ones. A factor of each level that
rises with its misses over the last rounds, and returns to 1 without them, keeps misses from following each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.kernels.definitions import FIFTHS, SPREAD_PRIOR, IntervalState, RecordPart, SeasonLength, SpreadColumn

LEVELS = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99])
"""Levels of the intervals that are followed; others lie between them."""
TAILS = np.array([0.25, 0.2, 0.15, 0.1, 0.05, 0.025, 0.01, 0.005])
"""The share of labels beyond either end of these."""
QUANTILES = np.concatenate([TAILS[::-1], [0.5], 1.0 - TAILS])
"""Levels of the quantiles that are followed: both ends of every interval, and the median."""
START = np.array([0.85, 1.05, 1.3, 1.6, 2.06, 2.46, 2.92, 3.23])
"""Distances from the median in mean absolute residuals to begin with: those of a normal distribution."""
FIRST_CUTS = np.array([-0.84, -0.25, 0.25, 0.84])
"""Cuts between fifths of predictions to begin with, in label scales: those of a normal distribution."""
PLACES = {level: (len(LEVELS) - 1 - k, len(LEVELS) + 1 + k) for k, level in enumerate(LEVELS.tolist())}
"""Where the ends of each of these intervals are among the quantiles."""
_NORMAL = np.array([NormalDist().inv_cdf(level) for level in QUANTILES.tolist()])

Limits = tuple[float | None, float | None]
"""The least and the largest label there can be; None: there is no such number."""


class Interval(NamedTuple):
    """Where the label should lie."""

    low: Vector | float
    """Lower end."""
    high: Vector | float
    """Upper end."""


class Coverage(NamedTuple):
    """How often labels lay inside the intervals predicted for them."""

    level: float
    """What was asked for."""
    measured: float
    """What happened."""
    rounds: int
    """In how many rounds."""


def interval_parts(features: int) -> dict[str, tuple[int, ...]]:
    """Return the parts of the state of intervals and their shapes; the spread model sees so many features of a row."""
    spread = len(SpreadColumn) + features
    return {
        "intervals": (len(IntervalState) + 4 * len(LEVELS),),
        "fifths": (3 * FIFTHS - 1,),
        "seasons": (1 + 2 * len(SeasonLength) + sum(SeasonLength),),
        "spread.coefficients": (spread,),
        "spread.covariance": (spread, spread),
    }


def begin_intervals(view: Callable[[str], Vector]) -> None:
    """Fill the parts of a state of zeros as they are before the first round."""
    view("intervals")[len(IntervalState) :][: 2 * len(LEVELS)] = np.tile(START, 2)
    view("fifths")[: FIFTHS - 1] = FIRST_CUTS
    view("seasons")[1 + len(SeasonLength) :] = [*SeasonLength, *np.ones(sum(SeasonLength))]
    view("spread.covariance")[...] = SPREAD_PRIOR * np.eye(len(view("spread.covariance")))


def check_level(who: object, level: float) -> float:
    """Return a level that intervals can be given for."""
    at = _check.number(who, "level", level)
    if not LEVELS[0] <= at <= LEVELS[-1]:
        raise InputError(
            f"{_check.name_of(who)}: level must be in [0.5, 0.99], got {level!r}{_check.percent_hint(level)}"
        )
    return at


def check_quantile_levels(who: object, levels: Sequence[float] | Vector) -> Vector:
    """Return levels that quantiles can be given for."""
    found = _check.finite_array(who, "levels", levels, (None,))
    wrong = found[(found < QUANTILES[0]) | (found > QUANTILES[-1])]
    if len(wrong):
        hint = _check.percent_hint(float(wrong[0]))
        raise InputError(f"{_check.name_of(who)}: levels must be in [0.005, 0.995], got {wrong[0]:g}{hint}")
    return found


def check_limits(who: object, limits: Limits | None) -> Limits:
    """Return the least and the largest label there can be."""
    if limits is None:
        return None, None
    if not isinstance(limits, (tuple, list)) or len(limits) != 2:
        raise InputError(
            f"{_check.name_of(who)}: limits must be two numbers or None, such as (0, None), got {limits!r}"
        )
    low, high = (None if one is None else _check.number(who, "limits", one) for one in limits)
    if low is not None and high is not None and not low < high:
        raise InputError(f"{_check.name_of(who)}: the lower one of limits must be below the upper one, got {limits!r}")
    return low, high


def read_quantiles(records: Matrix, begin: int) -> Matrix:
    """Return the tracked quantiles in records (n, size): infinite, but for the median, where there was no interval."""
    quantiles = records[:, begin : begin + len(QUANTILES)].copy()
    without, middle = records[:, RecordPart.BOUNDED] == 0.0, len(TAILS)
    quantiles[without, :middle], quantiles[without, middle + 1 :] = -math.inf, math.inf
    return quantiles


def quantiles_at(tracked: Matrix, levels: Vector, limits: Limits) -> Matrix:
    """Return the quantiles of some levels (n, levels) from the tracked ones: between two as if labels were normal."""
    out = np.empty((len(tracked), len(levels)))
    for j, level in enumerate(levels.tolist()):
        k = int(np.searchsorted(QUANTILES, level))
        if QUANTILES[k] == level:
            out[:, j] = tracked[:, k]
            continue
        part = (NormalDist().inv_cdf(level) - _NORMAL[k - 1]) / (_NORMAL[k] - _NORMAL[k - 1])
        low, high = tracked[:, k - 1], tracked[:, k]
        there = np.isfinite(low) & np.isfinite(high)
        between = np.where(there, low, 0.0) * (1.0 - part) + np.where(there, high, 0.0) * part
        out[:, j] = np.where(there, between, np.where(np.isfinite(low), high, low))
    return out if limits == (None, None) else np.clip(out, *limits)


def cut(value: float, limits: Limits) -> float:
    """Return a number brought between the limits."""
    low, high = limits
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)


def interval_levels(level: float) -> Vector:
    """Return the levels of the two quantiles between which an interval lies."""
    k = np.flatnonzero(level == LEVELS)
    tail = float(TAILS[k[0]]) if len(k) else (1.0 - level) / 2.0
    return np.array([tail, 1.0 - tail])


def measured_coverage(state: Vector) -> list[Coverage]:
    """Return the coverage of every tracked level, from the state of the intervals."""
    rounds, hits = int(state[IntervalState.ROUNDS]), state[-len(LEVELS) :]
    return [
        Coverage(float(level), float(hit) / max(1, rounds), rounds) for level, hit in zip(LEVELS, hits, strict=True)
    ]

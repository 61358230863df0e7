r"""Intervals for every step: adaptive conformal inference on the residuals of served forecasts.

The half-width of level p is $q_p$ times the mean |residual| of the step over its last rows, a third of those judged so
far and at most 200: forecasts become better as they learn. A value outside its interval multiplies $q_p$ by exp(c p),
one inside by exp(-c (1 - p)): summed up, measured coverage differs from p by $|\ln(q_T/q_1)|/(cT)$, whatever the series
does. Values of step h come h rows late, so c is smaller by the cube root of h; and so that far steps know of a change
before it reaches them, all half-widths follow how large the residuals of the nearest steps have been lately beside what
is usual for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix
from undrift.kernels.definitions import INTERVAL_ROUNDS, LARGEST_WIDTH, SMALLEST_WIDTH, WILD

LEVELS = np.array([0.5, 0.8, 0.9, 0.95, 0.98])
"""Levels that are followed; others lie between them."""
START = np.array([0.85, 1.6, 2.06, 2.46, 2.92])
"""Half-widths in mean |residuals| to begin with: those of a normal distribution."""
STEP = 0.05
MEMORY = 1.0 / 3.0
"""The part of the rows judged so far that the mean |residual| of a step is taken over."""
NEAR_STEPS, NEAR_ROWS = 4, 30.0
"""Steps whose residuals say how large all of them are lately, and the rows over which that is averaged."""
NEAR_POWER = 0.5
"""The power of that ratio which half-widths follow: more covers better after a change, and is wider in between."""
NEAR_RANGE = (0.2, 5.0)

Cube = NDArray[np.float64]
_NORMAL = NormalDist()


class StepIntervals:
    """Widths (series, levels, steps), and how often they held."""

    def __init__(self, series: int, horizon: int) -> None:
        self.width = np.tile(START[:, None], (series, 1, horizon))
        self.unit = np.zeros((series, horizon))
        self.counts = np.zeros((series, horizon))
        self.hits = np.zeros((series, len(LEVELS), horizon))
        self.near = np.ones((2, series))
        """How large the residuals of near steps have been lately, beside the usual, and how many rows say so."""
        steps = np.arange(1.0, horizon + 1.0)
        rate = STEP / np.cbrt(steps)
        self.up, self.down = np.exp(rate * LEVELS[:, None]), np.exp(-rate * (1.0 - LEVELS[:, None]))
        self.steps = steps

    def judge(self, residuals: Matrix, half: Cube, judged: NDArray[np.bool_]) -> None:
        """Compare residuals (series, steps) with the half-widths served (series, levels, steps)."""
        off = np.abs(residuals)
        inside = off[:, None, :] <= half
        bounded = judged[:, None, :] & np.isfinite(half)
        moved = np.clip(self.width * np.where(inside, self.down, self.up), SMALLEST_WIDTH, LARGEST_WIDTH)
        self.width = np.where(bounded, moved, self.width)
        self.hits = np.where(judged[:, None, :] & inside, self.hits + 1.0, self.hits)
        self.counts = np.where(judged, self.counts + 1.0, self.counts)
        self._follow_near(off, judged)
        share = 1.0 / np.clip(MEMORY * self.counts, 1.0, INTERVAL_ROUNDS)
        most = np.where(self.unit > 0.0, np.minimum(off, WILD * self.unit), off)
        self.unit = np.where(judged, self.unit + share * (most - self.unit), self.unit)

    def _follow_near(self, off: Matrix, judged: NDArray[np.bool_]) -> None:
        """Take in the residuals of near steps, in units of their mean before this row."""
        unit = self.unit[:, :NEAR_STEPS]
        counted = judged[:, :NEAR_STEPS] & (unit > 0.0)
        with np.errstate(over="ignore"):
            ratio = np.minimum(off[:, :NEAR_STEPS] / np.where(counted, unit, 1.0), WILD)
        count = counted.sum(axis=1)
        size, rows = self.near
        mean = np.where(counted, ratio, 0.0).sum(axis=1) / np.maximum(count, 1)
        rows += count > 0
        size += np.where(count > 0, (mean - size) / np.minimum(rows, NEAR_ROWS), 0.0)

    def half_widths(self) -> Cube:
        """Return the half-widths to serve (series, levels, steps); infinite where no step was ever judged.

        Few residuals say little: n of step h count as n / h. A step that was never judged is as uncertain as the last
        one that was, times the root of how much farther it is.
        """
        unit, factor = self._known_units()
        factor = factor * np.clip(self.near[0], *NEAR_RANGE)[:, None] ** NEAR_POWER
        with np.errstate(over="ignore"):
            half = unit[:, None, :] * np.maximum.accumulate(self.width, axis=1) * factor[:, None, :]
        return np.asarray(np.where(np.isinf(unit)[:, None, :], math.inf, np.minimum(half, 1e150)))

    def _known_units(self) -> tuple[Matrix, Matrix]:
        """Return the mean |residual| of every step, where need be from a shorter one, and the factor for few rows."""
        judged = self.counts > 0.0
        last = np.where(judged.any(axis=1), judged.shape[1] - 1 - np.argmax(judged[:, ::-1], axis=1), -1)
        at = np.arange(len(last))
        far = self.unit[at, last][:, None] * np.sqrt(self.steps / self.steps[np.maximum(last, 0)][:, None])
        unit = np.where(judged, self.unit, np.where(last[:, None] >= 0, far, math.inf))
        return unit, np.sqrt(1.0 + self.steps / np.maximum(self.counts, 1.0))

    def coverage(self) -> Cube:
        """Return the part of values inside their intervals (series, levels, steps); 0 where none was judged."""
        return np.asarray(self.hits / np.maximum(self.counts, 1.0)[:, None, :])

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays by name, the very objects."""
        return {
            "width": self.width,
            "unit": self.unit,
            "interval_counts": self.counts,
            "hits": self.hits,
            "near": self.near,
        }


def level_half_width(half: Cube, level: float) -> Matrix:
    """Return the half-widths of one level (..., steps) from those of all levels, between two by logarithms."""
    k = int(np.searchsorted(LEVELS, level))
    if LEVELS[k] == level:
        return np.asarray(half[..., k, :])
    low, high = np.maximum(half[..., k - 1, :], 1e-300), np.maximum(half[..., k, :], 1e-300)
    part = (level - LEVELS[k - 1]) / (LEVELS[k] - LEVELS[k - 1])
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isinf(high), math.inf, low * (high / low) ** part))


def quantile_distances(half: Cube, quantiles: Sequence[float]) -> Cube:
    """Return how far quantiles lie above the forecast (..., quantiles, steps), from the half-widths of all levels.

    A quantile is an end of the interval that leaves as much out on either side. Within the narrowest one that is
    followed, quantiles lie as those of a normal distribution do.
    """
    out = np.zeros((*half.shape[:-2], len(quantiles), half.shape[-1]))
    for k, q in enumerate(quantiles):
        level = round(abs(2.0 * q - 1.0), 12)
        if level >= LEVELS[0]:
            width = level_half_width(half, level)
        elif level > 0.0:
            part = _NORMAL.inv_cdf((1.0 + level) / 2.0) / _NORMAL.inv_cdf((1.0 + LEVELS[0]) / 2.0)
            width = half[..., 0, :] * part
        else:  # the median is the forecast, also where intervals have no ends
            continue
        out[..., k, :] = math.copysign(1.0, q - 0.5) * width
    return out

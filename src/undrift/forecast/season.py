r"""Find the seasons of series: the distances after which their values repeat.

The variogram $V(l)$, the mean of $(y_t-y_{t-l})^2$ after a straight line is taken off, grows steadily for series that
only drift. A season p shows as a dip: values one, two or three seasons apart are nearer than those half a season more
or less apart.

Written by hand, as forecasting libraries ask for the season or test one: here the first rows alone must say which
there are, two nested ones too, and a drifting series must not seem to have one.
"""

from __future__ import annotations

import numpy as np

from undrift._typing import Matrix, Vector

LEAST_CYCLES = 3
"""A season must have been seen this often to be believed."""
SHORTEST = 3
LEAST_DIP = 0.2
"""A dip counts from this part of its surroundings on, ..."""
FEW_CYCLES = 1.5
"""... and from so much more, divided by the number of seasons seen: drift looks like a season now and then."""
CLOSE = 0.85
"""Among dips nearly as deep as the deepest, the shortest is the season, the others its multiples."""
LONGER = 0.85
"""A multiple is a season of its own (the week around the day) if it brings V below this part of the shorter one's."""


def find_seasons(values: Matrix) -> tuple[int, ...]:
    """Return the seasons that all series (rows, series) share, shortest first: none, one, or one inside another.

    >>> t = np.arange(200.0)
    >>> find_seasons((0.1 * t + np.sin(2.0 * np.pi * t / 12.0))[:, None])
    (12,)
    """
    n, longest = len(values), len(values) // LEAST_CYCLES
    V = _variogram(values, len(values) // 2)
    if longest < SHORTEST or V is None:
        return ()
    dips = np.full(longest + 2, -np.inf)
    dips[SHORTEST : longest + 1] = [_dip(V, p) for p in range(SHORTEST, longest + 1)]
    found = [
        p
        for p in range(SHORTEST, longest + 1)
        if dips[p] >= max(dips[p - 1], dips[p + 1]) and dips[p] > LEAST_DIP + FEW_CYCLES * p / n
    ]
    if not found:
        return ()
    deepest = max(dips[p] for p in found)
    season = next(p for p in found if dips[p] >= CLOSE * deepest)
    multiples = np.arange(2 * season, longest + 1, season)
    if not len(multiples) or V[multiples].min() >= LONGER * V[season]:
        return (season,)
    best = V[multiples].min()
    return (season, int(next(p for p in multiples if V[p] <= best + 0.1 * (V[season] - best))))


def _dip(V: Vector, p: int) -> float:
    """Return by which part V at one, two and three seasons is below V half a season around."""
    at = [k * p for k in (1, 2, 3) if k * p + (p + 1) // 2 < len(V)]
    half = (p // 2, p - p // 2)
    around = sum(V[q - h] + V[q + h] for q in at for h in half) / 4.0
    return 1.0 - sum(V[q] for q in at) / around if around > 0.0 else -np.inf


def _variogram(values: Matrix, longest: int) -> Vector | None:
    """Return the mean over the series of V, each in units of its variance; None if none of them varies."""
    n = len(values)
    if n < 2:
        return None
    t = np.arange(n) - (n - 1) / 2.0
    size = np.max(np.abs(values), axis=0)
    unit = values / np.where(size > 0.0, size, 1.0)  # so that nothing overflows
    level = unit - unit.mean(axis=0)
    level -= np.outer(t, t @ level) / (t @ t)
    spread = level.std(axis=0)
    varies = spread > 1e-12
    if not varies.any():
        return None
    level = level[:, varies] / spread[varies]
    squares = np.concatenate([np.zeros((1, level.shape[1])), np.cumsum(level * level, axis=0)])
    spectrum = np.fft.rfft(level, 2 * n, axis=0)
    products = np.fft.irfft(np.abs(spectrum) ** 2, 2 * n, axis=0)[: longest + 1]
    lag = np.arange(longest + 1)
    sums = squares[n - lag] + squares[n] - squares[lag] - 2.0 * products
    return np.asarray(np.maximum(sums / (n - lag)[:, None], 0.0).mean(axis=1))

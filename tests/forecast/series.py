"""Series the tests of forecasts share."""

import numpy as np


def seasonal(rows, season=24, *, seed=0, noise=0.3, trend=0.0):
    """A season that changes slowly, noise, and a trend."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows)
    size = 1.0 + 0.3 * np.sin(2.0 * np.pi * t / 1500.0)
    return size * np.sin(2.0 * np.pi * t / season) + trend * t + noise * rng.normal(size=rows)


def random_walk(rows, *, seed=0):
    return np.cumsum(np.random.default_rng(seed).normal(size=rows))


def with_holes(y, share=0.1, *, seed=0):
    rng = np.random.default_rng(seed)
    out = y.copy()
    out[rng.random(y.shape) < share] = np.nan
    middle = len(y) // 2
    out[middle : middle + 30] = np.nan
    return out


def errors(trace, y, rows):
    """Return residuals and whether values lay inside (origins, steps) of one series, from origin `rows` on."""
    steps = trace.yhat.shape[-1]
    at = np.arange(rows, len(y) - steps)
    truth = np.stack([y[at + h] for h in range(1, steps + 1)], axis=1)
    inside = (trace.lower[at] <= truth) & (truth <= trace.upper[at])
    return trace.yhat[at] - truth, np.where(np.isnan(truth), np.nan, inside)

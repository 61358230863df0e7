r"""Discounted quadratic losses of the past at present comparators, from sufficient statistics: O(d^2) a round.

A weighted observation (row r, target v, weight w) stands for the loss $\frac w2(r\cdot u-v)^2$; squared loss has weight
1, a pivot floor is an observation of small weight. The statistics of earlier rounds are a triangular factor,
$\sum_s\beta^{t-s}\frac{w_s}2(r_s\cdot u-v_s)^2=\frac12|R(u,-1)|^2$, so that a value is a sum of squares: nothing is
subtracted, whatever the comparator does.
"""

from __future__ import annotations

import math

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.discount import Discount
from undrift.template import Observations

SPAN = 128
"""Rounds taken together: matrix products inside a block, statistics between blocks."""


def squared_losses(Z: Matrix, y: Vector) -> Observations:
    """Return the squared losses of a stream as observations of weight 1."""
    return Observations(np.arange(len(y)), Z, y, np.ones(len(y)))


def merge(a: Observations, b: Observations) -> Observations:
    """Return two sets of observations as one, in order of rounds."""
    if not len(b.round):
        return a
    order = np.argsort(np.concatenate([a.round, b.round]), kind="stable")
    return Observations(
        np.concatenate([a.round, b.round])[order],
        np.concatenate([a.row, b.row])[order],
        np.concatenate([a.target, b.target])[order],
        np.concatenate([a.weight, b.weight])[order],
    )


def quadratic_values(seen: Observations, u: Matrix, discount: Discount) -> Vector:
    """Return, for every round t, sum_{s<=t} beta^(t-s) q_s(u_t) over the observations q_s."""
    rounds, dim = u.shape
    values = np.zeros(rounds)
    if not discount.beta:  # no memory: only what was seen in the round itself
        np.add.at(values, seen.round, seen.value(u))
        return values
    factor: Matrix = np.zeros((dim + 1, dim + 1))  # R of what came before the block, in units of its first round
    observed = 0
    for begin in range(0, rounds, SPAN):
        end = min(begin + SPAN, rounds)
        until = observed + int(np.searchsorted(seen.round[observed:], end))
        part, path = seen.between(observed, until), u[begin:end]
        still = bool((path == path[0]).all())
        past = (path[:1] if still else path) @ factor[:, :-1].T - factor[:, -1]
        ages = np.arange(begin, end)[:, None] - part.round[None, :]
        fading = np.where(ages >= 0, discount.power(np.maximum(ages, 0).astype(np.float64)), 0.0)
        miss = (path[:1] if still else path) @ part.row.T - part.target
        missed = part.weight * miss * miss  # one row for all rounds of the block where the comparator stands still
        fresh = fading @ missed[0] if still else np.sum(fading * missed, axis=1)
        remembered = discount.power(np.arange(end - begin, dtype=np.float64)) * np.sum(past * past, axis=1)
        values[begin:end] = 0.5 * (remembered + fresh)
        # The statistics of the next block: everything so far, one block older.
        age = discount.power(0.5 * (end - part.round))
        rows = np.column_stack((part.row, part.target)) * (np.sqrt(part.weight) * age)[:, None]
        older = math.exp(-0.5 * discount.rate * (end - begin)) * factor
        factor = np.linalg.qr(np.concatenate((older, rows))).R
        observed = until
    return values

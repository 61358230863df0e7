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
from undrift.discount import discounted_sums
from undrift.template import Observations

SPAN = 128
"""Rounds taken together: matrix products inside a block, statistics between blocks."""


def squared_losses(Z: Matrix, y: Vector, weights: Vector | None = None) -> Observations:
    """Return the squared losses of a stream as observations, of weight 1 unless they count otherwise."""
    return Observations(np.arange(len(y)), Z, y, np.ones(len(y)) if weights is None else weights)


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


def quadratic_values(seen: Observations, u: Matrix, rates: Vector) -> Vector:
    """Return what the observations up to each round t, discounted since, lose at the comparator of that round (T,).

    `rates` are -ln(beta) of each round: what was seen before it counts beta times as much from then on.
    """
    rounds, dim = u.shape
    values = np.zeros(rounds)
    factor: Matrix = np.zeros((dim + 1, dim + 1))  # R of what came before the block
    observed = 0
    rate, when = np.zeros(0), np.zeros(0, dtype=np.int64)
    for begin in range(0, rounds, SPAN):
        end = min(begin + SPAN, rounds)
        until = observed + int(np.searchsorted(seen.round[observed:], end))
        part, path = seen.between(observed, until), u[begin:end]
        if not np.array_equal(rate, rates[begin:end]) or not np.array_equal(when, part.round - begin):
            rate, when = rates[begin:end], part.round - begin
            age = np.cumsum(rate)
            born = age[when]
            known = when[None, :] <= np.arange(end - begin)[:, None]
            share = np.where(known, np.exp(np.minimum(born[None, :] - age[:, None], 0.0)), 0.0)
        still = bool((path == path[0]).all())
        past = (path[:1] if still else path) @ factor[:, :-1].T - factor[:, -1]
        miss = (path[:1] if still else path) @ part.row.T - part.target
        missed = part.weight * miss * miss  # one row for all rounds of the block where the comparator stands still
        fresh = share @ missed[0] if still else np.einsum("to,to->t", share, missed)
        values[begin:end] = 0.5 * (np.exp(-age) * np.sum(past * past, axis=1) + fresh)
        # The statistics that the next block begins with: everything so far, as old as it is after the last round.
        older = math.exp(-0.5 * float(age[-1])) * factor
        weight = np.sqrt(part.weight) * np.exp(0.5 * (born - age[-1]))
        rows = np.column_stack((part.row, part.target)) * weight[:, None]
        factor = np.linalg.qr(np.concatenate((older, rows))).R
        observed = until
    return values


def squares_growth(squares: Vector, blur: Matrix, u: Matrix, rates: Vector) -> Vector:
    """Return 2 sqrt(S Q) + Q for every round: what rows that are off add to a sum of squares S at most.

    Q is half the discounted sum of (e.u)^2, of which `blur` (T, d) holds the squares of e.
    """
    Q = 0.5 * np.einsum("td,td->t", discounted_sums(blur, rates), u * u)
    return np.asarray(2.0 * np.sqrt(np.maximum(squares, 0.0) * Q) + Q)

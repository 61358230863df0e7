r"""Discounted quadratic losses by sufficient statistics: O(d^2) a round, whatever the number of moves.

A weighted observation (row r, target v, weight w) stands for the loss $\frac w2(r\cdot u-v)^2$; squared loss has weight
1, a pivot floor is an observation of small weight. Statistics are kept as the Hessian and the *gradient at the current
comparator*, so that a good comparator cancels nothing.
"""

from __future__ import annotations

import math

import numpy as np

from undrift._typing import Matrix, Rounds, Vector
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


def quadratic_jumps(seen: Observations, u: Matrix, at: Rounds, discount: Discount) -> Vector:
    """Return sum_{s<=t} beta^(t-s) (q_s(u_{t+1}) - q_s(u_t)) over observations q_s, for each move t in `at`."""
    rounds, dim = u.shape
    values = np.zeros(len(at))
    if not len(at):
        return values
    hessian, gradient, anchor = np.zeros((dim, dim)), np.zeros(dim), u[0] if rounds else np.zeros(dim)
    moved, observed = 0, 0
    for begin in range(0, rounds, SPAN):
        end = min(begin + SPAN, rounds)
        until = observed + int(np.searchsorted(seen.round[observed:], end))
        part = seen.between(observed, until)
        stop = moved + int(np.searchsorted(at[moved:], end))
        if stop > moved:
            t = at[moved:stop]
            step, middle = u[t + 1] - u[t], 0.5 * (u[t + 1] + u[t])
            past = step @ gradient + np.einsum("md,md->m", step @ hessian, middle - anchor)
            age = (t[:, None] - part.round[None, :]).astype(np.float64)
            weight = np.where(age >= 0.0, discount.power(np.maximum(age, 0.0)) * part.weight, 0.0)
            fresh = (step @ part.row.T) * (middle @ part.row.T - part.target) * weight
            values[moved:stop] = discount.power((t + 1 - begin).astype(np.float64)) * past + fresh.sum(axis=1)
        fade = math.exp(-discount.rate * (end - begin)) if discount.gap else 1.0
        weight = discount.power((end - 1 - part.round).astype(np.float64)) * part.weight
        hessian = fade * hessian + (part.row * weight[:, None]).T @ part.row
        gradient = fade * gradient + part.row.T @ (weight * (part.row @ anchor - part.target))
        following = u[min(end, rounds - 1)]
        gradient, anchor = gradient + hessian @ (following - anchor), following
        moved, observed = stop, until
    return values

r"""What the losses of the past come to at present comparators: exact quadratics, and tangents.

A weighted observation (row r, target v, weight w) stands for the loss $\frac w2(r\cdot u-v)^2$; squared loss has weight
1, a pivot floor is an observation of small weight. The statistics of earlier rounds are a triangular factor,
$\sum_s\beta^{t-s}\frac{w_s}2(r_s\cdot u-v_s)^2=\frac12|R(u,-1)|^2$, so that a value is a sum of squares: nothing is
subtracted, whatever the comparator does. That takes O(d^2) a round (`quadratic_values`).

A learner driven by gradients keeps
$F_t(u)=\frac{w_t}2|u|^2+\sum_{s\le t}\beta^{t-s}\hat f_s(u)$ with the tangents
$\hat f_s(u)=f_s+g_s\cdot u-a_s+\frac\gamma2(g_s\cdot u-a_s)^2$. A certificate charges comparators $F_t(u_t)$, and its
prices of rounds are right if they add up to the learner's loss less the least values of the $F_t$. Those are bounded
here from below, from the learner's own points and nothing else of its state: with the gradient $e-kx$ of $F_t$ at x,
any $k\ge0$,

$$F_t(u)\ge F_t(x)-k|x|(\rho-|x|)-\frac{|e|^2}{2w_t}\qquad(|u|\le\rho).$$

Key `newton`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undrift._internal.discount import discounted_sums
from undrift._typing import Matrix, Vector
from undrift.template import Observations, Tangents

SPAN = 128
"""Rounds taken together: matrix products inside a block, statistics between blocks."""
EPS = float(np.finfo(np.float64).eps)
CHUNK = 2**18
"""Numbers of the Hessians that are computed together."""


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


class TangentValues(NamedTuple):
    """Values of what is kept, without the ridge, and bounds on their rounding, both (T,)."""

    value: Vector
    error: Vector


def tangent_values(seen: Tangents, u: Matrix, rates: Vector, counts: Vector) -> TangentValues:
    """Return what the tangents up to each round, discounted since, say about the comparator of that round."""
    share, many = _rounding_share(u), counts[:, None]
    columns = np.column_stack((seen.value - seen.at, np.abs(seen.value) + np.abs(seen.at), seen.at**2))
    constant, size, targets = discounted_sums(many * columns, rates).T
    linear = np.einsum("td,td->t", discounted_sums(many * seen.gradient, rates), u)
    size = size + np.einsum("td,td->t", discounted_sums(many * np.abs(seen.gradient), rates), np.abs(u))
    if not seen.curvature:
        return TangentValues(constant + linear, share * size)
    bent = Observations(np.arange(len(u)), seen.gradient, seen.at, counts * seen.curvature)
    squares = quadratic_values(bent, u, rates)
    blur = (u.shape[1] + 1) * share**2 * seen.curvature
    off = 0.5 * blur * targets
    growth = squares_growth(squares, blur * many * seen.gradient**2, u, rates)
    error = share * size + growth + 2.0 * np.sqrt(squares * off) + off
    return TangentValues(constant + linear + squares, error)


def least_values(seen: Tangents, potential: Vector, rates: Vector, counts: Vector, radius: float) -> Vector:
    """Return a number that the objective of each round does not fall below for any |u| <= radius, rounding included."""
    x, w = seen.leaders, potential
    found = tangent_values(seen, x, rates, counts)
    gradient, off = _gradients(seen, w, rates, counts)
    size = np.linalg.norm(x, axis=1)
    gap = _distance_to_least(gradient, off, w)
    if math.isfinite(radius):
        along = np.einsum("td,td->t", gradient, x)
        k = np.maximum(0.0, np.divide(-along, size * size, out=np.zeros(len(w)), where=size > 0.0))[:, None]
        outside = k[:, 0] * size * (np.maximum(radius - size, 0.0) + 8.0 * EPS * size)
        gap = np.minimum(gap, outside + _distance_to_least(gradient + k * x, off + EPS * k * np.abs(x), w))
    ridge = 0.5 * w * size * size
    return np.asarray(found.value + ridge * (1.0 - 8.0 * EPS) - found.error - gap)


def _distance_to_least(gradient: Matrix, off: Matrix, w: Vector) -> Vector:
    """Return |e|^2 / (2 w) for gradients e that are off by at most `off`: how far an objective is from its least."""
    length = np.linalg.norm(gradient, axis=1) + np.linalg.norm(off, axis=1)
    ratio = np.divide(length, np.sqrt(w), out=np.where(length > 0.0, np.inf, 0.0), where=w > 0.0)
    return np.asarray(0.5 * ratio * ratio)


def _gradients(seen: Tangents, w: Vector, rates: Vector, counts: Vector) -> tuple[Matrix, Matrix]:
    """Return the gradient of each round's objective at its leader, and a bound on its rounding, both (T, d)."""
    g, x, (rounds, d) = seen.gradient, seen.leaders, seen.gradient.shape
    pull = (counts * (1.0 - seen.curvature * seen.at))[:, None] * g
    sizes = (counts * (1.0 + seen.curvature * np.abs(seen.at)))[:, None] * np.abs(g)
    sums = discounted_sums(np.column_stack((pull, sizes)), rates)
    gradient, size = w[:, None] * x + sums[:, :d], w[:, None] * np.abs(x) + sums[:, d:]
    if seen.curvature:
        step, before = max(1, CHUNK // (2 * d * d)), None
        for a in range(0, rounds, step):
            rows = slice(a, a + step)
            squares = seen.curvature * counts[rows, None, None] * g[rows, :, None] * g[rows, None, :]
            flat = squares.reshape(len(squares), d * d)
            sums = discounted_sums(np.hstack((flat, np.abs(flat))), rates[rows], before)
            before = sums[-1]
            H, H_sizes = (part.reshape(-1, d, d) for part in np.split(sums, 2, axis=1))
            gradient[rows] += np.einsum("tij,tj->ti", H, x[rows])
            size[rows] += np.einsum("tij,tj->ti", H_sizes, np.abs(x[rows]))
    return gradient, _rounding_share(x) * size


def _rounding_share(u: Matrix) -> float:
    """Return how much of its terms' sizes rounding can take from a sum over rounds and features, about."""
    rounds, dim = u.shape
    return float(4.0 * EPS * (dim + 16.0 + math.sqrt(rounds)))

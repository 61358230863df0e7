r"""What past rounds, as far as they are remembered, lose at present comparators, for any convex loss.

$$(1-\beta)\sum_t\sum_{s\le t}\beta^{t-s}f_s(u_t)+\beta\sum_s\beta^{T-s}f_s(u_T)$$

A comparator that stands still from round a to round b - 1 asks for each past loss once. One that moves in most rounds
is taken in blocks of rounds: over the rounds r of a block, all later than s, convexity and curvature at most 1/4 give
$f_s(\bar u)\le\sum_rw_rf_s(u_r)\le f_s(\bar u)+\frac18\sum_rw_r((u_r-\bar u)\cdot z_s)^2$, and the excess needs no
evaluation either: it is the trace of the block's covariance times the discounted Gram matrix of the rows before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from undrift._internal.discount import Discount, forgetting_rates
from undrift._typing import Matrix, Vector
from undrift.losses import Logistic, Loss
from undrift.regret._input import margins, moves
from undrift.regret.past_losses import automatic_window, losses_of

SHARE = 1e-3
"""Blocks are shortened until what they leave open is below this share of the comparator's loss, ..."""
CHEAP = 1 << 22
"""Loss evaluations that are done anyway, each comparator by itself: a tenth of a second."""
AFFORDABLE = 1 << 28
"""... or until they would ask for more loss evaluations than this: a few seconds."""
CURVATURE = 0.25
"""Largest second derivative of the logistic loss in the prediction."""


class BracketedSum(NamedTuple):
    """A sum of discounted losses: the true value lies in [value, value + error]."""

    value: float
    error: float


class Block(NamedTuple):
    """Comparators of some rounds in a row."""

    begin: int
    end: int
    mass: float
    """Sum of the weights beta^(r - begin)."""
    mean: Vector
    """Their weighted mean."""
    excess: float
    """Bound on what all earlier rounds lose more at the comparators than at their mean."""


def remembered_loss(
    Z: Matrix,
    y: Vector,
    u: Matrix,
    discount: Discount,
    loss: Loss,
    betas: Vector | None = None,
    counts: Vector | None = None,
) -> BracketedSum:
    """Return the sum of the module's formula, each comparator by itself where that is as quick, else in blocks.

    `betas`: a discount for each round in place of the constant one. `counts`: how often each round's loss counts.
    """
    if not len(y):
        return BracketedSum(0.0, 0.0)
    own = loss.value(margins(Z, u), y)
    rates = forgetting_rates(discount, len(y), betas)
    if betas is not None or counts is not None or not discount.beta or not isinstance(loss, Logistic):
        # Nothing bounds another loss's size or curvature: no window, no blocks.
        return BracketedSum(_sum_stretches(Z, y, u, rates, loss, len(y), counts), 0.0)
    window = automatic_window(discount, len(y))
    width, count = math.isqrt(window), len(moves(u)) + 1
    if count * window <= max(CHEAP, _evaluations(len(y), window, width)):
        return BracketedSum(_sum_stretches(Z, y, u, rates, loss, window), _outside(Z, u, discount, window))
    last = losses_of((Z @ u[-1])[None, :], y, loss)[0]
    ends = [
        *(discount.power(np.arange(len(y), 0.0, -1.0)) * last).tolist(),
        *(discount.one_minus_beta * own).tolist(),
    ]
    if not discount.one_minus_beta:
        return BracketedSum(math.fsum(ends), 0.0)
    allowed = SHARE * math.fsum(own.tolist())
    blocks = list(_blocks(Z, u, discount, width))
    while math.fsum(one.excess for one in blocks) > allowed and width > 1:
        narrow = _evaluations(len(y), window, width // 2)
        if count * window <= 2 * narrow and count * window <= AFFORDABLE:
            return BracketedSum(_sum_stretches(Z, y, u, rates, loss, window), _outside(Z, u, discount, window))
        if narrow > AFFORDABLE:
            break
        width //= 2
        blocks = list(_blocks(Z, u, discount, width))
    fading = _discount_matrix(discount, width)
    value = [_earlier_rounds(Z, y, one, discount, loss, window) for one in blocks]
    value += [_same_block(Z, y, u, one, fading, discount.one_minus_beta, loss) for one in blocks]
    error = math.fsum(one.excess for one in blocks) + _outside(Z, u, discount, window)
    return BracketedSum(math.fsum(ends) + discount.beta * math.fsum(value), discount.beta * error)


def _sum_stretches(
    Z: Matrix, y: Vector, u: Matrix, rates: Vector, loss: Loss, window: int, counts: Vector | None = None
) -> float:
    """Return the sum, one stretch of rounds with the same comparator at a time, rounds before a window left out.

    With P(s, t) the product of the discounts of the rounds s + 1 to t, the terms (1 - beta_{t+1}) P(s, t) of a stretch
    telescope: its comparator weighs a round s by P(s, a) - P(s, b), a being the stretch's first round or s, if later.
    """
    begins = np.append(0, moves(u) + 1)
    total: list[float] = []
    for a, b in zip(begins.tolist(), [*begins[1:].tolist(), len(y)], strict=True):
        first = max(0, a - window)
        values = losses_of((Z[first:b] @ u[a])[None, :], y[first:b], loss)[0]
        if counts is not None:
            values = counts[first:b] * values
        age = np.cumsum(rates[first:b])
        entered = np.maximum(np.arange(first, b), a) - first
        weight = np.exp(age - age[entered])
        if b < len(y):
            weight *= -np.expm1(age[entered] - (age[-1] + rates[b]))
        total.append(float(weight @ values))
    return math.fsum(total)


def _outside(Z: Matrix, u: Matrix, discount: Discount, window: int) -> float:
    """Bound what rounds more than a window ago lose, in logistic loss, at the comparators of all rounds."""
    if window >= len(u):
        return 0.0
    largest = math.log(2.0) + np.linalg.norm(u, axis=1) * float(np.linalg.norm(Z, axis=1).max())
    return math.exp(-discount.rate * window) * float(largest.sum() + largest[-1] / discount.one_minus_beta)


def _blocks(Z: Matrix, u: Matrix, discount: Discount, width: int) -> Iterator[Block]:
    """Yield the blocks of all rounds but the first, which has none before it."""
    gram = Z[:1].T @ Z[:1]  # sum of beta^(begin - 1 - s) z_s z_s' over s < begin
    for begin in range(1, len(u), width):
        end = min(begin + width, len(u))
        weights = discount.power(np.arange(end - begin, dtype=np.float64))
        mass = float(weights.sum())
        mean = weights @ u[begin:end] / mass
        away = u[begin:end] - mean
        spread = np.einsum("rd,rd->", (away * weights[:, None]) @ gram, away)
        yield Block(begin, end, mass, mean, 0.5 * CURVATURE * discount.one_minus_beta * float(spread))
        rows = Z[begin:end]
        gram = math.exp(-discount.rate * (end - begin)) * gram + (rows * weights[::-1, None]).T @ rows


def _earlier_rounds(Z: Matrix, y: Vector, block: Block, discount: Discount, loss: Loss, window: int) -> float:
    """Return what rounds before a block lose at the mean of its comparators."""
    first = max(0, block.begin - window)
    values = losses_of((Z[first : block.begin] @ block.mean)[None, :], y[first : block.begin], loss)[0]
    weights = discount.power(np.arange(block.begin - first - 1.0, -1.0, -1.0))
    return discount.one_minus_beta * block.mass * float(weights @ values)


def _same_block(Z: Matrix, y: Vector, u: Matrix, block: Block, fading: Matrix, gap: float, loss: Loss) -> float:
    """Return what rounds of a block lose at its later comparators, pair by pair."""
    size, rows = block.end - block.begin, slice(block.begin, block.end)
    values = losses_of(u[rows] @ Z[rows].T, y[rows], loss)
    values *= fading[:size, :size]
    return gap * float(values.sum())


def _discount_matrix(discount: Discount, width: int) -> Matrix:
    """Return beta^(r - 1 - s) for s < r, 0 for the others (width, width)."""
    age = np.arange(width)[:, None] - np.arange(width)[None, :] - 1.0
    return np.where(age >= 0.0, discount.power(np.maximum(age, 0.0)), 0.0)


def _evaluations(rounds: int, window: int, width: int) -> int:
    """Return how many losses blocks of this width ask for."""
    return rounds * (width + window // width)

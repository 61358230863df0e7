r"""What a comparator that moves in most rounds adds up to, without an evaluation for every pair of rounds.

Summed by parts, the moves $\sum_{t<T}\sum_{s\le t}\beta^{t-s}(f_s(u_{t+1})-f_s(u_t))$ are

$$\sum_{s<T}\beta^{T-1-s}f_s(u_T)-f_s(u_s)+(1-\beta)\sum_{r<T}\sum_{s<r}\beta^{r-1-s}f_s(u_r):$$

a discounted average of past losses at present comparators, in which only neighbours in time have to be told apart. Over
a block of rounds r later than s, convexity and curvature at most 1/4 give
$f_s(\bar u)\le\sum_rw_rf_s(u_r)\le f_s(\bar u)+\frac18\sum_rw_r((u_r-\bar u)\cdot z_s)^2$, and the excess needs no
evaluation either: it is the trace of the block's covariance times the discounted Gram matrix of the rows before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from undrift._typing import Matrix, Rounds, Vector
from undrift.discount import Discount
from undrift.losses import Loss
from undrift.regret._input import margins
from undrift.regret.past_losses import automatic_window, jumps, losses_of

SHARE = 1e-3
"""Blocks are shortened until what they leave open is below this share of the comparator's loss, ..."""
CHEAP = 1 << 22
"""Loss evaluations that are done anyway, each move by itself: a tenth of a second."""
AFFORDABLE = 1 << 28
"""... or until they would ask for more loss evaluations than this: a few seconds."""
CURVATURE = 0.25
"""Largest second derivative of the logistic loss in the prediction."""


class Sum(NamedTuple):
    """Discounted loss differences of all moves together: the true value lies in [value, value + error]."""

    value: float
    error: float


class Span(NamedTuple):
    """Comparators of some rounds in a row."""

    begin: int
    end: int
    mass: float
    """Sum of the weights beta^(r - begin)."""
    mean: Vector
    """Their weighted mean."""
    excess: float
    """Bound on what all earlier rounds lose more at the comparators than at their mean."""


def moves_total(Z: Matrix, y: Vector, u: Matrix, at: Rounds, discount: Discount, loss: Loss) -> Sum:
    """Return the sum over moves t in `at` of sum_{s<=t} beta^(t-s) (f_s(u_{t+1}) - f_s(u_t)), logistic loss.

    Each move by itself where that is as quick; else in blocks of rounds, with an error as stated.
    """
    window = automatic_window(discount, len(y))
    width = math.isqrt(window)
    if len(at) * window <= max(CHEAP, _evaluations(len(y), window, width)):
        return _sum_each_move(Z, y, u, at, discount, loss)
    theirs = loss.value(margins(Z, u), y)
    last = losses_of((Z[:-1] @ u[-1])[None, :], y[:-1], loss)[0]
    ends = [*(discount.power(np.arange(len(y) - 2.0, -1.0, -1.0)) * last).tolist(), *(-theirs[:-1]).tolist()]
    if not discount.gap:
        return Sum(math.fsum(ends), 0.0)
    allowed = SHARE * math.fsum(theirs.tolist())
    spans = list(_spans(Z, u, discount, width))
    while math.fsum(span.excess for span in spans) > allowed and width > 1:
        narrow = _evaluations(len(y), window, width // 2)
        if len(at) * window <= 2 * narrow and len(at) * window <= AFFORDABLE:
            return _sum_each_move(Z, y, u, at, discount, loss)
        if narrow > AFFORDABLE:
            break
        width //= 2
        spans = list(_spans(Z, u, discount, width))
    fading = _discount_matrix(discount, width)
    value = [_far(Z, y, one, discount, loss, window) for one in spans]
    value += [_near(Z, y, u, one, fading, discount.gap, loss) for one in spans]
    error = math.fsum(one.excess for one in spans)
    longest = float(np.linalg.norm(Z, axis=1).max())
    tail = math.exp(-discount.rate * window) * float((math.log(2.0) + np.linalg.norm(u, axis=1) * longest).sum())
    return Sum(math.fsum([*ends, *value]), error + (tail if window < len(y) else 0.0))


def _spans(Z: Matrix, u: Matrix, discount: Discount, width: int) -> Iterator[Span]:
    """Yield the blocks of the rounds 1 to T - 2, counted from 0: those whose comparators are averaged."""
    gram = Z[:1].T @ Z[:1]  # sum of beta^(begin - 1 - s) z_s z_s' over s < begin
    for begin in range(1, len(u) - 1, width):
        end = min(begin + width, len(u) - 1)
        weights = discount.power(np.arange(end - begin, dtype=np.float64))
        mass = float(weights.sum())
        mean = weights @ u[begin:end] / mass
        away = u[begin:end] - mean
        spread = np.einsum("rd,rd->", (away * weights[:, None]) @ gram, away)
        yield Span(begin, end, mass, mean, 0.5 * CURVATURE * discount.gap * float(spread))
        rows = Z[begin:end]
        gram = math.exp(-discount.rate * (end - begin)) * gram + (rows * weights[::-1, None]).T @ rows


def _far(Z: Matrix, y: Vector, span: Span, discount: Discount, loss: Loss, window: int) -> float:
    """Return what rounds before a block lose at the mean of its comparators."""
    first = max(0, span.begin - window)
    values = losses_of((Z[first : span.begin] @ span.mean)[None, :], y[first : span.begin], loss)[0]
    weights = discount.power(np.arange(span.begin - first - 1.0, -1.0, -1.0))
    return discount.gap * span.mass * float(weights @ values)


def _near(Z: Matrix, y: Vector, u: Matrix, span: Span, fading: Matrix, gap: float, loss: Loss) -> float:
    """Return what rounds of a block lose at its later comparators, pair by pair."""
    size, rows = span.end - span.begin, slice(span.begin, span.end)
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


def _sum_each_move(Z: Matrix, y: Vector, u: Matrix, at: Rounds, discount: Discount, loss: Loss) -> Sum:
    """Return the same from every move by itself."""
    direct = jumps(Z, y, u, at, discount, loss)
    return Sum(math.fsum(direct.values.tolist()), direct.error)

r"""Discounted sums of past losses at the rounds where a comparator moves.

Everything the reduction needs about a comparator is
$\sum_{s\le t}\beta^{t-s}\,(f_s(u_{t+1}) - f_s(u_t))$ at the rounds t where it moves: standing still is free. Losses are
subtracted round by round before they are summed, so nothing large cancels. Moves are taken in blocks, so that the
memory needed does not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from undrift._internal.discount import Discount
from undrift._typing import Matrix, Rounds, Vector
from undrift.losses import Logistic, Loss

BLOCK = 1 << 18
"""Loss values held at a time (2 MB, so that they stay in cache)."""
NEGLIGIBLE = 1e-17
"""Total weight of the rounds an automatic window leaves out: below the rounding of what it keeps."""


class Jumps(NamedTuple):
    """Discounted loss differences at each move, and a bound on what a window left out in total."""

    values: Vector
    error: float


def automatic_window(discount: Discount, rounds: int) -> int:
    """Return the shortest window outside which the weights sum to less than `NEGLIGIBLE`; all rounds when beta = 1."""
    if not discount.one_minus_beta:
        return rounds
    return min(rounds, math.ceil(math.log(NEGLIGIBLE * discount.one_minus_beta) / -discount.rate) + 1)


def tail_weight(discount: Discount, window: int, t: Rounds) -> Vector:
    """Return the sum of beta^k for ages k from `window` to t: the weight a window leaves out at round t (from 0)."""
    left = np.maximum(t + 1 - window, 0).astype(np.float64)
    if not discount.one_minus_beta:
        return left
    return np.asarray(math.exp(-discount.rate * window) / discount.one_minus_beta * -np.expm1(-discount.rate * left))


def steepness(Z: Matrix, y: Vector, old: Matrix, new: Matrix, loss: Loss) -> Vector:
    """Return, for each pair of comparators, a bound on |f_s(new) - f_s(old)| over all rounds s."""
    largest_row = float(np.linalg.norm(Z, axis=1).max(initial=0.0))
    step = np.linalg.norm(new - old, axis=1) * largest_row
    if isinstance(loss, Logistic):
        return np.asarray(step)
    middle = 0.5 * np.linalg.norm(new + old, axis=1) * largest_row
    return np.asarray(step * (middle + np.abs(y).max(initial=0.0)))


def differences(
    Z: Matrix, y: Vector, u: Matrix, at: Rounds, loss: Loss, window: int
) -> Iterator[tuple[int, int, Vector, Vector]]:
    """Yield, for the k-th move, its number, its first round kept, and the losses of the old and the new comparator."""
    k = 0
    while k < len(at):
        first = max(0, int(at[k]) + 1 - window)
        take = k + 1
        while take < len(at) and (take + 2 - k) * (int(at[take]) + 1 - first) <= BLOCK:
            take += 1
        last = int(at[take - 1]) + 1
        points = np.concatenate([u[at[k] : at[k] + 1], u[at[k:take] + 1]])
        values = losses_of(points @ Z[first:last].T, y[first:last], loss)
        for row in range(take - k):
            begin = max(0, int(at[k + row]) + 1 - window)
            span = slice(begin - first, int(at[k + row]) + 1 - first)
            yield k + row, begin, values[row, span], values[row + 1, span]
        k = take


def losses_of(predictions: Matrix, y: Vector, loss: Loss) -> Matrix:
    """Return the losses of many predictions (k, n), overwriting them: logistic certificates spend their time here."""
    if not isinstance(loss, Logistic):
        return loss.value(predictions, y)
    np.multiply(predictions, -y, out=predictions)
    tail = np.abs(predictions)
    np.exp(np.negative(tail, out=tail), out=tail)
    np.maximum(predictions, 0.0, out=predictions)
    predictions += np.log1p(tail, out=tail)  # softplus(x) = max(x, 0) + ln(1 + e^-|x|)
    return predictions


def jumps(
    Z: Matrix, y: Vector, u: Matrix, at: Rounds, discount: Discount, loss: Loss, window: int | None = None
) -> Jumps:
    """Return sum_{s<=t} beta^(t-s) (f_s(u_{t+1}) - f_s(u_t)) for each move t in `at`.

    A `window` keeps the last so many rounds of each sum and states a bound on what the rest could add.
    """
    window = automatic_window(discount, len(y)) if window is None else min(window, len(y))
    weights = discount.power(np.arange(window, 0, -1, dtype=np.float64) - 1.0)
    values = np.zeros(len(at))
    for k, begin, old, new in differences(Z, y, u, at, loss, window):
        values[k] = ((new - old) * weights[window - (int(at[k]) + 1 - begin) :]).sum()
    tails = tail_weight(discount, window, at)
    error = float(tails @ steepness(Z, y, u[at], u[at + 1], loss)) if tails.any() else 0.0
    return Jumps(values, error)


def history_values(
    Z: Matrix, y: Vector, u: Matrix, at: Rounds, discount: Discount, loss: Loss
) -> tuple[Vector, Vector]:
    """Return sum_{s<=t} beta^(t-s) f_s of the old and of the new comparator at each move, all rounds kept."""
    weights = discount.power(np.arange(len(y), 0, -1, dtype=np.float64) - 1.0)
    sums = np.zeros((2, len(at)))
    for k, begin, old, new in differences(Z, y, u, at, loss, len(y)):
        w = weights[len(y) - (int(at[k]) + 1 - begin) :]
        sums[:, k] = (old * w).sum(), (new * w).sum()
    return sums[0], sums[1]

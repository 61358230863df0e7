r"""The discount factor $\beta$ and the numbers that go with it.

$1 - \beta$ is the primary number: a memory of $10^{12}$ rounds has $1 - \beta = 7\cdot10^{-13}$, of which a float64
$\beta$ keeps three digits. Below 1/2 it is $\beta$ itself: of $\beta = 10^{-13}$ a float64 $1 - \beta$ keeps three.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.errors import InputError


class Discount(NamedTuple):
    """A discount factor in (0, 1], kept as `beta` and as `one_minus_beta`, each to full precision."""

    beta: float
    one_minus_beta: float

    @property
    def rate(self) -> float:
        """Forgetting per round, -ln(beta)."""
        if self.beta >= 0.5:
            return -math.log1p(-self.one_minus_beta)
        return -math.log(self.beta) if self.beta else math.inf

    @property
    def half_life(self) -> float:
        """Rounds after which a label counts half; infinity when nothing is forgotten."""
        return math.log(2.0) / self.rate if self.one_minus_beta else math.inf

    @property
    def eta(self) -> float:
        """Beta / (1 - beta), the paper's learning-rate scale of a memory."""
        return self.beta / self.one_minus_beta if self.one_minus_beta else math.inf

    def power(self, t: Vector) -> Vector:
        """Return beta**t, without ever rounding 1 - beta."""
        return np.asarray(np.exp(-self.rate * t), dtype=np.float64)

    def potential(self, reg: float, age: float, count: int, elapsed: Vector | None = None) -> Vector:
        """Return reg beta**t of `count` rounds, t being the time so far: `age` before them, and 1 or `elapsed` each."""
        if elapsed is None and float(age).is_integer():
            weight = np.arange(age + 1.0, age + count + 1.0)
        else:  # added one by one, so that it does not matter how rounds are cut
            steps = np.ones(count) if elapsed is None else elapsed
            weight = np.cumsum(np.concatenate(([float(age)], steps)))[1:]
        weight *= -self.rate
        np.exp(weight, out=weight)
        weight *= reg
        return weight


def make_discount(who: object, beta: float | None, half_life: float | None) -> Discount:
    """Return the discount a user asked for by `beta` or, in its place, by `half_life` in rounds."""
    if half_life is not None:
        if beta is not None:
            raise InputError(f"{_check.name_of(who)}: give beta or half_life, not both")
        rounds = _check.interval(who, "half_life", half_life, "(0, inf]")
        one_minus_beta = -math.expm1(-math.log(2.0) / rounds)
        if one_minus_beta >= 1.0:
            raise InputError(f"{_check.name_of(who)}: half_life must be at least 0.02 rounds, got {half_life!r}")
        beta = 1.0 - one_minus_beta if one_minus_beta < 0.5 else math.exp2(-1.0 / rounds)
        return Discount(beta, one_minus_beta)
    exact = _check.interval(who, "beta", beta, "(0, 1]")
    return Discount(exact, 1.0 - exact)


def as_discount(who: object, beta: float | Discount) -> Discount:
    """Return a discount given as a number in (0, 1] or as a `Discount`, which keeps 1 - beta exactly."""
    return beta if isinstance(beta, Discount) else make_discount(who, beta, None)


def from_eta(eta: float) -> Discount:
    """Return beta = eta / (1 + eta), exactly as good at eta = 1e15 as at 1; infinity is beta = 1."""
    if math.isinf(eta):
        return Discount(1.0, 0.0)
    return Discount(eta / (1.0 + eta), 1.0 / (1.0 + eta))


FORGET_ALL = 800.0
"""A rate of forgetting so large that one round leaves nothing of the past in float64."""
BLOCK_ROWS = 128
"""Rows of a discounted sum that are taken together."""
LONGEST_HORIZON = 2.0**40
"""Rounds covered when no horizon is given: a label every millisecond for 34 years."""


def linear_grid(dim: int, horizon: float | None = None) -> list[Discount]:
    r"""Return the memories of the linear ensemble: $\eta_i = \min(2d\,2^i, dT)$, doubling up to $dT$.

    Without a horizon the grid reaches $2^{40}$ rounds and $\beta = 1$ is added, so that its guarantee holds for every
    $T \le 2^{40}$ at once. The member without memory ($\beta = 0$, the learner `Zero`) is not part of the list.

    >>> [round(memory.eta) for memory in linear_grid(3, horizon=10)]
    [6, 12, 24, 30]
    """
    longest = dim * (LONGEST_HORIZON if horizon is None else horizon)
    etas = [2.0 * dim]
    while etas[-1] < longest:
        etas.append(2.0 * etas[-1])
    etas[-1] = min(etas[-1], longest)
    return [from_eta(eta) for eta in etas] + ([from_eta(math.inf)] if horizon is None else [])


def logistic_grid(dim: int, bound: float, radius: float, horizon: float | None = None) -> list[Discount]:
    r"""Return the memories of the logistic ensemble: $\eta_i = 2^{i-1}\eta_{\min}$ up to at least $\eta_{\max} = dT$.

    $\eta_{\min} = \sqrt{d(1 + BR)/\max(1/2, 2RB)}$, where the paper prints a maximum that is too small for $B < 1/2$,
    and there is never fewer than one memory. Without a horizon as in `linear_grid`.

    >>> [round(memory.eta, 3) for memory in logistic_grid(1, bound=2.0, radius=1.0, horizon=4)]
    [0.866, 1.732, 3.464, 6.928]
    >>> len(logistic_grid(1, bound=1e-4, radius=1.0, horizon=1))
    1
    """
    smallest = math.sqrt(dim * (1.0 + bound * radius) / max(0.5, 2.0 * radius * bound))
    longest = dim * (LONGEST_HORIZON if horizon is None else horizon)
    count = max(1, math.ceil(math.log2(longest / smallest)) + 1)
    grid = [from_eta(smallest * 2.0**i) for i in range(count)]
    return grid + ([from_eta(math.inf)] if horizon is None else [])


def discounted_sums(values: Matrix, rates: Vector, before: Vector | None = None) -> Matrix:
    """Return sum_{s<=t} values_s times the discounts of the rounds s + 1 to t, for every row t (T, d).

    `rates` are -ln(beta) of each round (T,); `before` is the sum up to the row before the first.

    >>> discounted_sums(np.ones((3, 1)), np.full(3, math.log(2.0)))[:, 0].round(9).tolist()
    [1.0, 1.5, 1.75]
    """
    sums = np.zeros(values.shape[1]) if before is None else before
    out = np.empty_like(values)
    rate = np.zeros(0)
    for begin in range(0, len(values), BLOCK_ROWS):
        part = values[begin : begin + BLOCK_ROWS]
        if not np.array_equal(rate, rates[begin : begin + BLOCK_ROWS]):  # else the weights of the block before serve
            rate = rates[begin : begin + BLOCK_ROWS]
            age = np.cumsum(rate)
            weight = np.tril(np.exp(np.minimum(age[None, :] - age[:, None], 0.0)))
        out[begin : begin + BLOCK_ROWS] = weight @ part + np.exp(-age)[:, None] * sums
        sums = out[begin + len(part) - 1]
    return out


def forgetting_rates(discount: Discount, rounds: int, betas: Vector | None = None) -> Vector:
    """Return -ln(beta) of each round (T,): the same in all of them, or those of `betas`, where 0 forgets everything."""
    if betas is None:
        return np.full(rounds, min(discount.rate, FORGET_ALL))
    with np.errstate(divide="ignore"):
        return np.asarray(np.minimum(-np.log(betas), FORGET_ALL))

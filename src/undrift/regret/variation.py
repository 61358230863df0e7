r"""The comparator's discounted variation $P_T^\beta$, and the memory $\beta_\star$ that balances it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._internal.discount import Discount, as_discount, from_eta
from undrift.losses import Loss, squared
from undrift.regret._input import check_comparator, check_stream, moves
from undrift.regret.past_losses import differences, steepness, tail_weight


class Variation(NamedTuple):
    """A discounted variation: the true value lies in [value, value + error]."""

    value: float
    error: float


def discounted_variation(
    Z: ArrayLike,
    y: ArrayLike,
    u: ArrayLike,
    beta: float | Discount,
    loss: Loss = squared,
    *,
    reg: float = 1.0,
    window: int | None = None,
) -> Variation:
    r"""Return $P_T^\beta=\sum_{t<T}\sum_{s=0}^t p_{t,s}[f_s(u_{t+1})-f_s(u_t)]_+$ with $f_0=\frac\lambda2|u|^2$.

    Parameters
    ----------
    Z, y, u
        Rows (T, d), labels (T,), comparators (T, d) or one (d,).
    beta
        Discount in (0, 1]; 1 gives every past round the same weight.
    loss
        `undrift.losses.squared` or `logistic`.
    reg
        $\lambda \ge 0$ of $f_0$.
    window
        Keep the last so many rounds of each inner sum (and $f_0$); `error` bounds what was left out, at most
        $\beta^W$ times the largest loss difference for each move. None keeps all of them: exact, `error` is 0.

    Notes
    -----
    Key `variation`. T loss evaluations (or `window`) for each move of the comparator.

    Examples
    --------
    >>> discounted_variation([[1.0], [1.0]], [0.0, 0.0], [[0.0], [2.0]], beta=0.5, reg=0.0).value
    1.3333333333333333
    """
    who = "discounted_variation"
    Z, y = check_stream(who, Z, y, loss)
    u = check_comparator(who, u, *Z.shape)
    d = as_discount(who, beta)
    reg = _check.interval(who, "reg", reg, "[0, inf)")
    keep = len(y) if window is None else min(_check.integer(who, "window", window, 1), len(y))
    at = moves(u)
    ages = np.arange(keep, 0, -1, dtype=np.float64) - 1.0
    weights = d.power(ages)
    rising = np.zeros(len(at))
    for k, begin, old, new in differences(Z, y, u, at, loss, keep):
        rising[k] = (np.maximum(new - old, 0.0) * weights[keep - (int(at[k]) + 1 - begin) :]).sum()
    ridge = 0.5 * reg * np.einsum("td,td->t", u[at + 1] - u[at], u[at + 1] + u[at])
    rising += d.power((at + 1).astype(np.float64)) * np.maximum(ridge, 0.0)
    mass = tail_weight(d, 0, at + 1)  # sum of beta^(t - tau), tau = 0..t
    tails = tail_weight(d, keep, at)
    error = float((tails / mass) @ steepness(Z, y, u[at], u[at + 1], loss)) if tails.any() else 0.0
    return Variation(math.fsum((rising / mass).tolist()), error)


def beta_star(variation: Callable[[Discount], float], budget: float) -> Discount:
    r"""Return the memory with $\beta_\star = \sqrt{b}/(\sqrt{b}+\sqrt{P_T^{\beta_\star}})$ for a budget b.

    Parameters
    ----------
    variation
        $P_T^\beta$ as a function of the discount.
    budget
        b > 0: $\frac d2 T\max y^2$ for squared loss (corrected, see the errata), $d(1+BR)T$ for logistic loss.

    Notes
    -----
    Key `variation`. The root of $2\ln\eta+\ln P^{\eta/(1+\eta)}=\ln b$ by bisection in $\ln\eta$; several roots are
    possible, each one serves. A comparator without variation gives beta = 1.

    Examples
    --------
    >>> round(beta_star(lambda d: 4.0, budget=36.0).eta, 9)
    3.0
    """
    budget = _check.interval("beta_star", "budget", budget, "(0, inf)")
    if variation(Discount(1.0, 0.0)) <= 0.0:
        return Discount(1.0, 0.0)

    def excess(log_eta: float) -> float:
        p = variation(from_eta(math.exp(log_eta)))
        return 2.0 * log_eta + math.log(p) - math.log(budget) if p > 0.0 else -math.inf

    low, high = -30.0, 30.0
    while excess(high) < 0.0 and high < 300.0:
        high *= 2.0
    while excess(low) > 0.0 and low > -300.0:
        low *= 2.0
    while high - low > 1e-13 * max(1.0, abs(low), abs(high)):
        middle = 0.5 * (low + high)
        if excess(middle) > 0.0:
            high = middle
        else:
            low = middle
    return from_eta(math.exp(0.5 * (low + high)))

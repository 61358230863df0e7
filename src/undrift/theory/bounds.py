"""Closed-form regret bounds: the paper's theorems as functions of rows, labels and comparators.

`certify` is sharper and needs no assumption; these have the paper's form, with constants corrected, and need no run.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._internal.discount import Discount, as_discount
from undrift._typing import Matrix, Vector
from undrift.errors import ConditionError
from undrift.losses import Loss, logistic, squared
from undrift.regret._input import check_comparator, check_stream, moves
from undrift.regret.past_losses import jumps
from undrift.regret.variation import beta_star, discounted_variation


class ClosedForm(NamedTuple):
    """A bound on dynamic regret, term by term."""

    start: float
    """Distance of the first comparator from 0."""
    dimension: float
    """The logarithmic price of d parameters."""
    path: float
    """The price of the comparator's moves."""
    forgetting: float
    """The price of a finite memory; 0 at beta = 1."""
    mixing: float = 0.0
    """Ensembles: the price of not knowing which member is best."""

    @property
    def total(self) -> float:
        """The bound."""
        return math.fsum(self)


def vaw(
    Z: ArrayLike,
    y: ArrayLike,
    u: ArrayLike,
    *,
    beta: float | Discount,
    reg: float = 1.0,
    gamma: float | Discount | None = None,
    exact_path: bool = False,
    printed: bool = False,
) -> ClosedForm:
    r"""Bound the dynamic regret of discounted VAW with hint "zero" (key `vaw`).

    $\frac{\beta\lambda}2|u_1|^2+\frac d2Y^2\ln\big(1+\frac{\sum\beta^{T-t}|z_t|^2}{\lambda d}\big)
    +\frac\gamma{1-\gamma}P_T^\gamma+\frac d2TY^2\ln\frac1\beta$ with $Y=\max|y_t|$ and any $\gamma\in[\beta,1)$.

    Parameters
    ----------
    Z, y, u
        Rows (T, d), labels (T,), comparators (T, d) or one (d,).
    beta, reg
        The learner's discount in (0, 1] and $\lambda>0$.
    gamma
        Memory in which the variation is measured, at least beta; None: beta itself.
    exact_path
        Use $\beta\sum F_t(u_{t+1})-F_t(u_t)$ itself for the path: sharper, and the only choice at beta = 1.
    printed
        The theorem as the paper prints it, with $\frac{1-\beta}\beta\frac d2\sum y_t^2$ at the end. **Not a bound**:
        with z = y = 1 every 100th round, 0 otherwise, u = 1, beta = 0.9, $10^4$ rounds, the regret is 50.0 and this
        says 6.35.

    Examples
    --------
    >>> z = np.zeros(10_000)
    >>> z[99::100] = 1.0
    >>> round(vaw(z[:, None], z, [1.0], beta=0.9, printed=True).total, 2)
    6.35
    >>> round(vaw(z[:, None], z, [1.0], beta=0.9).total, 1)
    527.6
    """
    who = "bounds.vaw"
    Z, y = check_stream(who, Z, y, squared)
    u = check_comparator(who, u, *Z.shape)
    d, reg = as_discount(who, beta), _check.interval(who, "reg", reg, "(0, inf)")
    largest = float(np.abs(y).max(initial=0.0)) ** 2
    half, dim = 0.5 * Z.shape[1], Z.shape[1]
    energy = _discounted_total(np.einsum("td,td->t", Z, Z), d)
    printed_tail = half * math.fsum((y * y).tolist()) * (d.one_minus_beta / d.beta)
    return ClosedForm(
        start=0.5 * d.beta * reg * _start(u),
        dimension=half * largest * math.log1p(energy / (reg * dim)),
        path=_path(who, Z, y, u, d, gamma, squared, reg, exact_path),
        forgetting=printed_tail if printed else half * len(y) * largest * d.rate,
    )


def aioli(
    Z: ArrayLike,
    y: ArrayLike,
    u: ArrayLike,
    *,
    beta: float | Discount,
    bound: float,
    radius: float,
    reg: float = 1.0,
    gamma: float | Discount | None = None,
    exact_path: bool = False,
) -> ClosedForm:
    r"""Bound the dynamic regret of discounted AIOLI for $|z_t|\le R$, $|u_t|\le B$ (key `aioli`).

    $\frac{\beta\lambda}2|u_1|^2+d(1+BR)\ln\big(1+\frac{R^2\sum\beta^{T-t}}{4d\lambda(1+BR)}\big)
    +\frac\gamma{1-\gamma}P_T^\gamma+d(1+BR)T\ln\frac1\beta$; the paper has $R^2$ for $R^2/4$ and
    $\frac{1-\beta}\beta$ for $\ln\frac1\beta$, both larger.

    Raises
    ------
    ConditionError
        A row is longer than R or a comparator longer than B.

    Examples
    --------
    >>> round(aioli([[1.0]] * 4, [1, 1, -1, 1], [0.5], beta=0.9, bound=1.0, radius=1.0).total, 3)
    1.671
    """
    who = "bounds.aioli"
    Z, y = check_stream(who, Z, y, logistic)
    u = check_comparator(who, u, *Z.shape)
    d, reg = as_discount(who, beta), _check.interval(who, "reg", reg, "(0, inf)")
    bend = 1.0 + _within(who, Z, u, bound, radius)
    price = Z.shape[1] * bend
    energy = 0.25 * radius**2 * _discounted_total(np.ones(len(y)), d)
    return ClosedForm(
        start=0.5 * d.beta * reg * _start(u),
        dimension=price * math.log1p(energy / (reg * price)),
        path=_path(who, Z, y, u, d, gamma, logistic, reg, exact_path),
        forgetting=price * len(y) * d.rate,
    )


def linear_ensemble(
    Z: ArrayLike, y: ArrayLike, u: ArrayLike, *, reg: float = 1.0, experts: int | None = None
) -> ClosedForm:
    r"""Bound the dynamic regret of the two-layer ensemble over the linear grid (key `linear-ensemble`).

    $Y^2(4\ln N+2)+\frac\lambda2|u_1|^2+\frac d2Y^2\ln\big(1+\frac{\sum|z_t|^2}{\lambda d}\big)
    +3\sqrt{bP_T^{\beta_\star}}$ with
    $b=\frac d2TY^2$; the grid is $\eta_i=\min(2d2^i,dT)$ and the learner that predicts 0.

    Parameters
    ----------
    Z, y, u, reg
        As for `vaw`.
    experts
        N, the learner that predicts 0 included; None: as many as the grid for T rounds has.

    Examples
    --------
    >>> round(linear_ensemble([[1.0]] * 8, [1.0] * 8, [1.0]).total, 2)
    9.14
    """
    who = "bounds.linear_ensemble"
    Z, y = check_stream(who, Z, y, squared)
    u = check_comparator(who, u, *Z.shape)
    reg = _check.interval(who, "reg", reg, "(0, inf)")
    rounds, dim = Z.shape
    count = _check.integer(who, "experts", experts, 1) if experts is not None else linear_grid_size(rounds) + 1
    largest = float(np.abs(y).max(initial=0.0)) ** 2
    budget = 0.5 * dim * rounds * largest
    return ClosedForm(
        start=0.5 * reg * _start(u),
        dimension=0.5 * dim * largest * math.log1p(float(np.einsum("td,td->", Z, Z)) / (reg * dim)),
        path=3.0 * math.sqrt(budget * _variation_at_beta_star(Z, y, u, squared, reg, budget)) if budget else 0.0,
        forgetting=0.0,
        mixing=largest * (4.0 * math.log(count) + 2.0),
    )


def linear_grid_size(rounds: int) -> int:
    """Return how many discounted learners the linear grid has: eta_i = min(2d 2^i, dT) until dT is reached.

    Examples
    --------
    >>> [linear_grid_size(T) for T in (1, 2, 3, 8)]
    [1, 1, 2, 3]
    """
    count = 1
    while 2 << (count - 1) < rounds:
        count += 1
    return count


def logistic_ensemble(
    Z: ArrayLike, y: ArrayLike, u: ArrayLike, *, bound: float, radius: float, experts: int | None = None
) -> ClosedForm:
    r"""Bound the dynamic regret of the logistic ensemble, $\lambda=1/B^2$ (key `logistic-ensemble`).

    $\ln N+\frac12+d(1+BR)\ln\big(1+\frac{R^2B^2T}{d(1+BR)}\big)
    +3\sqrt{d(1+BR)TP_T^{\beta_\star}}$; beyond the grid's end, when $\eta_\star>dT$, one
    square root and $2(1+BR)$ instead of the three. The grid is the corrected one (errata).

    Examples
    --------
    >>> round(logistic_ensemble([[1.0]] * 8, [1] * 8, [0.5], bound=1.0, radius=1.0).total, 2)
    8.73
    """
    who = "bounds.logistic_ensemble"
    Z, y = check_stream(who, Z, y, logistic)
    u = check_comparator(who, u, *Z.shape)
    reach = _within(who, Z, u, bound, radius)
    rounds, dim = Z.shape
    price, reg = dim * (1.0 + reach), 1.0 / bound**2
    if experts is None:
        smallest = math.sqrt(price / max(0.5, 2.0 * reach))
        count = max(1, math.ceil(math.log2(max(dim * rounds, 1) / smallest)) + 1)
    else:
        count = _check.integer(who, "experts", experts, 1)
    varies = _variation_at_beta_star(Z, y, u, logistic, reg, price * rounds) if rounds else 0.0
    root = math.sqrt(price * rounds * varies)
    beyond = not varies or math.sqrt(price * rounds / varies) > dim * rounds
    return ClosedForm(
        start=0.5 * reg * _start(u),
        dimension=price * math.log1p((radius * bound) ** 2 * rounds / price),
        path=root if beyond else 3.0 * root,
        forgetting=2.0 * (1.0 + reach) if beyond else 0.0,
        mixing=math.log(count),
    )


def _start(u: Matrix) -> float:
    return float(u[0] @ u[0]) if len(u) else 0.0


def _discounted_total(values: Vector, d: Discount) -> float:
    """Return sum_t beta^(T-t) values_t."""
    return float(values @ d.power(np.arange(len(values), 0, -1, dtype=np.float64) - 1.0))


def _within(who: str, Z: Matrix, u: Matrix, bound: float, radius: float) -> float:
    """Return B R after checking that every row and comparator keeps to its bound."""
    bound, radius = (
        _check.interval(who, name, value, "(0, inf)") for name, value in (("bound", bound), ("radius", radius))
    )
    for name, what, array, most in (("radius", "row", Z, radius), ("bound", "comparator", u, bound)):
        size = np.linalg.norm(array, axis=1)
        if (size > most * (1.0 + 1e-12)).any():
            t = int(np.argmax(size))
            raise ConditionError(
                f"{who}: every {what} must have norm <= {name} = {most:g}, the one of round {t} has {size[t]:g}; "
                f"give a larger {name} or use certify, which does not need it"
            )
    return bound * radius


def _path(
    who: str,
    Z: Matrix,
    y: Vector,
    u: Matrix,
    beta: Discount,
    gamma: float | Discount | None,
    loss: Loss,
    reg: float,
    exact: bool,
) -> float:
    """Return the price of the comparator's moves: beta sum F_t(u_{t+1}) - F_t(u_t), or its bound by the variation."""
    at = moves(u)
    if exact or not len(at):
        ridge = reg * np.einsum("td,td->t", u[at + 1] - u[at], u[at + 1] + u[at]) * 0.5
        ridge *= beta.power((at + 1).astype(np.float64))
        direct = jumps(Z, y, u, at, beta, loss)
        return beta.beta * math.fsum([*direct.values.tolist(), *ridge.tolist(), direct.error])
    g = beta if gamma is None else as_discount(who, gamma)
    if not 0.0 < g.rate <= beta.rate:
        raise ConditionError(
            f"{who}: gamma must be in [beta, 1), got {g.beta!r} for beta={beta.beta!r}; pass exact_path=True for a "
            "moving comparator at beta = 1"
        )
    return g.eta * discounted_variation(Z, y, u, g, loss, reg=reg).value


def _variation_at_beta_star(Z: Matrix, y: Vector, u: Matrix, loss: Loss, reg: float, budget: float) -> float:
    """Return the variation at beta_star."""
    best = beta_star(lambda d: discounted_variation(Z, y, u, d, loss, reg=reg).value, budget)
    return discounted_variation(Z, y, u, best, loss, reg=reg).value

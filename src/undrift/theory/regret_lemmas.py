"""The lemmas behind the regret bounds, each as the two sides it relates; property tests hold them against each other.

`printed=True` gives a statement as the paper prints it where that is wrong; the errata page has the counterexamples.
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
from undrift.learners.information import InformationLearner
from undrift.losses import Loss, logistic, sigmoid, softplus, squared
from undrift.regret._input import check_comparator, check_stream, moves
from undrift.regret.past_losses import jumps
from undrift.regret.variation import discounted_variation


def _solve(A: Matrix, b: Vector) -> Vector:
    """Return A^-1 b, or say that forgetting or a ridge of 0 left nothing to invert."""
    try:
        return np.asarray(np.linalg.solve(A, b))
    except np.linalg.LinAlgError:
        raise ConditionError(
            "lemmas: the information matrix is singular in float64; take a longer memory, a larger reg, or fewer rounds"
        ) from None


def _last(u: Matrix) -> Vector:
    """Return the comparator of the last round; 0 where there is none."""
    return u[-1] if len(u) else np.zeros(u.shape[1])


class Sides(NamedTuple):
    """Both sides of a lemma: equal for an identity, left <= right for a bound."""

    left: float
    """What is bounded."""
    right: float
    """Its bound, or its other form."""


def vaw_rescaled(
    Z: ArrayLike, y: ArrayLike, u: ArrayLike, *, beta: float = 1.0, reg: float = 1.0, printed: bool = False
) -> Sides:
    r"""Discounted regret of VAW against one comparator (key `vaw`); beta = 1 is the static lemma.

    $\sum_s\beta^{t-s}(f_s(x_s)-f_s(u))\le\frac{\lambda\beta^t}2|u|^2
    +\frac12\sum_{s\le t}\beta^{t-s}y_s^2z_s^\top A_s^{-1}z_s$.
    As printed, the last sum stops at t - 1: false (one round with z = y = u = 1 and $\lambda=10^{-3}$ refutes it).

    Examples
    --------
    >>> vaw_rescaled([[1.0]], [1.0], [1.0], reg=1e-3, printed=True)
    Sides(left=0.5, right=0.0005)
    """
    Z, y = check_stream("vaw_rescaled", Z, y, squared)
    point = _last(check_comparator("vaw_rescaled", u, *Z.shape))
    A, r = reg * np.eye(Z.shape[1]), np.zeros(Z.shape[1])
    left = right = before = 0.0
    for z, label in zip(Z, y, strict=True):
        A, r = beta * A + np.outer(z, z), beta * r
        yhat = float(z @ _solve(A, r))
        left = beta * left + 0.5 * float((yhat - label) ** 2 - (z @ point - label) ** 2)
        price = 0.5 * float(label) ** 2 * float(z @ _solve(A, z))
        right, before = beta * right + price, beta * right
        r = r + label * z
    start = 0.5 * reg * beta ** len(y) * float(point @ point)
    return Sides(left, start + (before if printed else right))


def aioli_rescaled(
    Z: ArrayLike, y: ArrayLike, u: ArrayLike, *, bound: float, radius: float, beta: float = 1.0, reg: float = 1.0
) -> Sides:
    r"""Discounted regret of AIOLI against one comparator with $|u\cdot z|\le BR$ (key `aioli`).

    $\sum_s\beta^{t-s}(f_s(x_s)-f_s(u))\le\frac{\lambda\beta^t}2|u|^2
    +(1+BR)\sum_s\beta^{t-s}k_sz_s^\top A_s^{-1}z_s$ with $k_s=\sigma(\hat y_s)\sigma(-\hat y_s)/(1+BR)$;
    the round's equation is solved by bisection, not by the kernels.

    Examples
    --------
    >>> sides = aioli_rescaled([[1.0]], [1.0], [1.0], bound=1.0, radius=1.0)
    >>> round(sides.left, 4), round(sides.right, 4)
    (0.3799, 0.7222)
    """
    Z, y = check_stream("aioli_rescaled", Z, y, logistic)
    point = _last(check_comparator("aioli_rescaled", u, *Z.shape))
    bend = 1.0 + bound * radius
    P, r = reg * np.eye(Z.shape[1]), np.zeros(Z.shape[1])
    left = right = 0.0
    for z, label in zip(Z, y, strict=True):
        P, r = beta * P, beta * r
        m0, kappa = float(z @ _solve(P, r)), float(z @ _solve(P, z))
        yhat = _bisect(m0, kappa)
        k = float(sigmoid(yhat) * sigmoid(-yhat)) / bend
        left = beta * left + float(softplus(-label * yhat) - softplus(-label * float(z @ point)))
        P = P + k * np.outer(z, z)
        right = beta * right + bend * k * float(z @ _solve(P, z))
        r = r + (label * float(sigmoid(-label * yhat)) + k * yhat) * z
    return Sides(left, 0.5 * reg * beta ** len(y) * float(point @ point) + right)


def _bisect(m0: float, kappa: float) -> float:
    """Return the root of m + kappa tanh(m/2) = m0 by plain bisection."""
    low, high = min(0.0, m0), max(0.0, m0)
    for _ in range(200):
        m = 0.5 * (low + high)
        low, high = (m, high) if m + kappa * math.tanh(0.5 * m) < m0 else (low, m)
    return 0.5 * (low + high)


def paper_stability(learner: InformationLearner, Z: ArrayLike, y: ArrayLike) -> Vector:
    r"""Return the paper's price of each round of VAW or AIOLI, where `Trace.stability` has the exact one (key `vaw`).

    VAW: $\frac12(y_t-\tilde y_t)^2z_t^\top A_t^{-1}z_t$; AIOLI: $(1+BR)k_tz_t^\top A_t^{-1}z_t$. Never smaller than the
    exact price, so certificates with it hold too.

    Examples
    --------
    >>> from undrift.learners import DiscountedVAW
    >>> learner, Z, y = DiscountedVAW(beta=1.0), np.ones((3, 1)), [1.0, 1.0, 1.0]
    >>> paper_stability(learner, Z, y).round(3).tolist(), learner.play(Z, y).stability.round(3).tolist()
    ([0.25, 0.167, 0.125], [0.25, 0.139, 0.083])
    """
    rows, labels = check_stream("paper_stability", Z, y, learner.loss)
    return learner.paper_stability(rows, labels)


def abel_sum(a: ArrayLike, beta: float | Discount) -> Sides:
    r"""Sum of an exponential moving average: an identity (key `abel-sum`).

    $\sum_tV_t=\sum_t(1-\beta^{T+1-t})a_t$ for $V_t=(1-\beta)\sum_{s\le t}\beta^{t-s}a_s$.

    Examples
    --------
    >>> abel_sum([1.0, 2.0], beta=0.5)
    Sides(left=1.75, right=1.75)
    """
    values, d = _check.finite_array("abel_sum", "a", a, (None,)), as_discount("abel_sum", beta)
    average, averages = 0.0, []
    for x in values.tolist():
        average = d.beta * average + d.one_minus_beta * x
        averages.append(average)
    ages = np.arange(len(values), 0, -1, dtype=np.float64)
    return Sides(math.fsum(averages), math.fsum((-np.expm1(-d.rate * ages) * values).tolist()))


def logistic_surrogate(a: float, c: float, limit: float) -> Sides:
    r"""A quadratic below the logistic loss: left >= right for |a| <= limit.

    $f(a)\ge f(c)+f'(c)(a-c)+\frac{e^c}{2(1+C)}f'(c)^2(a-c)^2$ for $f(x)=\ln(1+e^{-x})$, $|a|\le C$.
    Key `logistic-surrogate`: the quadratic that AIOLI minimises in place of the loss.

    Examples
    --------
    >>> logistic_surrogate(1.0, 1.0, limit=1.0) == (softplus(-1.0), softplus(-1.0))
    True
    """
    bend = float(sigmoid(c) * sigmoid(-c)) / (1.0 + limit)  # e^c f'(c)^2 = sigma(c) sigma(-c)
    right = float(softplus(-c)) - float(sigmoid(-c)) * (a - c) + 0.5 * bend * (a - c) ** 2
    return Sides(float(softplus(-a)), right)


def changed_beta(
    Z: ArrayLike, y: ArrayLike, u: ArrayLike, *, beta: float, gamma: float, loss: Loss = squared, reg: float = 1.0
) -> Sides:
    r"""The price of the comparator's moves under one discount, bounded by its variation under a longer memory.

    $\beta\sum_{t<T}F_t^\beta(u_{t+1})-F_t^\beta(u_t)\le\frac\gamma{1-\gamma}P_T^\gamma$ for $\beta\le\gamma<1$.
    Key `variation`.

    Examples
    --------
    >>> sides = changed_beta([[1.0]] * 3, [0.0] * 3, [[0.0], [1.0], [1.0]], beta=0.5, gamma=0.5)
    >>> sides.left <= sides.right
    True
    """
    Z, y = check_stream("changed_beta", Z, y, loss)
    u = check_comparator("changed_beta", u, *Z.shape)
    b, at = as_discount("changed_beta", beta), moves(u)
    ridge = (
        0.5 * reg * b.power((at + 1).astype(np.float64)) * np.einsum("td,td->t", u[at + 1] - u[at], u[at + 1] + u[at])
    )
    left = b.beta * math.fsum([*jumps(Z, y, u, at, b, loss, len(y)).values.tolist(), *ridge.tolist()])
    g = as_discount("changed_beta", gamma)
    return Sides(left, g.eta * discounted_variation(Z, y, u, g, loss, reg=reg).value)


def discounted_potential(
    Z: ArrayLike, c: ArrayLike, *, beta: float | Discount, reg: float = 1.0, printed: bool = False
) -> Sides:
    r"""Sum of weighted leverages of a discounted information matrix.

    $\sum_tc_t^2z_t^\top A_t^{-1}z_t\le d\ln\frac1\beta\,T\max c^2
    +\max c^2\,d\ln(1+\frac{\sum\beta^{T-t}|z_t|^2}{\lambda d})$.
    Key `discounted-potential`. As printed, $\sum c_t^2$ stands where $T\max c^2$ must: false, because $|A_t|$ shrinks
    under forgetting. z = c = 1 every 100th round and 0 otherwise, beta = 0.9, 10^4 rounds:

    Examples
    --------
    >>> z = np.zeros(10_000)
    >>> z[99::100] = 1.0
    >>> sides = discounted_potential(z[:, None], z, beta=0.9, printed=True)
    >>> round(sides.left, 2), round(sides.right, 2)
    (100.0, 11.23)
    """
    Z = _check.rows("discounted_potential", Z)
    weights = _check.finite_array("discounted_potential", "c", c, (len(Z),)) ** 2
    d = as_discount("discounted_potential", beta)
    dim = Z.shape[1]
    A, left, energy = reg * np.eye(dim), [], 0.0
    for z, weight in zip(Z, weights, strict=True):
        A = d.beta * A + np.outer(z, z)
        energy = d.beta * energy + float(z @ z)
        if weight and z.any():
            left.append(float(weight) * float(z @ _solve(A, z)))
    top = float(weights.max(initial=0.0))
    total = math.fsum(weights.tolist()) if printed else len(Z) * top
    return Sides(math.fsum(left), dim * d.rate * total + top * dim * math.log1p(energy / (reg * dim)))


def optimistic_ftrl(g: ArrayLike, x: ArrayLike, u: ArrayLike, strength: ArrayLike) -> Sides:
    r"""Regret of linear losses as optimistic FTRL accounts for it: an identity for any played points x (key `aioli`).

    $\sum_tg_t\cdot(x_t-u)=\psi_{T+1}(u)-\min\psi_1+\sum_t\big(g_t\cdot x_t+F_t(\hat x_t)-F_{t+1}(\hat x_{t+1})\big)
    +F_{T+1}(\hat x_{T+1})-F_{T+1}(u)$ with $\psi_t=\frac{s_t}2|x|^2$, $F_t=\psi_t+\sum_{s<t}g_s\cdot x$.

    Examples
    --------
    >>> optimistic_ftrl([[1.0]], [[0.5]], [2.0], [1.0, 2.0])
    Sides(left=-1.5, right=-1.5)
    """
    who = "optimistic_ftrl"
    G = _check.finite_array(who, "g", g, (None, None))
    X = _check.finite_array(who, "x", x, G.shape)
    point = _check.finite_array(who, "u", u, (G.shape[1],))
    s = _check.finite_array(who, "strength", strength, (len(G) + 1,))
    sums = np.concatenate([np.zeros((1, G.shape[1])), np.cumsum(G, axis=0)])
    least = -0.5 * np.einsum("td,td->t", sums, sums) / s  # F_t at its minimiser -sums / s
    played = np.einsum("td,td->t", G, X)
    last = 0.5 * s[-1] * float(point @ point)
    stability = played + least[:-1] - least[1:]
    right = [last, *stability.tolist(), least[-1], -last, -float(sums[-1] @ point)]
    return Sides(math.fsum([*played.tolist(), *(-(G @ point)).tolist()]), math.fsum(right))


def mixable(yhat: ArrayLike, weights: ArrayLike, y: float) -> Sides:
    r"""Logistic loss of the mixed prediction beside $-\ln\sum_ip_ie^{-\ell(\hat y_i,y)}$: equal for both labels.

    Key `mixable`. The mixed prediction is
    $\ln\frac{\sum p_i\sigma(\hat y_i)}{\sum p_i\sigma(-\hat y_i)}$, in the log domain.

    Examples
    --------
    >>> sides = mixable([-800.0, -900.0], [0.5, 0.5], 1.0)
    >>> round(sides.left, 9), round(sides.right, 9)
    (800.693147181, 800.693147181)
    """
    values = _check.finite_array("mixable", "yhat", yhat, (None,))
    p = _check.finite_array("mixable", "weights", weights, values.shape)
    mixed = _log_mean(-softplus(-values), p) - _log_mean(-softplus(values), p)
    return Sides(float(softplus(-y * mixed)), -_log_mean(-softplus(-y * values), p))


def _log_mean(logs: Vector, p: Vector) -> float:
    """Return ln sum p_i e^{logs_i} over positive weights."""
    keep = p > 0.0
    top = float(logs[keep].max())
    return top + math.log(math.fsum((p[keep] * np.exp(logs[keep] - top)).tolist()))

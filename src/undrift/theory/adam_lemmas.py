"""The lemmas behind the Adam theorems, each as the two sides it relates; property tests hold them against each other.

Everything is in present-day units: a step size here is the paper's $\\eta_t\\beta^{-t}$, a sum of gradients is
$S_t = \\sum_s \\beta^{t-s}g_s$. Where the printed form is false, `printed=True` returns it all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.optim import core
from undrift.optim.core import Tuning
from undrift.optim.problem import Problem
from undrift.theory.regret_lemmas import Sides

# Lemmas 9 to 13, 23 and 24: sums of gradients over step sizes that depend on them.


def averages(a: Vector, gap: float) -> Vector:
    """Return V_0 = 0, V_1, ..., V_T of the moving average V_t = beta V_{t-1} + (1 - beta) a_t."""
    V = np.zeros(len(a) + 1)
    for t, value in enumerate(a):
        V[t + 1] = V[t] + gap * (value - V[t])
    return V


def ema_self_confident(a: Vector, gap: float, damping: float, *, lagged: bool) -> Sides:
    r"""Lemmas 9 (`lagged`) and 10: $\sum_t a_t/(\epsilon+\sqrt{V_{t-1}})$, or with $V_t$, for $a_t \ge 0$.

    Key `self-confident`. The factor $2^{1/(2\beta)}$ is infinite in float64 for beta below 1/2048, and so is the
    right side.

    >>> sides = ema_self_confident(np.ones(100), 0.1, 1.0, lagged=False)
    >>> sides.left <= sides.right
    True
    """
    V, T = averages(a, gap), len(a)
    segments = T * gap / math.log(2.0) + 1.0
    exponent = 0.5 / (1.0 - gap)
    factor = math.inf if exponent >= 1024.0 else 2.0 * 2.0**exponent / math.sqrt(gap)
    total = float(np.sum(a))
    right = factor * math.sqrt(segments * total) if total else 0.0
    if lagged:
        right += segments * float(np.max(a, initial=0.0)) / damping
    return Sides(float(np.sum(a / (damping + np.sqrt(V[:-1] if lagged else V[1:])))), right)


def step_growth(a: Vector, gap1: float, gap2: float, floors: Vector) -> list[Sides]:
    r"""Lemma 11: $[\beta_1/\alpha_{t-1}-1/\alpha_t]_+ \le [\beta_1-\sqrt{\beta_2}]_+\sqrt{V_{t-1}}$. Key `step-sizes`.

    $1/\alpha_t$ is `floors[t]` + $\sqrt{V_t}$, the floors (T + 1 of them) nonnegative and nondecreasing.
    """
    V = averages(a, gap2)
    inverse = floors + np.sqrt(V)
    b1 = 1.0 - gap1
    excess = max(b1 - math.sqrt(1.0 - gap2), 0.0)
    return [Sides(max(b1 * inverse[t - 1] - inverse[t], 0.0), excess * math.sqrt(V[t - 1])) for t in range(1, len(V))]


def step_sum(a: Vector, gap1: float, gap2: float, gamma: float, damping: float, mu: float) -> Sides:
    r"""Lemma 12, an **equality**: $\sum_{t<T}\beta_1^t(1/\eta_t - 1/\eta_{t-1})$ in closed form. Key `step-sizes`.

    `a` holds $\lvert g_1\rvert^2, ..., \lvert g_{T-1}\rvert^2$. With $\beta_1^t/\eta_t = A_t/(\gamma(1-\beta_1))$ the
    left side is a sum of $A_t - \beta_1 A_{t-1}$; it does not telescope, what remains is O(T).

    >>> sides = step_sum(np.array([1.0, 4.0]), 0.1, 0.2, 1.0, 0.5, 3.0)
    >>> abs(sides.left - sides.right) < 1e-12
    True
    """
    V, n = averages(a, gap2), len(a)
    warmth = -np.expm1(np.arange(n + 1) * math.log1p(-gap1))
    A = damping + gamma * mu * warmth + np.sqrt(V)
    left = float(np.sum(A[1:] - A[:-1] + gap1 * A[:-1])) / (gamma * gap1)
    roots = np.sqrt(V)
    right = roots[n] / (gamma * gap1) + float(np.sum(roots[1:n])) / gamma + n * damping / gamma + mu * n
    return Sides(left, float(right))


def step_change(gradients: Vector, gap1: float, gap2: float, gamma: float, nu: float, mu: float) -> list[Sides]:
    r"""Lemma 13 for t >= 2, both sides times $\beta_1^{1-t}$; needs $\beta_2 > \beta_1^2$. Key `step-sizes`.

    $\lvert\eta_{t-1}-\eta_t\rvert\,\lVert\sum_{s<t}\beta_1^{t-1-s}g_s\rVert$ against
    $\gamma(1-\beta_1)\frac{A_t-\beta_1A_{t-1}}{A_t}\sqrt{\beta_2/((\beta_2-\beta_1^2)(1-\beta_2))}$; gradients (T, d).
    """
    a = np.sum(gradients**2, axis=1)
    V = averages(a, gap2)
    A = nu + gamma * mu * -np.expm1(np.arange(len(V)) * math.log1p(-gap1)) + np.sqrt(V)
    spread = gap1 * (2.0 - gap1) - gap2  # beta2 - beta1^2 without cancellation
    factor = math.sqrt((1.0 - gap2) / (spread * gap2))
    sides, total = [], np.zeros(gradients.shape[1])
    for t in range(2, len(V)):
        total = (1.0 - gap1) * total + gradients[t - 2]
        change = gamma * gap1 * abs(1.0 / A[t - 1] - (1.0 - gap1) / A[t])
        left = change * float(np.linalg.norm(total))
        right = gamma * gap1 * (A[t] - A[t - 1] + gap1 * A[t - 1]) / A[t] * factor
        sides.append(Sides(left, float(right)))
    return sides


def self_confident_integral(
    a: Vector, start: float, f: Callable[[float], float], integral: Callable[[float, float], float]
) -> Sides:
    r"""Lemma 23: $\sum_t a_t f(\sum_{s<t}a_s) \le \max a\, f(a_0) + \int f$, f nonincreasing. Key `self-confident`."""
    before = start + np.concatenate([[0.0], np.cumsum(a)])
    left = sum(float(value) * f(float(x)) for value, x in zip(a, before[:-1], strict=True))
    return Sides(left, float(np.max(a, initial=0.0)) * f(start) + integral(start, float(before[-1])))


def self_confident(a: Vector, start: float) -> Sides:
    r"""Lemma 24: $\sum_t a_t/\sqrt{\delta+\sum_{s\le t}a_s} \le 2(\sqrt{\delta+\sum a}-\sqrt\delta)$.

    Key `self-confident`.

    >>> sides = self_confident(np.array([1.0, 3.0]), 0.0)
    >>> sides.left, sides.right
    (2.5, 4.0)
    """
    after = start + np.cumsum(a)
    terms = np.divide(a, np.sqrt(after), out=np.zeros_like(a), where=after > 0.0)
    total = float(np.sum(a))
    right = 2.0 * total / (math.sqrt(start + total) + math.sqrt(start)) if total else 0.0
    return Sides(float(np.sum(terms)), right)


# Lemmas 4 and 19 to 22: follow-the-regularised-leader with quadratic regularisers and linear losses.


def project(x: Vector, radius: float | None) -> Vector:
    """Return the closest point of the ball of this radius around 0; x itself when there is no ball."""
    return x if radius is None else x * core.shrink(float(np.linalg.norm(x)), radius)


def iterates(gradients: Matrix, eta: Vector, radius: float | None, hints: Matrix | None = None) -> Matrix:
    r"""Return $x_1, ..., x_{T+1}$, minimising $\lvert x\rvert^2/(2\eta_{t-1}) + \langle\sum_{s<t}g_s+h_t, x\rangle$."""
    totals = np.vstack([np.zeros(gradients.shape[1]), np.cumsum(gradients, axis=0)])
    if hints is not None:
        totals = totals + hints
    return np.array([project(-step * total, radius) for step, total in zip(eta, totals, strict=True)])


def clip_free_closed_form(gradients: Matrix, c: Tuning) -> tuple[Vector, Vector]:
    """Lemma 4, an equality: the discounted composite FTRL step, by its first-order condition and in closed form.

    Key `clip-free-closed-form`. Left: the minimiser of the objective times beta1^t, sums taken one by one.
    """
    t = len(gradients)
    weights = np.exp((t - np.arange(1, t + 1)) * math.log1p(-c.gap1))
    V = c.gap2 * float(np.exp((t - np.arange(1, t + 1)) * math.log1p(-c.gap2)) @ np.sum(gradients**2, axis=1))
    curvature = (c.nu + math.sqrt(V)) / (c.gamma * c.gap1) + c.mu * float(np.sum(weights))
    left = -(weights @ gradients) / curvature
    m, warmth = np.zeros(gradients.shape[1]), 0.0
    for g in gradients:
        m, warmth = core.ema(m, g, c.gap1), core.ema(warmth, 1.0, c.gap1)
    return left, core.leader(m, core.rate(V, warmth, c), 0.0)


def ftrl_identity(gradients: Matrix, eta: Vector, u: Vector, radius: float | None, *, printed: bool = False) -> Sides:
    r"""Lemma 19, an equality: regret of FTRL from one-step differences of $F_t$. Key `ftrl`.

    `eta` holds $\eta_0, ..., \eta_T$. The regulariser of the comparator is $\psi_{T+1}$; printed: $\psi_T$, false.
    """
    return _identity(gradients, eta, u, iterates(gradients, eta, radius), None, radius, printed)


def optimistic_identity(gradients: Matrix, hints: Matrix, eta: Vector, u: Vector, radius: float | None) -> Sides:
    """Lemma 22, an equality: the same with optimistic decisions; `hints` has T + 1 rows, the last idle. Key `ftrl`."""
    return _identity(gradients, eta, u, iterates(gradients, eta, radius), hints, radius, False)


def _identity(
    gradients: Matrix,
    eta: Vector,
    u: Vector,
    leaders: Matrix,
    hints: Matrix | None,
    radius: float | None,
    printed: bool,
) -> Sides:
    T = len(gradients)
    played = leaders if hints is None else iterates(gradients, eta, radius, hints)
    totals = np.vstack([np.zeros(gradients.shape[1]), np.cumsum(gradients, axis=0)])

    def F(k: int, x: Vector) -> float:  # F_{k+1} of the paper, with psi_{k+1} = |x|^2 / (2 eta_k)
        return float(x @ x / (2.0 * eta[k]) + totals[k] @ x)

    left = sum(float(g @ (x - u)) for g, x in zip(gradients, played[:-1], strict=True))
    steps = sum(F(t, leaders[t]) - F(t + 1, leaders[t + 1]) + float(gradients[t] @ played[t]) for t in range(T))
    last = T - 1 if printed else T
    right = float(u @ u) / (2.0 * eta[last]) + steps + F(T, leaders[T]) - F(T, u)
    return Sides(left, right)


def stability(gradients: Matrix, eta: Vector, radius: float | None, *, scale_free: bool) -> list[Sides]:
    r"""Lemmas 20, 21 (`scale_free`) for each round: $F_t(x_t) - F_{t+1}(x_{t+1}) + f_t(x_t)$, its bound. Key `ftrl`."""
    x = iterates(gradients, eta, radius)
    total, sides = np.zeros(gradients.shape[1]), []
    for t, g in enumerate(gradients):
        after = total + g
        before = float(x[t] @ x[t] / (2.0 * eta[t]) + total @ x[t])
        left = before - float(x[t + 1] @ x[t + 1] / (2.0 * eta[t + 1]) + after @ x[t + 1]) + float(g @ x[t])
        square, moved = float(g @ g), float(x[t + 1] @ x[t + 1])
        right = 0.5 * eta[t] * square
        if scale_free:
            change = abs(eta[t] - eta[t + 1]) * float(np.linalg.norm(total))
            if radius is not None:
                change = min(2.0 * radius, change)
            right = eta[t + 1] * square + min(right, change * math.sqrt(square))
        sides.append(Sides(left, float(right + moved / (2.0 * eta[t]) - moved / (2.0 * eta[t + 1]))))
        total = after
    return sides


# Lemmas 14 and 15: the dynamic regret of discounted FTRL, term by term, in the corrected (shifted) form.
# `eta` holds the present-day step sizes e_t = eta_t beta^-t, t = 0..T, so that x_{t+1} = Pi[-e_t S_t]. The derivation
# gives the comparator the regulariser psi_{t+1}; the printed lemmas give it psi_t and are false.


def _play(gradients: Matrix, eta: Vector, gap: float, radius: float | None) -> tuple[Matrix, Matrix]:
    """Return x_1, ..., x_{T+1} and S_0, ..., S_T."""
    sums = np.zeros((len(gradients) + 1, gradients.shape[1]))
    for t, g in enumerate(gradients):
        sums[t + 1] = (1.0 - gap) * sums[t] + g
    return np.array([project(-step * total, radius) for step, total in zip(eta, sums, strict=True)]), sums


def _comparator(u: Matrix, eta: Vector, b: float, printed: bool) -> float:
    """Return the initial and the drift term."""
    size = np.sum(u**2, axis=1) / 2.0
    if printed:
        return float(b * size[0] / eta[0] + np.sum(b * size[1:] / eta[1:-1] - b * b * size[:-1] / eta[:-2]))
    return float(size[0] / eta[1] + np.sum(size[1:] / eta[2:] - b * size[:-1] / eta[1:-1]))


def decomposition(
    gradients: Matrix, eta: Vector, u: Matrix, gap: float, radius: float | None, *, option: int, printed: bool = False
) -> Sides:
    """Lemma 14: dynamic regret against u (T, d), and its decomposition with stability option 1 or 2.

    Key `ftrl-decomposition`.
    """
    x, S = _play(gradients, eta, gap, radius)
    b, square = 1.0 - gap, np.sum(gradients**2, axis=1)
    left = float(np.sum(gradients * (x[:-1] - u)))
    lagged = eta[:-1] * square / (2.0 * b)
    if option == 1:
        price = lagged
    else:
        change = np.abs(eta[:-1] - b * eta[1:]) * np.linalg.norm(S[:-1], axis=1)
        if radius is not None:
            change = np.minimum(change, 2.0 * radius)
        price = eta[1:] * square + np.minimum(lagged, change * np.sqrt(square))
    moved = np.sum(x[1:] ** 2, axis=1)
    regularizer = moved * (b / (2.0 * eta[:-1]) - 1.0 / (2.0 * eta[1:]))
    path = b * float(np.sum(S[1:-1] * (u[1:] - u[:-1])))
    return Sides(left, float(np.sum(price) + np.sum(regularizer)) + path + _comparator(u, eta, b, printed))


def composite_decomposition(
    gradients: Matrix, eta: Vector, u: Matrix, gap: float, mu: float, radius: float | None, *, printed: bool = False
) -> Sides:
    r"""Lemma 15: the same for the losses $\langle g_t, x\rangle + \frac\mu2\lvert x\rvert^2$. Key `ftrl-decomposition`.

    Stability uses the composite step sizes, comparator and regulariser the base ones, and $-\frac\mu2\lvert
    x_{T+1}\rvert^2$ is left over; printed: composite step sizes everywhere, false.
    """
    b, T = 1.0 - gap, len(gradients)
    weight = -np.expm1(np.arange(T + 1) * math.log1p(-gap)) / gap  # sum of beta^(t-s), s = 1..t
    joint = 1.0 / (1.0 / eta + mu * weight)
    x, S = _play(gradients, joint, gap, radius)
    square, size = np.sum(gradients**2, axis=1), np.sum(u**2, axis=1) / 2.0
    losses = np.sum(gradients * (x[:-1] - u), axis=1) + mu * (np.sum(x[:-1] ** 2, axis=1) / 2.0 - size)
    path = b * float(np.sum(S[1:-1] * (u[1:] - u[:-1]))) + b * mu * float(np.sum(weight[1:-1] * (size[1:] - size[:-1])))
    base = joint if printed else eta
    moved = np.sum(x[1:] ** 2, axis=1)
    right = float(np.sum(joint[:-1] * square) / (2.0 * b) + np.sum(moved * (b / base[:-1] - 1.0 / base[1:])) / 2.0)
    right += path + _comparator(u, base, b, printed)
    return Sides(float(np.sum(losses)), right if printed else right - 0.5 * mu * float(moved[-1]))


# Lemmas 5 to 8: what stationarity means for smooth functions, random scaling, and the O2NC conversion.


def smooth(at: Vector, gradients: Matrix, weights: Vector, points: Matrix, x: Vector, smoothness: float) -> Sides:
    r"""Lemma 5, L-smooth: $\lvert\nabla F(x)\rvert \le \frac54\epsilon$ when $c = L^2/\epsilon$. Key `smooth`.

    `at` is the gradient at x; the cloud `points` (n, d) has mean x under `weights` and these `gradients`. epsilon is
    its value at its own $c$, the root of $\epsilon = \lvert E\nabla F\rvert + L^2 E\lvert y-x\rvert^2/\epsilon$.
    """
    mean = float(np.linalg.norm(weights @ gradients))
    spread = float(weights @ np.sum((points - x) ** 2, axis=1))
    epsilon = 0.5 * (mean + math.hypot(mean, 2.0 * smoothness * math.sqrt(spread)))
    return Sides(float(np.linalg.norm(at)), 1.25 * epsilon)


def second_order_smooth(
    at: Vector, gradients: Matrix, weights: Vector, points: Matrix, x: Vector, smoothness: float
) -> Sides:
    r"""Lemma 5, Lipschitz Hessian: $\lvert\nabla F(x)\rvert \le \epsilon$ when $c$ = `smoothness` / 2. Key `smooth`."""
    spread = float(weights @ np.sum((points - x) ** 2, axis=1))
    return Sides(float(np.linalg.norm(at)), float(np.linalg.norm(weights @ gradients)) + 0.5 * smoothness * spread)


def exponential_scaling(
    value: Callable[[float], float], slope: Callable[[float], float], rate: float = 1.0, *, printed: bool = False
) -> Sides:
    r"""Lemma 6, an equality: $E[F(x+s\Delta)-F(x)] = E\langle\nabla F(x+s\Delta),\Delta\rangle/\lambda$. Key `o2nc`.

    Here s ~ Exp(lambda), `rate` = lambda.
    `value` and `slope` are F and its derivative along the line; 64 Gauss-Laguerre nodes, exact for polynomials. Printed
    without the $1/\lambda$, which is true for lambda = 1 only.

    >>> sides = exponential_scaling(lambda s: 3.0 * s**2, lambda s: 6.0 * s)
    >>> abs(sides.left - 6.0) < 1e-9 and abs(sides.right - 6.0) < 1e-9
    True
    """
    nodes, weights = np.polynomial.laguerre.laggauss(64)
    left = sum(w * (value(s / rate) - value(0.0)) for s, w in zip(nodes, weights, strict=True))
    right = sum(w * slope(s / rate) for s, w in zip(nodes, weights, strict=True))
    return Sides(float(left), float(right) / (1.0 if printed else rate))


def o2nc_conversion(
    truth: Matrix,
    noisy: Matrix,
    delta: Matrix,
    x: Matrix,
    gap: float,
    D: float,
    mu: float,
    problem: Problem,
    *,
    norm: str = "all",
) -> Sides:
    r"""Lemmas 7 (mu > 0) and 8 on one trajectory; the lemma compares the **means** over the randomness. Key `o2nc`.

    `truth`, `noisy`, `delta`, `x` are $\nabla F(x_t), g_t, \Delta_t, x_t$, each (T, d). Left: the stationarity of
    $\bar x_t$ with its own weights and the true gradients, averaged over t. Right: the bound with the measured regret.

    With norm "coord" each coordinate is a learner of its own, its moves and comparators of length D, and the mean
    gradient is measured in the l1 norm: what is said of a length is said of every coordinate and added up.
    Then $\sum_i\lvert\nabla_iF\rvert \le \sqrt d\,G$, $\sum_i\sigma_i \le \sqrt d\,\sigma$ and
    $\lvert\Delta\rvert^2 \le d D^2$, so that G and sigma take a factor $\sqrt d$ and the spread a factor d.
    """
    coord = norm == "coord"
    T, b = len(x), 1.0 - gap
    d = x.shape[1] if coord else 1
    S, Sg = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    average, spread, warmth = x[0].copy(), 0.0, 0.0
    total = regret = 0.0
    previous = np.zeros(x.shape[1])
    for t in range(T):
        warmth += gap * (1.0 - warmth)
        weight = gap / warmth
        spread = (1.0 - weight) * (spread + weight * float(np.sum((x[t] - average) ** 2)))
        average = average + weight * (x[t] - average)
        S = b * S + truth[t]
        length = float(np.linalg.norm(S, 1 if coord else 2))
        total += gap * length / warmth + problem.c * spread
        if coord:
            u = np.where(S > 0.0, -D, D)
        else:
            u = -D * S / length if length else np.concatenate([[D], np.zeros(x.shape[1] - 1)])
        if t:
            regret += b * float(Sg @ (previous - u))  # |u| is the same for all t, so mu cancels here
        Sg = b * Sg + noisy[t]
        regret += float(noisy[t] @ (delta[t] - u)) + 0.5 * mu * (float(delta[t] @ delta[t]) - d * D * D)
        previous = u
    right = (
        problem.gap / (D * T)
        + math.sqrt(d) * (2.0 * problem.lipschitz + problem.noise) / (gap * T)
        + math.sqrt(d) * problem.noise * math.sqrt(gap)
        + 12.0 * problem.c * d * (D / gap) ** 2
        + regret / (D * T)
    )
    return Sides(total / T, right)

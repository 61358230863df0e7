"""Lemmas 9 to 13, 23 and 24: sums of gradients over step sizes that depend on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from undrift._typing import Vector


class LemmaSides(NamedTuple):
    """Both sides of a lemma: left <= right, or left == right where the docstring says so."""

    left: float
    """What is bounded."""
    right: float
    """Its bound, or its other form."""


def averages(a: Vector, gap: float) -> Vector:
    """Return V_0 = 0, V_1, ..., V_T of the moving average V_t = beta V_{t-1} + (1 - beta) a_t."""
    V = np.zeros(len(a) + 1)
    for t, value in enumerate(a):
        V[t + 1] = V[t] + gap * (value - V[t])
    return V


def ema_self_confident(a: Vector, gap: float, damping: float, *, lagged: bool) -> LemmaSides:
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
    return LemmaSides(float(np.sum(a / (damping + np.sqrt(V[:-1] if lagged else V[1:])))), right)


def step_growth(a: Vector, gap1: float, gap2: float, floors: Vector) -> list[LemmaSides]:
    r"""Lemma 11: $[\beta_1/\alpha_{t-1}-1/\alpha_t]_+ \le [\beta_1-\sqrt{\beta_2}]_+\sqrt{V_{t-1}}$. Key `step-sizes`.

    $1/\alpha_t$ is `floors[t]` + $\sqrt{V_t}$, the floors (T + 1 of them) nonnegative and nondecreasing.
    """
    V = averages(a, gap2)
    inverse = floors + np.sqrt(V)
    b1 = 1.0 - gap1
    excess = max(b1 - math.sqrt(1.0 - gap2), 0.0)
    return [
        LemmaSides(max(b1 * inverse[t - 1] - inverse[t], 0.0), excess * math.sqrt(V[t - 1])) for t in range(1, len(V))
    ]


def step_sum(a: Vector, gap1: float, gap2: float, gamma: float, damping: float, mu: float) -> LemmaSides:
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
    return LemmaSides(left, float(right))


def step_change(gradients: Vector, gap1: float, gap2: float, gamma: float, nu: float, mu: float) -> list[LemmaSides]:
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
        sides.append(LemmaSides(left, float(right)))
    return sides


def self_confident_integral(
    a: Vector, start: float, f: Callable[[float], float], integral: Callable[[float, float], float]
) -> LemmaSides:
    r"""Lemma 23: $\sum_t a_t f(\sum_{s<t}a_s) \le \max a\, f(a_0) + \int f$, f nonincreasing. Key `self-confident`."""
    before = start + np.concatenate([[0.0], np.cumsum(a)])
    left = sum(float(value) * f(float(x)) for value, x in zip(a, before[:-1], strict=True))
    return LemmaSides(left, float(np.max(a, initial=0.0)) * f(start) + integral(start, float(before[-1])))


def self_confident(a: Vector, start: float) -> LemmaSides:
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
    return LemmaSides(float(np.sum(terms)), right)

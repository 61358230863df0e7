"""Lemmas 5 to 8: what stationarity means for smooth functions, random scaling, and the O2NC conversion."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.optim.lemmas.sums import LemmaSides
from undrift.optim.problem import Problem


def smooth(at: Vector, gradients: Matrix, weights: Vector, points: Matrix, x: Vector, smoothness: float) -> LemmaSides:
    r"""Lemma 5, L-smooth: $\lvert\nabla F(x)\rvert \le \frac54\epsilon$ when $c = L^2/\epsilon$. Key `smooth`.

    `at` is the gradient at x; the cloud `points` (n, d) has mean x under `weights` and these `gradients`. epsilon is
    its value at its own $c$, the root of $\epsilon = \lvert E\nabla F\rvert + L^2 E\lvert y-x\rvert^2/\epsilon$.
    """
    mean = float(np.linalg.norm(weights @ gradients))
    spread = float(weights @ np.sum((points - x) ** 2, axis=1))
    epsilon = 0.5 * (mean + math.hypot(mean, 2.0 * smoothness * math.sqrt(spread)))
    return LemmaSides(float(np.linalg.norm(at)), 1.25 * epsilon)


def second_order_smooth(
    at: Vector, gradients: Matrix, weights: Vector, points: Matrix, x: Vector, smoothness: float
) -> LemmaSides:
    r"""Lemma 5, Lipschitz Hessian: $\lvert\nabla F(x)\rvert \le \epsilon$ when $c$ = `smoothness` / 2. Key `smooth`."""
    spread = float(weights @ np.sum((points - x) ** 2, axis=1))
    return LemmaSides(float(np.linalg.norm(at)), float(np.linalg.norm(weights @ gradients)) + 0.5 * smoothness * spread)


def exponential_scaling(
    value: Callable[[float], float], slope: Callable[[float], float], rate: float = 1.0, *, printed: bool = False
) -> LemmaSides:
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
    return LemmaSides(float(left), float(right) / (1.0 if printed else rate))


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
) -> LemmaSides:
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
    return LemmaSides(total / T, right)

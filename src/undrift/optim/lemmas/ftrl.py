"""Lemmas 4 and 19 to 22: follow-the-regularised-leader with quadratic regularisers and linear losses."""

from __future__ import annotations

import math

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.optim import core
from undrift.optim.core import Tuning
from undrift.optim.lemmas.sums import LemmaSides


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


def ftrl_identity(
    gradients: Matrix, eta: Vector, u: Vector, radius: float | None, *, printed: bool = False
) -> LemmaSides:
    r"""Lemma 19, an equality: regret of FTRL from one-step differences of $F_t$. Key `ftrl`.

    `eta` holds $\eta_0, ..., \eta_T$. The regulariser of the comparator is $\psi_{T+1}$; printed: $\psi_T$, false.
    """
    return _identity(gradients, eta, u, iterates(gradients, eta, radius), None, radius, printed)


def optimistic_identity(gradients: Matrix, hints: Matrix, eta: Vector, u: Vector, radius: float | None) -> LemmaSides:
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
) -> LemmaSides:
    T = len(gradients)
    played = leaders if hints is None else iterates(gradients, eta, radius, hints)
    totals = np.vstack([np.zeros(gradients.shape[1]), np.cumsum(gradients, axis=0)])

    def F(k: int, x: Vector) -> float:  # F_{k+1} of the paper, with psi_{k+1} = |x|^2 / (2 eta_k)
        return float(x @ x / (2.0 * eta[k]) + totals[k] @ x)

    left = sum(float(g @ (x - u)) for g, x in zip(gradients, played[:-1], strict=True))
    steps = sum(F(t, leaders[t]) - F(t + 1, leaders[t + 1]) + float(gradients[t] @ played[t]) for t in range(T))
    last = T - 1 if printed else T
    right = float(u @ u) / (2.0 * eta[last]) + steps + F(T, leaders[T]) - F(T, u)
    return LemmaSides(left, right)


def stability(gradients: Matrix, eta: Vector, radius: float | None, *, scale_free: bool) -> list[LemmaSides]:
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
        sides.append(LemmaSides(left, float(right + moved / (2.0 * eta[t]) - moved / (2.0 * eta[t + 1]))))
        total = after
    return sides

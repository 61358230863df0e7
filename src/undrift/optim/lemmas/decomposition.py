r"""Lemmas 14 and 15: the dynamic regret of discounted FTRL, term by term, in the corrected (shifted) form.

`eta` holds the present-day step sizes $e_t = \eta_t\beta^{-t}$, t = 0..T, so that $x_{t+1} = \Pi[-e_t S_t]$. The
derivation gives the comparator the regulariser $\psi_{t+1}$; the printed lemmas give it $\psi_t$ and are false.
"""

from __future__ import annotations

import math

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.optim.lemmas.ftrl import project
from undrift.optim.lemmas.sums import LemmaSides


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
) -> LemmaSides:
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
    return LemmaSides(left, float(np.sum(price) + np.sum(regularizer)) + path + _comparator(u, eta, b, printed))


def composite_decomposition(
    gradients: Matrix, eta: Vector, u: Matrix, gap: float, mu: float, radius: float | None, *, printed: bool = False
) -> LemmaSides:
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
    return LemmaSides(float(np.sum(losses)), right if printed else right - 0.5 * mu * float(moved[-1]))

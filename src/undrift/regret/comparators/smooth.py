"""The best comparator in hindsight that pays for every step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.losses import Loss, Squared, squared
from undrift.regret._input import check_stream, margins
from undrift.regret.comparators._smoother import newton_step
from undrift.regret.comparators._solve import Limits, minimise

WHO = "comparators.smooth"
GROUP = 64
"""Comparators in a row that are looked at together: rows on which none of them can be too wide are left out."""


def smooth(
    Z: ArrayLike,
    y: ArrayLike,
    loss: Loss = squared,
    *,
    tau: float,
    bound: float | None = None,
    margin: float | None = None,
) -> Matrix:
    r"""Return the drifting comparator that minimises $\sum_t f_t(u_t)+\tau\sum_t|u_{t+1}-u_t|^2$, (T, d).

    Parameters
    ----------
    Z, y, loss
        Rows (T, d), labels (T,), `undrift.losses.squared` or `logistic`.
    tau
        Price of squared movement, > 0: large values approach `fixed`.
    bound, margin
        Largest |u_t| and $|u_t\cdot z_s|$ over all rows; met by drawing u_t towards the best fixed comparator within
        them, so where they bind the result is admissible, not optimal: where that one is at a limit itself, the path
        may hardly leave it.

    Notes
    -----
    One block-tridiagonal solve for squared loss; for logistic loss Newton steps, each such a pass, until
    the objective settles to 1e-8. O(T d^3) time a pass, O(T d^2) memory.

    Examples
    --------
    >>> u = smooth([[1.0]] * 3, [0.0, 0.0, 3.0], tau=0.5)
    >>> np.round(u[:, 0], 6).tolist()
    [0.375, 0.75, 1.875]
    """
    Z, y = check_stream(WHO, Z, y, loss)
    tau = _check.interval(WHO, "tau", tau, "(0, inf)")
    limits = Limits.of(WHO, bound, margin)
    if not len(y):
        return Z.copy()
    u = np.tile(minimise(Z, y, loss, Limits.of(WHO, None, None), Z), (len(y), 1))
    value = _objective(Z, y, u, loss, tau)
    for _ in range(1 if isinstance(loss, Squared) else 50):
        at = margins(Z, u)
        step = newton_step(Z, loss.curvature(at, y), loss.slope(at, y), u, tau)
        length, previous = 1.0, value
        while (value := _objective(Z, y, u + length * step, loss, tau)) > previous and length > 1e-6:
            length *= 0.5
        u = u + length * step
        if previous - value <= 1e-8 * previous:
            break
    if math.isfinite(limits.bound) or math.isfinite(limits.margin):
        u = _draw_inside(Z, u, minimise(Z, y, loss, limits, Z), limits)
    return u


def _objective(Z: Matrix, y: Vector, u: Matrix, loss: Loss, tau: float) -> float:
    steps = np.diff(u, axis=0)
    return float(loss.value(margins(Z, u), y).sum()) + tau * float(np.einsum("td,td->", steps, steps))


def _draw_inside(Z: Matrix, u: Matrix, centre: Vector, limits: Limits) -> Matrix:
    """Return comparators drawn towards the centre, which keeps the limits, until each of them does on every row."""
    out, at, length = u.copy(), Z @ centre, np.linalg.norm(Z, axis=1)
    for begin in range(0, len(u), GROUP):
        part = slice(begin, begin + GROUP)
        step, mean = u[part] - centre, u[part].mean(axis=0)
        far = float(np.linalg.norm(u[part] - mean, axis=1).max())
        rows = np.flatnonzero(np.abs(Z @ mean) + far * length > limits.margin * (1.0 - 1e-9))
        along = step @ Z[rows].T
        room = limits.margin - np.sign(along) * at[rows]
        wide = np.abs(along) > room
        factor = np.min(np.divide(room, np.abs(along), out=np.ones_like(along), where=wide), axis=1, initial=1.0)
        long = np.linalg.norm(u[part], axis=1) > limits.bound
        if long.any():  # the root of |centre + a step| = bound
            s, c = step[long], step[long] @ centre
            size = np.einsum("td,td->t", s, s)
            root = np.sqrt(np.maximum(c * c + size * (limits.bound**2 - float(centre @ centre)), 0.0))
            factor[long] = np.minimum(factor[long], (root - c) / size)
        short = factor < 1.0
        out[part][short] = centre + (np.maximum(factor[short], 0.0) * (1.0 - 1e-12))[:, None] * step[short]
    return out

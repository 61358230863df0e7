"""The best comparator in hindsight that pays for every step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.losses import Loss, Squared, squared
from undrift.regret._input import margins, table
from undrift.regret.comparators._smoother import smoothed
from undrift.regret.comparators._solve import Limits, minimise

WHO = "comparators.smooth"


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
        Largest |u_t| and $|u_t\cdot z_s|$ over all rows; met by shrinking u_t towards 0, so inside them the result is
        admissible, not optimal.

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
    Z, y = table(WHO, Z, y, loss)
    tau = _check.interval(WHO, "tau", tau, "(0, inf)")
    limits = Limits.of(WHO, bound, margin)
    if not len(y):
        return Z.copy()
    u = np.tile(minimise(Z, y, loss, Limits.of(WHO, None, None), Z), (len(y), 1))
    value = _objective(Z, y, u, loss, tau)
    for _ in range(1 if isinstance(loss, Squared) else 50):
        at = margins(Z, u)
        step = smoothed(Z, loss.curvature(at, y), loss.slope(at, y), u, tau)
        length, previous = 1.0, value
        while (value := _objective(Z, y, u + length * step, loss, tau)) > previous and length > 1e-6:
            length *= 0.5
        u = u + length * step
        if previous - value <= 1e-8 * previous:
            break
    if math.isfinite(limits.bound) or math.isfinite(limits.margin):
        u *= _inside(Z, u, limits)[:, None]
    return u


def _objective(Z: Matrix, y: Vector, u: Matrix, loss: Loss, tau: float) -> float:
    steps = np.diff(u, axis=0)
    return float(loss.value(margins(Z, u), y).sum()) + tau * float(np.einsum("td,td->", steps, steps))


def _inside(Z: Matrix, u: Matrix, limits: Limits) -> Vector:
    """Return for each round the largest factor <= 1 that brings its comparator inside the limits on every row."""
    size = np.linalg.norm(u, axis=1)
    factor: Vector = np.minimum(1.0, limits.bound / np.maximum(size, 1e-300))
    if math.isfinite(limits.margin):
        longest = float(np.linalg.norm(Z, axis=1).max())
        doubtful = np.flatnonzero(size * factor * longest > limits.margin)
        block = max(1, (1 << 22) // len(Z))
        for k in range(0, len(doubtful), block):
            some = doubtful[k : k + block]
            widest = np.abs(u[some] @ Z.T).max(axis=1)
            factor[some] = np.minimum(factor[some], limits.margin / np.maximum(widest, 1e-300))
    return factor

"""The best comparator in hindsight that pays for every step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.losses import Loss, Squared, squared
from undrift.regret._input import check_stream, margins
from undrift.regret.comparators._solve import Limits, find_minimum

WHO = "comparators.smooth"
GROUP = 64
"""Comparators in a row that are looked at together: rows on which none of them can be too wide are left out."""

Blocks = NDArray[np.float64]
"""One square matrix a round (T, d, d)."""


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
    u = np.tile(find_minimum(Z, y, loss, Limits.of(WHO, None, None), Z).u, (len(y), 1))
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
        u = _draw_inside(Z, u, find_minimum(Z, y, loss, limits, Z).u, limits)
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


def newton_step(Z: Matrix, curvature: Vector, slope: Vector, u: Matrix, tau: float) -> Matrix:
    """Return the Newton step v from the path u, which minimises the quadratic model of losses plus movement.

    sum_t slope_t z_t.v_t + curvature_t (z_t.v_t)^2 / 2 + tau sum_t |u_{t+1} + v_{t+1} - u_t - v_t|^2
    """
    rounds, dim = Z.shape
    pull = 2.0 * tau
    steps = pull * np.diff(u, axis=0)
    right = -(Z * slope[:, None])
    right[:-1] += steps
    right[1:] -= steps
    neighbours = np.full(rounds, 2.0)
    neighbours[0] -= 1.0
    neighbours[-1] -= 1.0
    size = float(np.einsum("t,td,td->", curvature, Z, Z)) / (rounds * dim)
    own = 1e-12 * size + 1e-14 * pull  # a direction without data does not move, and stays above rounding
    diagonal = np.einsum("t,ti,tj->tij", curvature, Z, Z)
    diagonal += ((pull * neighbours + own)[:, None, None]) * np.eye(dim)
    beside = np.broadcast_to(-pull * np.eye(dim), (max(rounds - 1, 0), dim, dim))
    return _solve_block_tridiagonal(diagonal, beside, right)


def _solve_block_tridiagonal(diagonal: Blocks, beside: Blocks, right: Matrix) -> Matrix:
    r"""Solve a symmetric block-tridiagonal system exactly; `beside[t]` couples row t with column t + 1.

    By odd-even reduction: every second block is eliminated, all of them in one batch, and what remains is a system of
    the same shape and half the length. The blocks are $k_tz_tz_t^\top+2\tau(\text{neighbours})I$ on the diagonal and
    $-2\tau I$ beside it; they stay positive definite, so no pivoting is needed.
    """
    count = len(diagonal)
    if count == 1:
        return np.asarray(np.linalg.solve(diagonal, right[:, :, None])[:, :, 0], dtype=np.float64)
    odd = np.linalg.inv(diagonal[1::2])
    left = beside[0::2]  # even row k with odd row k
    after = beside[1::2]  # odd row k with even row k + 1, where there is one
    n = len(after)
    to_left = left @ odd  # even k <- odd k
    to_after = np.swapaxes(after, 1, 2) @ odd[:n]  # even k + 1 <- odd k
    kept = diagonal[0::2].copy()
    kept[: len(odd)] -= to_left @ np.swapaxes(left, 1, 2)
    kept[1 : n + 1] -= to_after @ after
    rest = right[0::2].copy()
    rest[: len(odd)] -= np.einsum("nij,nj->ni", to_left, right[1::2])
    rest[1 : n + 1] -= np.einsum("nij,nj->ni", to_after, right[1::2][:n])
    evens = _solve_block_tridiagonal(kept, -(to_left[:n] @ after), rest)
    back = right[1::2] - np.einsum("nji,nj->ni", left, evens[: len(odd)])
    back[:n] -= np.einsum("nij,nj->ni", after, evens[1 : n + 1])
    out = np.empty_like(right)
    out[0::2], out[1::2] = evens, np.einsum("nij,nj->ni", odd, back)
    return out

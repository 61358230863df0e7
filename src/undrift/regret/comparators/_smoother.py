r"""Minimise quadratic losses plus squared movement over a whole path: a block-tridiagonal system, solved exactly.

By odd-even reduction: every second block is eliminated, all of them in one batch, and what remains is a system of the
same shape and half the length. The blocks are $k_tz_tz_t^\top+2\tau(\text{neighbours})I$ on the diagonal and $-2\tau I$
beside it; they stay positive definite, so no pivoting is needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector

Blocks = NDArray[np.float64]
"""One square matrix a round (T, d, d)."""


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
    """Solve a symmetric block-tridiagonal system; `beside[t]` couples row t with column t + 1."""
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

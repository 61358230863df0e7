r"""What rounding in the covariance of a `DriftVAW` can be worth, for its certificate.

The learner stands for $V_t(u)=c_t+\frac12(u-x)^\top P^{-1}(u-x)$, the least cost of a path that ends in u. Computing P
moves its elements by a few roundings of $\sqrt{P_{ii}P_{jj}}$, which changes $V_t$ by that times
$\sum_jP_{jj}(P^{-1})_{jj}$, as a share. Shares add up: neither moving nor a further loss, which is not negative, makes
a share larger. $(P^{-1})_{jj}$ is what is known of a coefficient: the ridge and the squares seen, and at most
$2\tau+z_j^2$, as it could have moved.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import DriftCount, DriftEvent

ROUNDING = float(np.finfo(np.float64).eps)
"""Rounding of an element of P in one round, as a share of its size; a twentieth of what follows from it was met."""
LONGEST = 256
"""Rounds for which one look at P serves, at most: it only shrinks in between, but for movement."""


def rounding_share(reg: float, tau: float, Z: Matrix, y: Vector, elapsed: Vector | None = None) -> float:
    """Return how much rounding can change the value of paths in a run, as a share of the labels' and of their cost.

    `elapsed`: the time before each row, 1 by default; rows and labels with weights are multiplied by their roots.
    """
    times = np.ones(len(y)) if elapsed is None else elapsed
    dim, step = Z.shape[1], np.array([0.5 / tau])
    P, leader, counts = np.eye(dim)[None, :, :] / reg, np.zeros((1, dim)), np.zeros((1, len(DriftCount)))
    total, begin, size = 0.0, 0, 1
    known, wide = np.full(dim, reg), np.full(dim, 1.0 / reg)
    while begin < len(y):
        rows, labels = Z[begin : begin + size], y[begin : begin + size]
        m, h, event = (np.empty((len(rows), 1)) for _ in range(3))
        time = times[begin : begin + size]
        kernels.drift_play(
            P, leader, counts, np.array([reg]), step, begin, rows, labels, m, h, event, np.ones(len(rows)), time
        )
        starts = np.flatnonzero(event[:, 0] != DriftEvent.LEARNED)
        for a, b in pairwise([0, *starts[starts > 0].tolist(), len(rows)]):
            squares = rows[a:b] ** 2
            with np.errstate(divide="ignore"):
                moved = 2.0 * tau / time[a:b, None] + squares
            fresh = not begin or event[a, 0] != DriftEvent.LEARNED
            if fresh:  # nothing is known but the ridge, and nothing has moved
                known, wide, moved[0] = np.full(dim, reg), np.full(dim, 1.0 / reg), np.inf
            if event[a, 0] == DriftEvent.IGNORED:
                squares[0] = 0.0
            steps = np.cumsum(time[a:b])[:, None] - (time[a] if fresh else 0.0)
            knowledge = np.minimum(known + np.cumsum(squares, axis=0), moved)
            total += float(np.sum((wide + step * steps) * knowledge))
            known = knowledge[-1]
        wide, begin, size = np.diagonal(P[0]).copy(), begin + len(rows), min(2 * size, LONGEST)
    return ROUNDING * total

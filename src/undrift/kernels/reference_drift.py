r"""NumPy twin of the kernels of `DriftVAW`: least squares over paths that pay for moving.

The learner follows $V_t(u)=\min_{u'}(V_{t-1}(u')+\tau|u-u'|^2)+f_t(u)$, a quadratic with its minimum at `leader`
and with the Hessian $P^{-1}$. Paying $\tau|u-u'|^2$ adds $\frac1{2\tau}I$ to P; a row then takes away
$Pzz^\top P/(1+h)$, $h=z^\top Pz$. Joseph's form $(I-Kz^\top)P(I-Kz^\top)^\top+KK^\top$ with the gain $K=Pz/(1+h)$ does
that so that rounding in K does not matter to first order.
"""

from __future__ import annotations

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import LEVERAGE_LIMIT, DriftCount, DriftEvent
from undrift.kernels.layout import State
from undrift.kernels.reference import invalid_input


def drift_play(
    covariance: State,
    leader: Matrix,
    counts: Matrix,
    reg: Vector,
    step: Vector,
    first: int,
    Z: Matrix,
    y: Vector,
    m: Matrix,
    h: Matrix,
    event: Matrix,
    weight: Vector | None = None,
    elapsed: Vector | None = None,
) -> int:
    """Close a block of rounds for every learner: covariance (N, d, d), leader (N, d), counts (N, `DriftCount`).

    Fills, before each label counts, the leader's prediction m = z.x and the leverage h, and what happened to the
    learner in that round (`DriftEvent`), all (rounds, N). `step` is 1 / (2 tau), `first` the number of rounds closed
    before. Returns 0, or the place of the first bad input (see `invalid_input`), and then nothing has changed.

    A row counts `weight` times, and the learner has moved for the time `elapsed`; None: 1. m and h do not depend on
    the round's own weight, unless that takes the leverage beyond its limit.
    """
    bad = invalid_input(Z, y)
    if bad:
        return bad
    for i in range(len(reg)):
        P, x = covariance[i], leader[i]
        for t, z in enumerate(Z):
            if first + t:
                P[np.diag_indices(len(z))] += step[i] if elapsed is None else elapsed[t] * step[i]
            count = 1.0 if weight is None else float(weight[t])
            w, m[t, i], h[t, i], event[t, i] = _look(P, x, z, float(reg[i]), count)
            if event[t, i] != DriftEvent.LEARNED:
                P[...], x[...] = np.eye(len(z)) / reg[i], 0.0
                counts[i, DriftCount.RESTARTS] += 1.0
            if event[t, i] == DriftEvent.IGNORED:
                counts[i, DriftCount.IGNORED] += 1.0
                continue
            # The row counts `count` times: it is learned as sqrt(count) z with the label sqrt(count) y.
            root = np.sqrt(count)
            w, miss, part = root * w, root * (y[t] - m[t, i]), 1.0 / (1.0 + count * h[t, i])
            K = w * part
            P -= np.outer(K, w)
            P[...] = np.tril(P) + np.tril(P, -1).T
            P -= np.outer(P @ (root * z) - K, K)
            P[...] = np.tril(P) + np.tril(P, -1).T
            x += K * miss
            counts[i, DriftCount.LEAST] += 0.5 * miss * miss * part
    return 0


def drift_predict(
    covariance: State,
    leader: Matrix,
    reg: Vector,
    step: Vector,
    first: int,
    Z: Matrix,
    m: Matrix,
    h: Matrix,
    elapsed: float = 1.0,
) -> int:
    """Fill m and h (rows, N) for rows that might come next, after time `elapsed`; the state is left as it was."""
    bad = invalid_input(Z, np.zeros(0))
    if bad:
        return bad
    for i in range(len(reg)):
        P = covariance[i].copy()
        if first:
            P[np.diag_indices(Z.shape[1])] += elapsed * step[i]
        for t, z in enumerate(Z):
            _, m[t, i], h[t, i], _ = _look(P, leader[i], z, float(reg[i]))
    return 0


def _look(P: Matrix, x: Vector, z: Vector, reg: float, weight: float = 1.0) -> tuple[Vector, float, float, int]:
    """Return P z, m, h and what the row does: beyond the largest leverage the learner starts afresh, or ignores it.

    A weight above 1 counts in the leverage.
    """
    limit = LEVERAGE_LIMIT / max(weight, 1.0)
    w = P @ z
    h = float(z @ w)
    if h <= limit:
        return w, float(z @ x), h, DriftEvent.LEARNED
    w = z / reg
    h = float(z @ w)
    if h <= limit:
        return w, 0.0, h, DriftEvent.RESTARTED
    return w, 0.0, 0.0, DriftEvent.IGNORED

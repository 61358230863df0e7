r"""NumPy twin of the kernels of `DriftVAW`: least squares over paths that pay for moving.

The learner follows $V_t(u)=\min_{u'}(V_{t-1}(u')+\tau|u-u'|^2)+f_t(u)$, a quadratic with its minimum at `leader`
and with the Hessian $P^{-1}$. Paying $\tau|u-u'|^2$ adds $\frac1{2\tau}I$ to P; a row then takes away
$Pzz^\top P/(1+h)$, $h=z^\top Pz$. Both are done to an upper triangular factor R, $P=R^\top R$, by rotations: nothing is
subtracted, so P stays positive definite, and its digits are those of R, twice as many as P itself would keep.

$$Q\begin{pmatrix}R\\\sqrt cI\end{pmatrix}=\begin{pmatrix}R'\\0\end{pmatrix}\quad(P'=P+cI),\qquad
Q\begin{pmatrix}1&0\\Rz&R\end{pmatrix}=\begin{pmatrix}\sqrt{1+h}&\sqrt{1+h}\,K^\top\\0&R'\end{pmatrix}
\quad(P'=P-(1+h)KK^\top),$$

where $K=Pz/(1+h)$ is the gain.
"""

from __future__ import annotations

import numpy as np

from tests.twins.reference import invalid_input
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import LEVERAGE_LIMIT, DriftCount, DriftEvent
from undrift.kernels.layout import State


def drift_play(
    factor: State,
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
    gains: Matrix | None = None,
) -> int:
    """Close a block of rounds for every learner: factor R (N, d, d), leader (N, d), counts (N, `DriftCount`).

    Fills, before each label counts, the leader's prediction m = z.x and the leverage h, and what happened to the
    learner in that round (`DriftEvent`), all (rounds, N). `step` is 1 / (2 tau), `first` the number of rounds closed
    before. Returns 0, or the place of the first bad input (see `invalid_input`), and then nothing has changed.

    A row counts `weight` times, and the learner has moved for the time `elapsed`; None: 1. m and h do not depend on
    the round's own weight, unless that takes the leverage beyond its limit.

    `gains` (rounds, d), for a single learner: filled with the gain K of each row times the root of its weight, 0 where
    the row was not learned.
    """
    bad = invalid_input(Z, y)
    if bad:
        return bad
    for i in range(len(reg)):
        R, x = factor[i], leader[i]
        for t, z in enumerate(Z):
            moved = (step[i] if elapsed is None else elapsed[t] * step[i]) if first + t else 0.0
            count = 1.0 if weight is None else float(weight[t])
            m[t, i], h[t, i], event[t, i] = _look(R, x, z, float(reg[i]), moved, count)
            if event[t, i] == DriftEvent.LEARNED:
                R[...] = _triangle(np.vstack([R, np.sqrt(moved) * np.eye(len(z))]))
            else:
                R[...], x[...] = np.eye(len(z)) / np.sqrt(reg[i]), 0.0
                counts[i, DriftCount.RESTARTS] += 1.0
            if event[t, i] == DriftEvent.IGNORED:
                counts[i, DriftCount.IGNORED] += 1.0
                if gains is not None:
                    gains[t] = 0.0
                continue
            # The row counts `count` times: it is learned as sqrt(count) z with the label sqrt(count) y.
            root = np.sqrt(count)
            before = np.zeros((len(z) + 1, len(z) + 1))
            before[0, 0], before[1:, 0], before[1:, 1:] = 1.0, root * (R @ z), R
            after = _triangle(before)
            R[...] = after[1:, 1:]
            K, miss = after[0, 1:] / after[0, 0], root * (y[t] - m[t, i])
            if gains is not None:
                gains[t] = K
            x += K * miss
            counts[i, DriftCount.LEAST] += 0.5 * miss * miss / (1.0 + count * h[t, i])
    return 0


def _triangle(rows: Matrix) -> Matrix:
    """Return the upper triangular matrix with a diagonal >= 0 that a rotation makes of these rows."""
    R = np.linalg.qr(rows).R
    return np.asarray(np.where(np.diagonal(R) < 0.0, -1.0, 1.0)[:, None] * R)


def drift_predict(
    factor: State,
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
        moved = elapsed * step[i] if first else 0.0
        for t, z in enumerate(Z):
            m[t, i], h[t, i], _ = _look(factor[i], leader[i], z, float(reg[i]), moved)
    return 0


def drift_residuals(Z: Matrix, gains: Matrix, error: Vector, start: Vector, out: Vector) -> None:
    """Fill `out` with the residuals s of the best path: s_t = -error_t - K_t.S, S the sum of s_k z_k over later rounds.

    `gains` K (rounds, d) as `drift_play` fills them, `error` what the leader missed over 1 + h; `start` is not 0 in
    rounds in which the learner began or started afresh, before which nothing is summed.
    """
    to_come = np.zeros(Z.shape[1])
    for t in range(len(Z) - 1, -1, -1):
        out[t] = -error[t] - gains[t] @ to_come
        to_come = np.zeros(Z.shape[1]) if start[t] else to_come + out[t] * Z[t]


def drift_errors(Z: Matrix, gains: Matrix, y: Vector, start: Vector, out: Vector) -> None:
    """Fill `out` with what the leader misses of other labels y on the rows whose gains are known."""
    x = np.zeros(Z.shape[1])
    for t in range(len(Z)):
        x = np.zeros(Z.shape[1]) if start[t] else x
        out[t] = y[t] - Z[t] @ x
        x = x + out[t] * gains[t]


def _look(R: Matrix, x: Vector, z: Vector, reg: float, moved: float, weight: float = 1.0) -> tuple[float, float, int]:
    """Return m, h and what the row does: beyond the largest leverage the learner starts afresh, or ignores it.

    `moved` is what movement has added to P since the last round. A weight above 1 counts in the leverage.
    """
    limit = LEVERAGE_LIMIT / max(weight, 1.0)
    seen = R @ z
    h = float(seen @ seen + moved * (z @ z))
    if h <= limit:
        return float(z @ x), h, DriftEvent.LEARNED
    h = float(z @ z) / reg
    if h <= limit:
        return 0.0, h, DriftEvent.RESTARTED
    return 0.0, 0.0, DriftEvent.IGNORED

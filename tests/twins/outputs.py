r"""NumPy twin of the kernels of a shared design: several outputs over one information matrix.

The update of A = L D L^T does not depend on labels, so outputs that are predicted from the same row share it. Each has
a right-hand side of its own, a column of `theta` (learners, dim, outputs); the state's own theta stays 0. With one
output these are the rounds of `vaw_play`, to the bit within a kernel level.
"""

from __future__ import annotations

import numpy as np

from tests.twins.constants import CONVEX_SHARE, PREDICTION_LIMIT
from tests.twins.reference import _Learner, _Solved, invalid_input
from undrift._typing import Matrix, Vector
from undrift.kernels.layout import State


def vaw_outputs_play(
    state: State, theta: State, beta: Vector, first: int, Z: Matrix, Y: Matrix, m: State, h: Matrix
) -> int:
    """Close a block of rounds with several labels each, Y (rounds, outputs), for every learner of a state of one lane.

    Fills, before the labels count, the leaders' predictions m (rounds, learners, outputs) and the leverage h (rounds,
    learners). A label that is missing (NaN) counts as the leader's own prediction, which leaves this output's leader
    where it is. Returns 0, or the place of the first bad input as `vaw_play` does, and then nothing has changed.
    """
    if bad := invalid_input(Z, np.where(np.isnan(Y), 0.0, Y).ravel()):
        return bad
    for t, i in np.ndindex(h.shape):
        one, own = _Learner(state, i, Z.shape[1]), theta[i]
        row = _solve(one, own, float(beta[i]), first + t, Z[t], m[t, i])
        h[t, i] = row.h
        one.update(row, weight=1.0, target=0.0, slope=0.0)
        if row.lost:
            own[...] = 0.0
            continue
        labels = np.where(np.isnan(Y[t]), m[t, i], Y[t])
        s = 1.0 + row.hs
        before = np.concatenate(([1.0], s))[:-1]
        part = np.zeros(len(labels))
        for j, leader in enumerate(own):
            gain, keep, old = row.g[j] / s[j], before[j] / s[j], leader.copy()
            if before[j] < CONVEX_SHARE * s[j]:
                leader[...] = keep * old + gain * (labels - part)
            else:
                leader += gain * (labels - part - row.p[j] * old)
            part += row.p[j] * old
    return 0


def vaw_outputs_predict(state: State, theta: State, beta: Vector, first: int, Z: Matrix, m: State, h: Matrix) -> int:
    """Fill m and h for rows that might come next; the state is left as it was."""
    if bad := invalid_input(Z, np.zeros(0)):
        return bad
    for t, i in np.ndindex(h.shape):
        one = _Learner(state.copy(), i, Z.shape[1])
        h[t, i] = _solve(one, theta[i].copy(), float(beta[i]), first, Z[t], m[t, i]).h
    return 0


def _solve(one: _Learner, theta: Matrix, beta: float, closed: int, z: Vector, m: Vector) -> _Solved:
    """Forget, look at a row, and fill the predictions of all outputs; one out of range loses the learner."""
    one.forget(beta, closed)
    row = one.solve(z)
    with np.errstate(over="ignore", invalid="ignore"):
        m[...] = np.sum(row.p[:, None] * theta, axis=0)
    lost = row.lost or not bool((np.abs(m) <= PREDICTION_LIMIT).all())
    if lost:
        m[...] = 0.0
    return row._replace(h=0.0 if lost else row.h, lost=lost)

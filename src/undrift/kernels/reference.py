r"""NumPy twin of every compiled kernel: slow, plain, and the definition of correct.

The discounted information matrix $A_t = \beta A_{t-1} + w_t z_t z_t^\top$ is kept as $L D L^\top$ (`layout` has the
places). Forgetting touches D alone. With $p = L^{-1}z$ and, in the metric of $\beta A$,
$g_j = p_j/(\beta D_j)$ and $h_j = \sum_{i \le j} g_i p_i$, a round needs only positive terms in the pivots:

    s_j = 1 + w h_j                     D_j <- beta D_j s_j / s_{j-1}
    v_rj = z_r - sum_{i<=j} p_i L_ri    L_rj <- L_rj + (w g_j / s_j) v_rj

In exact arithmetic the last line is also $L_{rj} \leftarrow k_j L_{rj} + (w g_j/s_j) v_{r,j-1}$, $k_j = s_{j-1}/s_j$: a
convex combination of the past and of what the row says. A row far larger than those before it leaves almost nothing of
the past, $k_j \approx 0$: the first form then subtracts the past from itself, and what is left is its rounding, which
the next such row multiplies. So the second is taken there, and likewise for theta.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.kernels.layout import State, column, factor, factor_places

LIMIT = 1e75
"""Largest |z_j| and |y|."""
FLOOR = 1e-24
"""Pivots are kept above this fraction of their feature's energy, ..."""
TINY = 1e-150
"""... and above this number."""
PERIOD = 16
"""Floors are applied when the number of closed rounds is a multiple of this, ..."""
HASTY = 1.0 / 64.0
"""... and in every round for discounts below this, whose pivots could underflow in between."""
FAINT = 1e17
"""A feature whose energy exceeds its pivot by this much is nearly explained by those before it: what is left of it in a
row, p_j, may be rounding, which forgetting would take for news, and counts only above ..."""
BLUR = 2.0**-50
"""... this / (1 - beta), relative to a bound on the terms p_j is the sum of: L follows the rows in steps of 1 - beta,
so it stays wrong by 1 / (1 - beta) roundings."""
STEEP = 1.0 / 64.0
"""Where less than this share of a column's past stays in it, s_{j-1} < STEEP s_j, the update takes its convex form. The
other form loses the square root of the share in accuracy: three binary digits here, all of them at a leverage of 1e32.
Ordinary rows stay above it, even with a memory of one round (all but 2 pivots in 1000)."""
RANGE = 1e150
"""A prediction beyond this, or a leverage beyond its square, means the numbers have left float64: start afresh."""


def mean_play(state: Vector, y: Vector, beta: float, yhat: Vector, stability: Vector) -> None:
    """Run the discounted mean over a block of labels, filling `yhat` and `stability`.

    state = (A, b), changed in place:
        A_t = beta A_{t-1} + 1         b_t = beta b_{t-1} + y_t
        yhat_t = beta b_{t-1} / A_t    stability_t = y_t^2 / (2 A_t)
    """
    for t in range(len(y)):
        A = beta * state[0] + 1.0
        yhat[t] = beta * state[1] / A
        stability[t] = 0.5 * (y[t] * y[t]) / A
        state[0], state[1] = A, beta * state[1] + y[t]


def vaw_play(
    state: State, beta: Vector, first: int, Z: Matrix, y: Vector, m: Matrix, h: Matrix, threads: int = 1
) -> int:
    """Close a block of squared-loss rounds for every learner of a state.

    Fills, before each label counts, the leader's prediction m = z.x and the leverage h = z'(beta A)^-1 z, both
    (rounds, learners); discounted VAW with any hint predicts (m + h hint) / (1 + h). `first` is the number of rounds
    closed before. Returns 0, or the place of the first bad input (see `refusal`), and then nothing has changed.
    Compiled, `threads` threads share the learners; the bits do not depend on it.
    """
    bad = refusal(Z, y)
    if bad:
        return bad
    for t, i in np.ndindex(m.shape):
        one = _Learner(state, i, Z.shape[1])
        one.forget(float(beta[i]), first + t)
        row = one.solve(Z[t])
        m[t, i], h[t, i] = row.m, row.h
        one.update(row, weight=1.0, target=float(y[t]), slope=0.0)
    return 0


def vaw_predict(state: State, beta: Vector, first: int, Z: Matrix, m: Matrix, h: Matrix, threads: int = 1) -> int:
    """Fill m and h for rows that might come next; the state is left as it was."""
    bad = refusal(Z, np.zeros(0))
    if bad:
        return bad
    now = state.copy()
    for i in range(len(beta)):
        one = _Learner(now, i, Z.shape[1])
        one.forget(float(beta[i]), first)
        for t in range(len(Z)):
            row = one.solve(Z[t])
            m[t, i], h[t, i] = row.m, row.h
    return 0


def aioli_play(
    state: State,
    beta: Vector,
    bend: Vector,
    first: int,
    Z: Matrix,
    y: Vector,
    yhat: Matrix,
    stability: Matrix,
    threads: int = 1,
) -> int:
    """Close a block of logistic rounds (labels -1, +1) for every learner of a state; `bend` is 1 + B R of each.

    Fills the log-odds `yhat` and stability = bend * leverage of sqrt(k) z after the update, with
    k = sigma(a) sigma(-a) / bend, a = y yhat. Returns as `vaw_play`.
    """
    bad = refusal(Z, y, binary=True)
    if bad:
        return bad
    for t, i in np.ndindex(yhat.shape):
        one = _Learner(state, i, Z.shape[1])
        one.forget(float(beta[i]), first + t)
        row = one.solve(Z[t])
        sign, m = float(y[t]), log_odds(row.m, row.h)
        weight = sigmoid(m) * sigmoid(-m) / float(bend[i])
        yhat[t, i], stability[t, i] = m, bend[i] * (weight * row.h) / (1.0 + weight * row.h)
        one.update(row, weight=weight, target=m, slope=sign * sigmoid(-sign * m))
    return 0


def aioli_predict(state: State, beta: Vector, first: int, Z: Matrix, yhat: Matrix, threads: int = 1) -> int:
    """Fill the log-odds for rows that might come next; the state is left as it was."""
    m, h = np.empty_like(yhat), np.empty_like(yhat)
    bad = vaw_predict(state, beta, first, Z, m, h)
    if not bad:
        for at in np.ndindex(yhat.shape):
            yhat[at] = log_odds(float(m[at]), float(h[at]))
    return bad


def refusal(Z: Matrix, y: Vector, binary: bool = False) -> int:
    """Return 0 if every number may be used, 1 + flat index of the first bad z, or -(1 + index) of the first bad y."""
    bad = ~(np.abs(Z) <= LIMIT)
    if bad.any():
        return 1 + int(np.argmax(bad))
    bad = np.abs(y) != 1.0 if binary else ~(np.abs(y) <= LIMIT)
    return -1 - int(np.argmax(bad)) if bad.any() else 0


def log_odds(m0: float, kappa: float) -> float:
    """Return the root of m + kappa tanh(m/2) = m0, which lies between 0 and m0.

    Newton's method inside a bracket, and bisection whenever Newton leaves it or no longer halves its steps.
    """
    target = abs(m0)
    low, high = max(target / (1.0 + 0.5 * kappa), target - kappa), target
    m, step = low, high - low
    for _ in range(2000):
        slack = target - m - kappa * math.tanh(0.5 * m)
        low, high = (m, high) if slack >= 0.0 else (low, m)
        last, step = step, slack / (1.0 + 2.0 * kappa * sigmoid(m) * sigmoid(-m))
        if not low <= m + step <= high or abs(step) > 0.5 * abs(last):
            step = 0.5 * (low + high) - m
        if m + step == m:
            break
        m += step
    return math.copysign(m, m0)


def held(beta: float) -> float:
    """Return what forgetting leaves of a pivot from one floor round to the next."""
    return beta if beta < HASTY else beta**PERIOD


def sigmoid(a: float) -> float:
    """1 / (1 + e^-a), exact in both tails."""
    e = math.exp(-abs(a))
    return 1.0 / (1.0 + e) if a >= 0.0 else e / (1.0 + e)


class _Solved(NamedTuple):
    """What a row is to a learner before its label is seen."""

    z: Vector
    p: Vector  # L^-1 z
    g: Vector  # p / (beta D)
    hs: Vector  # running leverages h_j
    m: float  # prediction of the leader, 0 when lost
    h: float  # leverage, 0 when lost
    lost: bool  # the numbers have left the range in this round or since the last floor round


class _Learner:
    """One learner's state, taken apart: views into the stored numbers and the steps of a round."""

    def __init__(self, state: State, i: int, dim: int) -> None:
        one = column(state, i)
        self.inverse, self.theta, self.energy = (one[k * dim : (k + 1) * dim] for k in range(3))
        self.counts = one[3 * dim : 3 * dim + 3]  # floored, lost, resets
        self.stored = one[3 * dim + 3 :]
        self.places = factor_places(dim, state.shape[2])
        self.L = factor(state, i, dim)

    def forget(self, beta: float, closed: int) -> None:
        """Discount pivots and energy; in floor rounds keep pivots above the floor and start afresh if lost.

        A pivot is raised no further than it fell by forgetting since the floor round before: a feature whose energy
        jumps keeps the pivot it has.
        """
        self.blur = (BLUR / max(1.0 - beta, 1e-5)) ** 2
        with np.errstate(over="ignore", invalid="ignore"):
            self.inverse *= 1.0 / beta
            self.energy *= beta
        if closed % PERIOD and beta >= HASTY:
            return
        self.energy[...] = np.maximum(self.energy, TINY)
        ceiling = 1.0 / np.maximum(FLOOR * self.energy, TINY)
        if self.counts[1]:
            self.inverse[...], self.theta[...], self.L[...] = ceiling, 0.0, np.eye(len(self.theta))
            self.counts[1] = 0.0
            self.counts[2] += 1.0
        ceiling = np.clip(self.inverse * held(beta), ceiling, 1.0 / TINY)
        self.counts[0] += float(np.count_nonzero(self.inverse > ceiling))
        self.inverse[...] = np.minimum(self.inverse, ceiling)

    def solve(self, z: Vector) -> _Solved:
        """Look at a row through the discounted past."""
        p, hs, h = z.astype(np.float64), np.empty(len(z)), 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for j, energy in enumerate(self.energy):
                # |p_j's terms| <= sqrt(h_{j-1} energy_j), by Cauchy and Schwarz in the metric of D
                if self.inverse[j] * energy > FAINT and p[j] * p[j] <= self.blur * (h * energy):
                    p[j] = 0.0
                p[j + 1 :] -= p[j] * self.L[j + 1 :, j]
                hs[j] = h = h + float(p[j] * self.inverse[j] * p[j])
            g, m = p * self.inverse, float(np.sum(p * self.theta))
        if self.counts[1] or not (abs(m) <= RANGE and h <= RANGE**2):
            return _Solved(z, p, g, hs, 0.0, 0.0, lost=True)
        return _Solved(z, p, g, hs, m, h, lost=False)

    def update(self, row: _Solved, *, weight: float, target: float, slope: float) -> None:
        """Add weight (x.z - target)^2 / 2 - slope x.z to the past; `slope` is 0 for squared loss."""
        self.counts[1] = float(row.lost)
        self.energy += weight * row.z * row.z
        if row.lost:
            return  # whatever is stored now is replaced at the next floor round
        s = 1.0 + weight * row.hs
        before = np.concatenate(([1.0], s))[:-1]
        gain, keep = row.g / s, before / s
        self.inverse *= keep
        v, part = row.z.astype(np.float64), 0.0
        for j in range(len(v)):
            theta, column, rest = self.theta[j], self.L[j + 1 :, j], v[j + 1 :]
            if before[j] < STEEP * s[j]:
                self.theta[j] = keep[j] * theta + gain[j] * (weight * (target - part) + slope)
                learned = keep[j] * column + weight * gain[j] * rest
                rest -= row.p[j] * column
            else:
                self.theta[j] += gain[j] * (weight * (target - part - row.p[j] * theta) + slope)
                rest -= row.p[j] * column
                learned = column + weight * gain[j] * rest
            part += row.p[j] * theta
            column[...] = learned
        self.stored[...] = self.L[self.places]

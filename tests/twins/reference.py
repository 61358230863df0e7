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

from tests.twins.constants import CONVEX_SHARE, PREDICTION_LIMIT
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import COLLINEAR, INPUT_LIMIT, PIVOT_FLOOR, PIVOT_MIN, RESIDUE_ROUNDING
from undrift.kernels.layout import State, aged_discount, factor, factor_indices, is_floor_round, parts


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
    state: State,
    beta: Vector,
    first: int,
    Z: Matrix,
    y: Vector,
    m: Matrix,
    h: Matrix,
    threads: int = 1,
    weight: Vector | None = None,
    elapsed: Vector | None = None,
) -> int:
    """Close a block of squared-loss rounds for every learner of a state.

    Fills, before each label counts, the leader's prediction m = z.x and the leverage h = z'(beta A)^-1 z, both
    (rounds, learners); discounted VAW with any hint predicts (m + h hint) / (1 + h). `first` is the number of rounds
    closed before. Returns 0, or the place of the first bad input (see `invalid_input`), and then nothing has changed.
    Compiled, `threads` threads share the learners; the bits do not depend on it.

    A row counts `weight` times, and the past beta^elapsed from its round on; None: 1. m and h do not depend on the
    round's own weight.
    """
    if bad := invalid_input(Z, y):
        return bad
    for t, i in np.ndindex(m.shape):
        one = _Learner(state, i, Z.shape[1])
        one.forget(float(beta[i]), first + t, 1.0 if elapsed is None else float(elapsed[t]))
        row = one.solve(Z[t], 1.0 if weight is None else float(weight[t]))
        m[t, i], h[t, i] = row.m, row.h
        one.update(row, weight=row.weight, target=float(y[t]), slope=0.0)
    return 0


def vaw_predict(
    state: State,
    beta: Vector,
    first: int,
    Z: Matrix,
    m: Matrix,
    h: Matrix,
    threads: int = 1,
    elapsed: float = 1.0,
) -> int:
    """Fill m and h for rows that might come next, after time `elapsed`; the state is left as it was."""
    if bad := invalid_input(Z, np.zeros(0)):
        return bad
    now = state.copy()
    for i in range(len(beta)):
        one = _Learner(now, i, Z.shape[1])
        one.forget(float(beta[i]), first, elapsed)
        for t in range(len(Z)):
            row = one.solve(Z[t])
            m[t, i], h[t, i] = row.m, row.h
    return 0


def hinted_predictions(m: Matrix, h: Matrix, hint: Matrix, y: Vector, yhat: Matrix, stability: Matrix) -> None:
    """Fill the predictions and the stability of discounted VAW with hints, from the m and h of `vaw_play`.

        yhat = (m + h hint) / (1 + h)      stability = (hint - y)^2 / 2 h / (1 + h)

    All arrays are (rounds, members), but y (rounds,). The leader is pulled towards the hint where it knows little.
    """
    yhat[...] = (m + h * hint) / (1.0 + h)
    stability[...] = 0.5 * (hint - y[:, None]) ** 2 * h / (1.0 + h)


def aioli_play(
    state: State,
    beta: Vector,
    inverse_curvature: Vector,
    first: int,
    Z: Matrix,
    y: Vector,
    yhat: Matrix,
    stability: Matrix,
    threads: int = 1,
    weight: Vector | None = None,
    elapsed: Vector | None = None,
    leverage: Matrix | None = None,
    point: Matrix | None = None,
) -> int:
    """Close a block of logistic rounds (labels -1, +1) for every learner of a state.

    A learner's `inverse_curvature` is 1 + B R. Fills the log-odds `yhat` and stability = inverse_curvature * leverage
    of sqrt(k) z after the update, with k = sigma(a) sigma(-a) / inverse_curvature, a = y yhat. Returns as `vaw_play`.

    A row's loss counts `weight` times; `elapsed` as in `vaw_play`. Up to 1, its surrogate does. Beyond, the first copy
    is an ordinary round, and the others are expanded where they are least on top of it (`least_loss`). `leverage`
    receives h, `point` the log-odds where the copies beyond the first were expanded, yhat where there are none.
    """
    if bad := invalid_input(Z, y, binary=True):
        return bad
    for t, i in np.ndindex(yhat.shape):
        one = _Learner(state, i, Z.shape[1])
        one.forget(float(beta[i]), first + t, 1.0 if elapsed is None else float(elapsed[t]))
        row = one.solve(Z[t])
        sign, m, w = float(y[t]), log_odds(row.m, row.h), 1.0 if weight is None else float(weight[t])
        k = sigmoid(m) * sigmoid(-m) / float(inverse_curvature[i])
        yhat[t, i], stability[t, i] = m, inverse_curvature[i] * (k * row.h) / (1.0 + k * row.h)
        curved, slope, p = min(w, 1.0) * k, min(w, 1.0) * (sign * sigmoid(-sign * m)), m
        if w > 1.0:
            part = 1.0 / (1.0 + k * row.h)
            h = min((w - 1.0) * (row.h * part), PREDICTION_LIMIT**2)
            p = sign * least_loss(sign * (m + (row.m - m + row.h * slope) * part), h)
            more = (w - 1.0) * sigmoid(p) * sigmoid(-p) / float(inverse_curvature[i])
            curved, slope = curved + more, slope + (w - 1.0) * (sign * sigmoid(-sign * p)) + more * (p - m)
        if leverage is not None:
            leverage[t, i] = row.h
        if point is not None:
            point[t, i] = p
        one.update(row, weight=curved, target=m, slope=slope)
    return 0


def aioli_predict(
    state: State, beta: Vector, first: int, Z: Matrix, yhat: Matrix, threads: int = 1, elapsed: float = 1.0
) -> int:
    """Fill the log-odds for rows that might come next, after time `elapsed`; the state is left as it was."""
    m, h = np.empty_like(yhat), np.empty_like(yhat)
    bad = vaw_predict(state, beta, first, Z, m, h, elapsed=elapsed)
    if not bad:
        for at in np.ndindex(yhat.shape):
            yhat[at] = log_odds(float(m[at]), float(h[at]))
    return bad


def invalid_input(Z: Matrix, y: Vector, binary: bool = False) -> int:
    """Return 0 if every number may be used, 1 + flat index of the first bad z, or -(1 + index) of the first bad y."""
    bad = ~(np.abs(Z) <= INPUT_LIMIT)
    if bad.any():
        return 1 + int(np.argmax(bad))
    bad = np.abs(y) != 1.0 if binary else ~(np.abs(y) <= INPUT_LIMIT)
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


def least_loss(m: float, h: float) -> float:
    """Return the root of p = m + h sigma(-p): where (p - m)^2 / 2h plus the logistic loss of the label +1 is least.

    Newton's method inside a bracket, as in `log_odds`.
    """
    low, high = m, m + h
    p, step = max(m, min(high, 0.0)), high - low
    for _ in range(2000):
        slack = m - p + h * sigmoid(-p)
        low, high = (p, high) if slack >= 0.0 else (low, p)
        last, step = step, slack / (1.0 + h * sigmoid(p) * sigmoid(-p))
        if not low <= p + step <= high or abs(step) > 0.5 * abs(last):
            step = 0.5 * (low + high) - p
        if p + step == p:
            break
        p += step
    return p


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
    weight: float = 1.0  # how often the row counts


class _Learner:
    """One learner's state, taken apart: views into the stored numbers and the steps of a round."""

    def __init__(self, state: State, i: int, dim: int) -> None:
        one = parts(state, i, dim)
        self.inverse, self.theta, self.energy = one["inverse_pivots"], one["theta"], one["energy"]
        self.floored, self.lost, self.resets = one["floored"], one["lost"], one["resets"]
        self.stored_factor, self.stored_at = one["factor"], factor_indices(dim, state.shape[2])
        self.L = factor(state, i, dim)

    def forget(self, beta: float, closed: int, elapsed: float = 1.0) -> None:
        """Discount pivots and energy; in floor rounds keep pivots above the floor and start afresh if lost.

        A pivot is raised no further than it fell by forgetting since the floor round before: a feature whose energy
        jumps keeps the pivot it has. A round after a time other than 1 is a floor round, which may take back what it
        forgot itself, and, where a floor round was due, what the rounds before it forgot.
        """
        self.rounding = (RESIDUE_ROUNDING / max(1.0 - beta, 1e-5)) ** 2
        aged, between = aged_discount(beta, closed, elapsed)
        with np.errstate(over="ignore", invalid="ignore"):
            self.inverse *= 1.0 / aged
            self.energy *= aged
        if not is_floor_round(beta, closed, elapsed):
            return
        self.energy[...] = np.maximum(self.energy, PIVOT_MIN)
        ceiling = 1.0 / np.maximum(PIVOT_FLOOR * self.energy, PIVOT_MIN)
        if self.lost[0]:
            self.inverse[...], self.theta[...], self.L[...] = ceiling, 0.0, np.eye(len(self.theta))
            self.lost[0] = 0.0
            self.resets[0] += 1.0
        ceiling = np.clip(self.inverse * between, ceiling, 1.0 / PIVOT_MIN)
        self.floored[0] += float(np.count_nonzero(self.inverse > ceiling))
        self.inverse[...] = np.minimum(self.inverse, ceiling)

    def solve(self, z: Vector, weight: float = 1.0) -> _Solved:
        """Look at a row, which will count `weight` times, through the discounted past."""
        p, hs, h = z.astype(np.float64), np.empty(len(z)), 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for j, energy in enumerate(self.energy):
                # |p_j's terms| <= sqrt(h_{j-1} energy_j), by Cauchy and Schwarz in the metric of D
                if self.inverse[j] * energy > COLLINEAR and p[j] * p[j] <= self.rounding * (h * energy):
                    p[j] = 0.0
                p[j + 1 :] -= p[j] * self.L[j + 1 :, j]
                hs[j] = h = h + float(p[j] * self.inverse[j] * p[j])
            g, m = p * self.inverse, float(np.sum(p * self.theta))
        if self.lost[0] or not (abs(m) <= PREDICTION_LIMIT and max(1.0, weight) * h <= PREDICTION_LIMIT**2):
            return _Solved(z, p, g, hs, 0.0, 0.0, lost=True, weight=weight)
        return _Solved(z, p, g, hs, m, h, lost=False, weight=weight)

    def update(self, row: _Solved, *, weight: float, target: float, slope: float) -> None:
        """Add weight (x.z - target)^2 / 2 - slope x.z to the past; `slope` is 0 for squared loss."""
        self.lost[0] = float(row.lost)
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
            if before[j] < CONVEX_SHARE * s[j]:
                self.theta[j] = keep[j] * theta + gain[j] * (weight * (target - part) + slope)
                learned = keep[j] * column + weight * gain[j] * rest
                rest -= row.p[j] * column
            else:
                self.theta[j] += gain[j] * (weight * (target - part - row.p[j] * theta) + slope)
                rest -= row.p[j] * column
                learned = column + weight * gain[j] * rest
            part += row.p[j] * theta
            column[...] = learned
        self.stored_factor[...] = self.L[self.stored_at]

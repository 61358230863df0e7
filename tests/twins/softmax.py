r"""NumPy twin of the kernels of `DiscountedSoftmax`: softmax regression by quadratics below the losses.

Logits of K classes are $Qa$ with an orthonormal basis Q (K, m), m = K - 1, of the vectors that sum to 0; a row has a
design $\Phi$ (m, n) and the logits $Q\Phi\theta$. What is minimised is
$\frac w2|\theta|^2+\sum_s\beta^{t-s}\hat f_s(\theta)$, a quadratic with its minimum at `leader` and with the Hessian
`information` + w I, whose inverse is `covariance`. A coming row has $m_0=\Phi\theta$ and
$M_0=\frac1\beta\Phi P\Phi^\top$; playing $b=m_0-M_0v$ costs, if the label is y,
$$L=\tfrac12(g-v)^\top M(g-v)-\tfrac12v^\top M_0v,\qquad g=Q^\top(p(b)-e_y),\quad M=(M_0^{-1}+kH(b))^{-1}.$$
`equal_prices` finds the v that makes L the same for every y. Key `softmax`.
"""

from __future__ import annotations

import numpy as np

from tests.twins.constants import (
    SOFTMAX_EXACT_CLASSES,
    SOFTMAX_FRESH_AGE,
    SOFTMAX_FRESH_LEVERAGE,
    SOFTMAX_LEAST_RIDGE,
    SOFTMAX_LEAST_SHARE,
)
from tests.twins.reference import invalid_input
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import LEVERAGE_LIMIT
from undrift.kernels.definitions import SoftmaxNumber as N


def softmax_play(
    information: Matrix,
    covariance: Matrix,
    pull: Vector,
    leader: Vector,
    numbers: Vector,
    basis: Matrix,
    curvature: float,
    reg: float,
    beta: Vector,
    weight: Vector,
    Z: Matrix,
    y: Vector,
    logits: Matrix,
    stability: Vector,
    potential: Vector,
    point: Matrix | None = None,
) -> int:
    """Close rounds; `numbers` are `SoftmaxNumber`, `beta` and `weight` have one number a round, y are class numbers.

    Rows of Z are features (d,), with a coefficient for each feature and each of the m coordinates. Fills logits
    (rounds, K), the price of each round and the ridge after it. Returns as `invalid_input`.

    A loss counts `weight` times. Up to 1, its quadratic does. Beyond, the first copy is an ordinary round, and the
    others are expanded where they are least on top of it; `point` receives these logits, those played where there are
    none.
    """
    bad = invalid_input(Z, y)
    if bad:
        return bad
    n, m = len(pull), basis.shape[1]
    for t in range(len(y)):
        design = _design(Z[t], m)
        P, x, fresh = covariance / beta[t], leader, False
        m0, M0 = design @ x, design @ P @ design.T
        if not np.trace(M0) <= LEVERAGE_LIMIT:
            P, x, fresh = np.eye(n) / reg, np.zeros(n), True
            m0, M0 = np.zeros(m), design @ design.T / reg
        if fresh:
            information[...], covariance[...], pull[...], leader[...] = 0.0, P, 0.0, 0.0
            numbers[N.RIDGE], numbers[N.AGE] = reg / beta[t], 0.0
            numbers[N.RESTARTS] += 1.0
        if not np.trace(M0) <= LEVERAGE_LIMIT:
            logits[t], stability[t] = 0.0, weight[t] * np.log(len(basis))
            potential[t] = numbers[N.RIDGE] = reg
            numbers[N.IGNORED] += 1.0
            continue
        v = equal_prices(m0, M0, curvature, basis)
        b = m0 - M0 @ v
        logits[t] = basis @ b
        p, label = softmax(logits[t]), int(y[t])
        H = min(weight[t], 1.0) * curvature * _hessian(p, basis)
        g = min(weight[t], 1.0) * (basis.T @ p - basis[label])
        M = np.linalg.solve(np.eye(m) + M0 @ H, M0)
        stability[t] = 0.5 * (g - v) @ M @ (g - v) - 0.5 * v @ M0 @ v
        if point is not None:
            point[t] = logits[t]
        if weight[t] > 1.0:
            copies, M = weight[t] - 1.0, 0.5 * (M + M.T)
            m1 = b + M @ (v - g)
            u = least_loss(m1, M, basis, copies, basis[label])
            at = m1 - M @ u
            there = basis @ at
            p = softmax(there)
            bend, slope = copies * curvature * _hessian(p, basis), copies * (basis.T @ p - basis[label])
            off = slope - u
            stability[t] += copies * (_log_loss(logits[t], label) - _log_loss(there, label)) - 0.5 * u @ M @ u
            stability[t] += 0.5 * off @ np.linalg.solve(np.eye(m) + M @ bend, M) @ off
            g, H = g + slope + bend @ (b - at), H + bend
            if point is not None:
                point[t] = there
        _settle(information, covariance, pull, leader, numbers, design, P, M0, b, g, H, float(beta[t]), reg)
        potential[t] = numbers[N.RIDGE]
    return 0


def softmax_predict(
    covariance: Matrix,
    leader: Vector,
    basis: Matrix,
    curvature: float,
    reg: float,
    beta: float,
    Z: Matrix,
    logits: Matrix,
) -> int:
    """Fill the logits (rows, K) of rows that might come next."""
    bad = invalid_input(Z, np.zeros(0))
    if bad:
        return bad
    m = basis.shape[1]
    for t in range(len(Z)):
        design = _design(Z[t], m)
        m0, M0 = design @ leader, design @ covariance @ design.T / beta
        if not np.trace(M0) <= LEVERAGE_LIMIT:
            m0, M0 = np.zeros(m), design @ design.T / reg
        if not np.trace(M0) <= LEVERAGE_LIMIT:
            logits[t] = 0.0
        else:
            logits[t] = basis @ (m0 - M0 @ equal_prices(m0, M0, curvature, basis))
    return 0


def equal_prices(m0: Vector, M0: Matrix, k: float, Q: Matrix) -> Vector:
    """Return the v of the prediction m0 - M0 v whose price is the same whatever the label."""
    v = least_loss(m0, M0, Q)
    if len(Q) > SOFTMAX_EXACT_CLASSES:
        return v
    b = m0 - M0 @ v
    now = _Look(b, m0, M0, k, Q)
    for _ in range(40):
        if now.size <= 1e-9 * (1.0 + np.abs(b).max()):
            break
        try:
            step = np.linalg.solve(now.slope(M0, k, Q), -now.F)
        except np.linalg.LinAlgError:
            break
        length, moved = min(1.0, 4.0 / max(float(np.abs(step).max()), 1e-300)), False
        for _ in range(20):
            there = _Look(b + length * step, m0, M0, k, Q)
            if there.size < now.size * (1.0 - 1e-4 * length):
                b, now, moved = b + length * step, there, True
                break
            length *= 0.5
        if not moved:
            break
    return now.v if now.size <= 1e-6 * max(1.0, float(np.abs(b).max())) else v  # the first guess is exact


class _Look:
    """Everything about a candidate prediction b: how far it is from the one with equal prices."""

    def __init__(self, b: Vector, m0: Vector, M0: Matrix, k: float, Q: Matrix) -> None:
        self.p = softmax(Q @ b)
        self.H = _hessian(self.p, Q)
        M = np.linalg.solve(np.eye(len(b)) + k * M0 @ self.H, M0)
        self.MK = Q @ (0.5 * (M + M.T)) @ Q.T
        self.c = Q.T @ np.diagonal(self.MK)
        bend = k * self.H @ self.c
        # w solves M w = c / 2: w = (M0^-1 + kH) c / 2; only M0 w is needed, so M0 may be singular
        self.F = b - m0 + M0 @ (Q.T @ self.p) - 0.5 * (self.c + M0 @ bend)
        self.size = float(np.sqrt(self.F @ self.F))
        if not np.isfinite(self.size):
            self.size = np.inf
        self.v = Q.T @ self.p - 0.5 * (_divide(self.c, M0) + bend)

    def slope(self, M0: Matrix, k: float, Q: Matrix) -> Matrix:
        """Return the derivative of F."""
        p, e = self.p, Q @ self.c
        dp = p[:, None] * Q - np.outer(p, p @ Q)
        dD = -k * ((self.MK * self.MK) @ dp - 2.0 * (self.MK @ p)[:, None] * (self.MK @ dp))
        dc = Q.T @ dD
        bend = Q.T @ ((e - p @ e)[:, None] * dp - np.outer(p, e @ dp)) + self.H @ dc
        return np.asarray(np.eye(len(M0)) + M0 @ self.H - 0.5 * (dc + k * M0 @ bend))


def _divide(c: Vector, M0: Matrix) -> Vector:
    """Return M0^-1 c; directions in which M0 is 0 to rounding, where nothing can be moved, are left out."""
    S = M0.copy()
    least, L, x = 1e-13 * max(float(np.diagonal(M0).max()), 0.0), np.zeros_like(M0), c.copy()
    for j in range(len(c)):
        pivot = S[j, j] - L[j, :j] @ L[j, :j]
        if pivot > least:
            L[j, j] = np.sqrt(pivot)
            L[j + 1 :, j] = (S[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
    for j in range(len(c)):
        x[j] = (x[j] - L[j, :j] @ x[:j]) / L[j, j] if L[j, j] else 0.0
    for j in reversed(range(len(c))):
        x[j] = (x[j] - L[j + 1 :, j] @ x[j + 1 :]) / L[j, j] if L[j, j] else 0.0
    return x


def least_loss(m0: Vector, M0: Matrix, Q: Matrix, copies: float = 1.0, label: Vector | None = None) -> Vector:
    """Return the v = copies (Q'p - label) at b = m0 - M0 v; `label` is a row of Q, or nothing.

    b minimises copies (ln sum exp - b.label) + |b - m0|^2 / 2 in the norm of M0^-1.
    """
    v, q = np.zeros(len(m0)), np.zeros(len(m0)) if label is None else label
    value = _convex_value(v, m0, M0, Q, copies, q)
    for _ in range(200):
        p = softmax(Q @ (m0 - M0 @ v))
        off = v - copies * (Q.T @ p - q)
        step = np.linalg.solve(np.eye(len(v)) + copies * _hessian(p, Q) @ M0, -off)
        close = bool(np.abs(step).max() <= 1e-8 * max(1.0, np.abs(v).max()))  # so close that one more step is exact
        length, fall = 1.0, abs(float((M0 @ off) @ step))
        for _ in range(30):
            there = _convex_value(v + length * step, m0, M0, Q, copies, q)
            if close or there <= value - 1e-6 * length * fall:
                break
            length *= 0.5
        v, value = v + length * step, there
        if close:
            break
    return v


def _convex_value(v: Vector, m0: Vector, M0: Matrix, Q: Matrix, copies: float, label: Vector) -> float:
    moved = M0 @ v
    b = m0 - moved
    a = Q @ b
    return float(copies * (a.max() + np.log(np.sum(np.exp(a - a.max()))) - label @ b) + 0.5 * v @ moved)


def _log_loss(a: Vector, label: int) -> float:
    return float(a.max() - a[label] + np.log(np.sum(np.exp(a - a.max()))))


def _settle(
    information: Matrix,
    covariance: Matrix,
    pull: Vector,
    leader: Vector,
    numbers: Vector,
    design: Matrix,
    P: Matrix,
    M0: Matrix,
    b: Vector,
    g: Vector,
    H: Matrix,
    beta: float,
    reg: float,
) -> None:
    """Add the round's quadratic g.(a - b) + |a - b|^2_H / 2; H and g include the round's weight and curvature."""
    n, m = len(pull), len(b)
    information[...] = beta * information + design.T @ H @ design
    pull[...] = beta * pull + design.T @ (H @ b - g)
    ridge = beta * numbers[N.RIDGE]
    least = max(SOFTMAX_LEAST_RIDGE * reg, SOFTMAX_LEAST_SHARE * float(np.diagonal(information).max()))
    leverage = float(np.max(np.diagonal(H) * np.diagonal(M0)))
    numbers[N.AGE] += 1.0
    if ridge < least or leverage > SOFTMAX_FRESH_LEVERAGE or numbers[N.AGE] >= SOFTMAX_FRESH_AGE:
        ridge = 2.0 * least if ridge < least else ridge
        covariance[...] = np.linalg.inv(information + ridge * np.eye(n))
        numbers[N.AGE] = 0.0
    else:
        B = _root(H)
        gain = np.linalg.solve(np.linalg.cholesky(np.eye(m) + B.T @ M0 @ B), B.T @ (design @ P))
        covariance[...] = P - gain.T @ gain
    numbers[N.RIDGE] = ridge
    leader[...] = covariance @ pull


def _root(H: Matrix) -> Matrix:
    """Return a lower triangular B with B B' = H; pivots that are 0 to rounding count as 0."""
    B, least = np.zeros_like(H), 1e-15 * max(float(np.diagonal(H).max()), 0.0)
    for j in range(len(H)):
        pivot = H[j, j] - B[j, :j] @ B[j, :j]
        if pivot > least:
            B[j, j] = np.sqrt(pivot)
            B[j + 1 :, j] = (H[j + 1 :, j] - B[j + 1 :, :j] @ B[j, :j]) / B[j, j]
    return B


def softmax(a: Vector) -> Vector:
    """Return e^a / sum(e^a)."""
    e = np.exp(a - a.max())
    return np.asarray(e / np.sum(e))


def _hessian(p: Vector, Q: Matrix) -> Matrix:
    """Return Q'(diag(p) - p p')Q, as a sum of squares around the mean."""
    around = Q - p @ Q
    return np.asarray((p[:, None] * around).T @ around)


def _design(z: Vector, m: int) -> Matrix:
    """Return the design (m, m d) of a row: one copy of the features (d,) for each coordinate."""
    return np.kron(np.eye(m), z)

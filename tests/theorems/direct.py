"""Learners straight from their definition, for the tests: slow, and sharing no code with the package."""

import math
from typing import NamedTuple

import numpy as np


class Run(NamedTuple):
    yhat: np.ndarray
    stability: np.ndarray
    potential: np.ndarray
    leaders: np.ndarray  # minimiser after each round


def vaw(Z, y, beta=1.0, reg=1.0, hint="zero"):
    """Solve the normal equations of the discounted VAW objective in every round."""
    T, d = Z.shape
    yhat, stability, leaders = np.zeros(T), np.zeros(T), np.zeros((T, d))
    A, r, last, least, c = reg * np.eye(d), np.zeros(d), 0.0, 0.0, 0.0
    for t in range(T):
        A, r, c = beta * A, beta * r, beta * c
        m = Z[t] @ np.linalg.solve(A, r)
        guess = {"zero": 0.0, "last": last, "ridge": m}[hint]
        full = A + np.outer(Z[t], Z[t])
        yhat[t] = Z[t] @ np.linalg.solve(full, r + guess * Z[t])
        A, r, c, last = full, r + y[t] * Z[t], c + 0.5 * y[t] ** 2, y[t]
        leaders[t] = np.linalg.solve(A, r)
        before, least = least, c - 0.5 * r @ leaders[t]  # the least value of the discounted objective
        stability[t] = 0.5 * (yhat[t] - y[t]) ** 2 - (least - beta * before)
    return Run(yhat, stability, reg * beta ** np.arange(1.0, T + 1), leaders)


def aioli(Z, y, beta=1.0, reg=1.0, bend=2.0):
    """Minimise the discounted AIOLI objective by damped Newton on x itself, in every round."""
    T, d = Z.shape
    yhat, stability, leaders = np.zeros(T), np.zeros(T), np.zeros((T, d))
    P, r, least, c = reg * np.eye(d), np.zeros(d), 0.0, 0.0
    for t in range(T):
        P, r, z, c = beta * P, beta * r, Z[t], beta * c
        x = np.linalg.solve(P, r)
        for _ in range(60):
            m = z @ x
            gradient = P @ x - r + np.tanh(0.5 * m) * z
            hessian = P + 0.5 / np.cosh(np.clip(0.5 * m, -300, 300)) ** 2 * np.outer(z, z)
            step, length = np.linalg.solve(hessian, gradient), 1.0

            def value(x, P=P, r=r, z=z):
                m = z @ x
                return 0.5 * x @ P @ x - r @ x + np.logaddexp(0, m) + np.logaddexp(0, -m)

            while value(x - length * step) > value(x) and length > 1e-8:
                length *= 0.5
            x = x - length * step
            if length * np.abs(step).max() < 1e-11 * (1 + np.abs(x).max()):
                break
        m = z @ x
        p, q = 1 / (1 + np.exp(-m)), 1 / (1 + np.exp(m))
        k = p * q / bend
        g, lost = -y[t] * (q if y[t] > 0 else p), np.logaddexp(0, -y[t] * m)
        P = P + k * np.outer(z, z)
        r, c = r + (k * m - g) * z, c + lost - g * m + 0.5 * k * m * m  # lost + g (z.u - m) + k (z.u - m)^2 / 2
        leaders[t] = np.linalg.solve(P, r)
        before, least = least, c - 0.5 * r @ leaders[t]
        yhat[t], stability[t] = m, lost - (least - beta * before)
    return Run(yhat, stability, reg * beta ** np.arange(1.0, T + 1), leaders)


def draw_design(rng, T, d, kind):
    """A random or adversarial design: dead, doubled, frozen, badly scaled, one-hot, silent."""
    Z = rng.normal(size=(T, d))
    if kind == "dead":
        Z[:, -1] = 0.0
    elif kind == "doubled":
        Z[:, -1] = Z[:, 0]
    elif kind == "frozen":
        Z[T // 4 :] = Z[T // 4]
    elif kind == "scaled":
        Z *= 10.0 ** rng.integers(-5, 6, size=d)
    elif kind == "one-hot":
        Z = np.eye(d)[rng.integers(d, size=T)]
    elif kind == "silent":
        Z[rng.random(T) < 0.8] = 0.0
    return Z


KINDS = ("random", "dead", "doubled", "frozen", "scaled", "one-hot", "silent")


def path(rng, T, d):
    """A comparator that stands still, jumps, or drifts."""
    kind = rng.integers(3)
    if kind == 0:
        return np.tile(rng.normal(size=d), (T, 1))
    if kind == 1:
        return np.repeat(rng.normal(size=(T, d)), rng.integers(1, 30), axis=0)[:T]
    return rng.normal(size=d) + np.cumsum(0.1 * rng.normal(size=(T, d)), axis=0)


def variation(Z, y, u, beta, loss, reg):
    """The discounted variation P_T^beta, term by term."""
    T, total = len(y), 0.0
    for t in range(1, T):
        mass = math.fsum(beta ** (t - s) for s in range(t + 1))
        terms = [beta**t * max(0.0, 0.5 * reg * (u[t] @ u[t] - u[t - 1] @ u[t - 1]))]
        for s in range(1, t + 1):
            z, label = Z[s - 1], y[s - 1]
            rise = float(loss.value(z @ u[t], label) - loss.value(z @ u[t - 1], label))
            terms.append(beta ** (t - s) * max(0.0, rise))
        total += math.fsum(terms) / mass
    return total

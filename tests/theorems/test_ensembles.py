"""mixable, logistic-ensemble, linear-ensemble: what the second layer costs, on ensembles from the definition."""

import math

import numpy as np
import pytest

from tests.theorems import direct
from undrift.errors import ConditionError
from undrift.losses import logistic, squared
from undrift.regret import dynamic_regret
from undrift.theory import bounds
from undrift.theory.regret_lemmas import mixable


def test_mixing_attains_mixability_with_equality():
    rng = np.random.default_rng(1)
    for _ in range(2000):
        yhat, p = rng.normal(size=5) * 10.0 ** rng.uniform(-2, 3), rng.dirichlet(np.full(5, 0.3))
        for y in (-1.0, 1.0):
            left, right = mixable(yhat, p, y)
            assert left == pytest.approx(right, rel=1e-12, abs=1e-14 + 1e-15 * np.abs(yhat).max())


def logistic_ensemble(Z, y, bound, radius):
    """Algorithm 1 over the corrected grid, with q in the log domain."""
    T, d = Z.shape
    price = d * (1 + bound * radius)
    low = math.sqrt(price / max(0.5, 2 * bound * radius))
    count = max(1, math.ceil(math.log2(d * T / low)) + 1)
    eta = low * 2.0 ** np.arange(count)
    runs = np.array([direct.aioli(Z, y, b, 1 / bound**2, 1 + bound * radius).yhat for b in eta / (1 + eta)])
    losses = logistic.value(runs, y)
    q = np.vstack([np.zeros(count), -np.cumsum(losses, axis=1).T[:-1]])
    p = np.exp(q - q.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    up, down = 1 / (1 + np.exp(-runs.T)), 1 / (1 + np.exp(runs.T))
    return np.log((p * up).sum(axis=1) / (p * down).sum(axis=1)), losses, count


def test_logistic_ensemble_is_covered():
    rng = np.random.default_rng(2)
    for _ in range(20):
        T, d, bound = int(rng.integers(2, 40)), int(rng.integers(1, 3)), float(10.0 ** rng.uniform(-1, 0.7))
        Z, u = direct.draw_design(rng, T, d, str(rng.choice(["random", "one-hot"]))), direct.path(rng, T, d)
        radius = float(np.linalg.norm(Z, axis=1).max())
        u = u * bound / np.linalg.norm(u, axis=1).max()
        y = np.where(np.sum(Z * u, axis=1) + 0.3 * rng.normal(size=T) > 0, 1.0, -1.0)
        yhat, losses, count = logistic_ensemble(Z, y, bound, radius)
        mine = logistic.value(yhat, y)
        assert mine.sum() - losses.sum(axis=1).min() <= math.log(count) + 1e-9
        form = bounds.logistic_ensemble(Z, y, u, bound=bound, radius=radius)
        assert form.mixing == pytest.approx(math.log(count))
        measured = dynamic_regret(mine, logistic.value(np.sum(Z * u, axis=1), y))
        assert measured <= form.total


def linear_ensemble(Z, y):
    """Range-clipped exponential weights over discounted VAW on the linear grid, and the learner that predicts 0."""
    T, d = Z.shape
    eta = [min(2.0 * d * 2**i, d * T) for i in range(bounds.linear_grid_size(T))]
    experts = np.array([*(direct.vaw(Z, y, e / (1 + e)).yhat for e in eta), np.zeros(T)])
    M, L, yhat = 0.0, np.zeros(len(experts)), np.zeros(T)
    for t in range(T):
        e = np.clip(experts[:, t], -M, M)
        weight = np.exp(-(L - L.min()) / (4 * M**2)) if M else np.ones(len(experts))
        yhat[t] = weight @ e / weight.sum()
        L += 0.5 * (e - np.clip(y[t], -M, M)) ** 2
        M = max(M, abs(y[t]))
    return yhat, experts


def test_linear_ensemble_is_covered():
    rng = np.random.default_rng(3)
    for _ in range(60):
        T, d = int(rng.integers(1, 50)), int(rng.integers(1, 4))
        Z, u = direct.draw_design(rng, T, d, str(rng.choice(["random", "one-hot", "silent"]))), direct.path(rng, T, d)
        y = np.sum(Z * u, axis=1) + rng.normal(size=T) * rng.choice([0.0, 1.0])
        yhat, experts = linear_ensemble(Z, y)
        mine, top = squared.value(yhat, y), np.max(y * y)
        best = squared.value(experts, y).sum(axis=1).min()
        assert mine.sum() - best <= top * (4 * math.log(len(experts)) + 1.5) * (1 + 1e-9)
        form = bounds.linear_ensemble(Z, y, u)
        measured = dynamic_regret(mine, squared.value(np.sum(Z * u, axis=1), y))
        assert measured <= form.total * (1 + 1e-9)


def test_printed_grid_of_the_logistic_ensemble_would_be_empty():
    bound, radius, d, T = 1e-4, 1.0, 1, 10
    low = math.sqrt(d * (1 + bound * radius) / (max(1.0, 2 * radius) * bound))
    assert math.ceil(math.log2(d * T / low)) + 1 < 1
    form = bounds.logistic_ensemble([[1.0]] * T, [1] * T, [bound], bound=bound, radius=radius)
    assert form.mixing >= 0.0


def test_ensemble_bounds_say_what_is_wrong():
    with pytest.raises(ConditionError, match=r"bounds.logistic_ensemble: every row must have norm <= radius = 0.5"):
        bounds.logistic_ensemble([[1.0]], [1], [0.1], bound=1.0, radius=0.5)
    with pytest.raises(ValueError, match=r"bounds.linear_ensemble: experts must be an integer >= 1, got 0"):
        bounds.linear_ensemble([[1.0]], [1.0], [0.1], experts=0)

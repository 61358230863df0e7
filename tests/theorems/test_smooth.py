"""smooth: (c, epsilon)-stationarity of smooth functions, with the constants 5/4 and 1 (Lemma 5; printed: 2 and 2)."""

import numpy as np
import pytest

from undrift.theory import adam_lemmas as lemmas


def cloud(rng, d):
    n = int(rng.integers(1, 8))
    points = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 1)
    weights = rng.dirichlet(np.ones(n))
    return points, weights, weights @ points


def test_smooth_functions():
    rng = np.random.default_rng(0)
    for _ in range(500):
        d = int(rng.integers(1, 4))
        points, weights, x = cloud(rng, d)
        H = rng.normal(size=(d, d))
        H = (H + H.T) / 2
        a, w, size = rng.normal(size=d), rng.normal(size=d), rng.random()

        def gradient(y, H=H, a=a, w=w, size=size):
            return y @ H + a + size * np.sin(y @ w)[..., None] * w

        L = np.abs(np.linalg.eigvalsh(H)).max() + size * (w @ w)
        sides = lemmas.smooth(gradient(x[None])[0], gradient(points), weights, points, x, L)
        assert sides.left <= sides.right * (1 + 1e-12)


def test_five_quarters_is_reached():
    """One dimension, slope min(L |y|, ...): two points at distance epsilon / (2 L)."""
    L, epsilon = 2.0, 1.0
    s = epsilon / (2 * L)
    at, gradients = np.array([1.25]), np.array([[1.25 - L * s], [1.25 - L * s]])  # a kink in the gradient at x
    sides = lemmas.smooth(at, gradients, np.array([0.5, 0.5]), np.array([[-s], [s]]), np.zeros(1), L)
    assert sides.right == pytest.approx(1.25 * epsilon, rel=1e-12)
    assert sides.left == pytest.approx(sides.right, rel=1e-12)


def test_second_order_smooth_functions():
    rng = np.random.default_rng(1)
    for _ in range(500):
        d = int(rng.integers(1, 4))
        points, weights, x = cloud(rng, d)
        A, a, size = rng.normal(size=(d, d)), rng.normal(size=d), rng.normal()

        def gradient(y, A=A, a=a, size=size):
            return y @ (A + A.T) + a + size * np.abs(y) * y / 2  # Hessian changes by |size| per unit, coordinatewise

        sides = lemmas.second_order_smooth(gradient(x[None])[0], gradient(points), weights, points, x, abs(size))
        assert sides.left <= sides.right * (1 + 1e-12) + 1e-12


def test_one_is_reached_by_a_cubic():
    points, weights = np.array([[-1.0], [1.0]]), np.array([0.5, 0.5])
    gradients = -(points**2) / 2  # F = -y^3 / 6, Hessian 1-Lipschitz; add 1 so that the mean is 1/2
    sides = lemmas.second_order_smooth(np.array([1.0]), gradients + 1.0, weights, points, np.zeros(1), 1.0)
    assert sides.left == pytest.approx(sides.right, rel=1e-15)

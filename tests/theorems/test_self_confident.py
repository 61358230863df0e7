"""self-confident: sums of a_t over roots of their own averages (Lemmas 9, 10, 23, 24)."""

import math

import numpy as np
import pytest

from undrift.theory import adam_lemmas as lemmas


def sequences(rng, n):
    """Random ones, and the ones that hurt: a burst after silence, a spike, geometric growth, zeros."""
    yield rng.random(n)
    yield rng.random(n) * (rng.random(n) < 0.1)
    yield np.where(np.arange(n) < n // 2, 0.0, 1.0)
    yield np.eye(1, n, n - 1)[0]
    yield np.minimum(1.0, 1e-8 * 4.0 ** np.arange(n))
    yield np.zeros(n)


@pytest.mark.parametrize("lagged", [True, False])
def test_moving_average_sums_stay_below_their_bound(lagged):
    rng = np.random.default_rng(0)
    tightest = 0.0
    for _ in range(100):
        gap, damping = 10.0 ** rng.uniform(-4, -0.01), 10.0 ** rng.uniform(-6, 1)
        for a in sequences(rng, int(rng.integers(1, 300))):
            sides = lemmas.ema_self_confident(a * 10.0 ** rng.uniform(-3, 3), gap, damping, lagged=lagged)
            assert sides.left <= sides.right * (1 + 1e-12)
            tightest = max(tightest, sides.left / sides.right if sides.right else 0.0)
    assert tightest > 0.3  # the instances come near the bound


def test_the_lagged_sum_needs_its_extra_term():
    a = np.eye(1, 50, 49)[0] * 1e4  # silence, then a spike: V_{t-1} = 0
    sides = lemmas.ema_self_confident(a, 0.01, 1e-3, lagged=True)
    assert sides.left == pytest.approx(1e4 / 1e-3)
    assert sides.left > lemmas.ema_self_confident(a, 0.01, 1e-3, lagged=False).right


def test_overflowing_factor_is_infinite_not_an_error():
    assert lemmas.ema_self_confident(np.ones(3), 1 - 1 / 4096, 1.0, lagged=True).right == math.inf
    assert lemmas.ema_self_confident(np.zeros(3), 1 - 1 / 4096, 1.0, lagged=True).right == 0.0


def test_self_confident_sums():
    rng = np.random.default_rng(3)
    for _ in range(100):
        start = 10.0 ** rng.uniform(-6, 2)
        for a in sequences(rng, int(rng.integers(1, 200))):
            for delta in (0.0, start):
                sides = lemmas.self_confident(a, delta)
                assert sides.left <= sides.right * (1 + 1e-12)
            root = lemmas.self_confident_integral(
                a, start, lambda x: 1 / math.sqrt(x), lambda x, y: 2 * (math.sqrt(y) - math.sqrt(x))
            )
            inverse = lemmas.self_confident_integral(a, start, lambda x: 1 / x, lambda x, y: math.log(y / x))
            for sides in (root, inverse):
                assert sides.left <= sides.right * (1 + 1e-12) + 1e-13


def test_self_confident_is_tight_for_many_small_terms():
    sides = lemmas.self_confident(np.full(10**6, 1e-6), 1.0)
    assert sides.left == pytest.approx(sides.right, rel=1e-6)

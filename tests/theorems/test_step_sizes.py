"""step-sizes: how fast Adam's step sizes can change (Lemmas 11, 12, 13)."""

import numpy as np
import pytest

from undrift.theory import adam_lemmas as lemmas


def squares(rng, n):
    return rng.choice([0.0, 1.0, 1e-6, 1e6], size=n) * rng.random(n)


def test_growth_is_bounded_and_the_bound_is_reached_in_silence():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n, gap1, gap2 = int(rng.integers(1, 40)), rng.random(), rng.random()
        floors = np.cumsum(rng.random(n + 1))
        for sides in lemmas.step_growth(squares(rng, n), gap1, gap2, floors):
            assert sides.left <= sides.right * (1 + 1e-12) + 1e-13 * floors[-1]
    silence = lemmas.step_growth(np.array([4.0, 0.0, 0.0]), 0.1, 0.7, np.zeros(4))
    for sides in silence[1:]:
        assert sides.left == pytest.approx(sides.right, rel=1e-12)
        assert sides.left > 0.0


@pytest.mark.parametrize("gap1", [1e-12, 1e-6, 0.1, 0.7])
def test_the_sum_of_changes_is_an_equality(gap1):
    rng = np.random.default_rng(1)
    for _ in range(100):
        a, gap2 = squares(rng, int(rng.integers(1, 60))), rng.random()
        sides = lemmas.step_sum(a, gap1, gap2, 10.0 ** rng.uniform(-3, 3), rng.random(), rng.random() * rng.integers(2))
        assert sides.left == pytest.approx(sides.right, rel=1e-9)


def test_the_deviation_times_the_momentum_is_bounded():
    rng = np.random.default_rng(2)
    tightest = 0.0
    for _ in range(200):
        gap1 = 10.0 ** rng.uniform(-8, -0.1)
        gap2 = rng.uniform(0.01, 0.99) * gap1 * (2 - gap1)
        g = rng.normal(size=(int(rng.integers(2, 40)), 3)) * 10.0 ** rng.uniform(-3, 3)
        if rng.random() < 0.5:
            g[:] = g[0]  # all gradients alike: momentum is as long as it can be
        sides = lemmas.step_change(g, gap1, gap2, 10.0 ** rng.uniform(-3, 3), 1e-9, rng.random() * rng.integers(2))
        for one in sides:
            assert one.left <= one.right * (1 + 1e-9)
            tightest = max(tightest, one.left / one.right)
    assert tightest > 0.5

"""discounted-potential and abel-sum: sums of leverages and of moving averages."""

import numpy as np
import pytest

from tests.theorems import direct
from undrift._internal.discount import Discount
from undrift.theory.regret_lemmas import abel_sum, discounted_potential


def test_weighted_leverages_stay_below_the_corrected_bound():
    rng = np.random.default_rng(1)
    for _ in range(300):
        T, d = int(rng.integers(1, 60)), int(rng.integers(1, 4))
        Z = direct.draw_design(rng, T, d, str(rng.choice(["random", "one-hot", "silent", "scaled"])))
        c = rng.normal(size=T) * (rng.random(T) < rng.choice([0.1, 1.0]))
        left, right = discounted_potential(Z, c, beta=float(rng.uniform(0.2, 1.0)), reg=10.0 ** rng.uniform(-2, 2))
        assert left <= right * (1 + 1e-10)


def test_printed_bound_is_refuted_by_rare_rounds():
    z = np.zeros(10_000)
    z[99::100] = 1.0
    left, right = discounted_potential(z[:, None], z, beta=0.9, printed=True)
    assert left == pytest.approx(99.997, abs=1e-3)
    assert right == pytest.approx(11.229, abs=1e-3)
    assert left <= discounted_potential(z[:, None], z, beta=0.9).right


def test_the_bound_is_approached_as_one_dimension_stays_excited():
    # d = 1, c = 1, z = 1: both sides are sums of log-determinant steps; x <= -ln(1 - x) is all that is given away
    left, right = discounted_potential(np.ones((5000, 1)), np.ones(5000), beta=0.9999, reg=100.0)
    assert left == pytest.approx(right, rel=0.01)
    assert left <= right


@pytest.mark.parametrize("beta", [0.01, 0.5, 0.999, 1.0])
def test_abel_summation_is_an_identity(beta):
    rng = np.random.default_rng(2)
    for _ in range(100):
        a = rng.normal(size=int(rng.integers(1, 200))) * 10.0 ** rng.uniform(-5, 5)
        left, right = abel_sum(a, beta)
        assert abs(left - right) <= 1e-14 * np.abs(a).sum()


def test_abel_summation_keeps_a_gap_that_beta_cannot_hold():
    left, right = abel_sum(np.ones(1000), Discount(1.0, 1e-18))
    assert right == pytest.approx(1e-18 * 1000 * 1001 / 2, rel=1e-12)
    assert left == pytest.approx(right, rel=1e-12)

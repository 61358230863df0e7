"""A discount factor and the numbers that go with it."""

import math

import mpmath as mp
import numpy as np
import pytest

from undrift._internal.discount import Discount, discounted_sums, from_eta, make_discount
from undrift.errors import InputError


def test_gap_is_exact_for_very_long_memories():
    d = make_discount("x", None, 1e15)
    assert d.one_minus_beta == pytest.approx(math.log(2) / 1e15, rel=1e-15)
    assert d.half_life == pytest.approx(1e15, rel=1e-15)


def test_eta_round_trips():
    for eta in (1e-3, 1.0, 1e9, 1e15):
        assert from_eta(eta).eta == pytest.approx(eta, rel=1e-15)
    assert from_eta(math.inf).half_life == math.inf


SHORT = [0.6, 0.4, 1e-3, 1e-12, 1e-13, 1e-17, 1e-300, 5e-324]


@pytest.mark.parametrize("beta", [*SHORT, 1e-10, 1e-5, 0.01])
def test_the_shortest_memories_are_exact_too(beta):
    d = make_discount("x", beta, None)
    rounds = np.arange(4)
    with mp.workdps(400):
        exact = [mp.mpf(beta) ** int(t) for t in rounds]
        assert d.rate == pytest.approx(float(-mp.log(mp.mpf(beta))), rel=1e-15)
        assert d.half_life == pytest.approx(float(mp.log(2) / -mp.log(mp.mpf(beta))), rel=1e-15)
        for scale in (1.0, 1e140):
            want = [float(scale * x) for x in exact]
            np.testing.assert_allclose(scale * d.power(rounds), want, rtol=1e-12, atol=1e-180)
            np.testing.assert_allclose(d.potential(scale, 0, 3), want[1:], rtol=1e-12, atol=1e-180)


@pytest.mark.parametrize("half_life", [0.02, 0.05, 0.9, 1.0, 1.1])
def test_a_short_half_life_gives_its_beta_to_the_last_digits(half_life):
    with mp.workdps(50):
        assert make_discount("x", None, half_life).beta == pytest.approx(
            float(mp.mpf(2) ** (-1 / mp.mpf(half_life))), rel=1e-14
        )


@pytest.mark.parametrize("bad", [0.0, -1.0, 1.5, math.nan, "a", None, True])
def test_beta_outside_the_interval_is_refused(bad):
    with pytest.raises(InputError, match=r"^x: beta must be"):
        make_discount("x", bad, None)


def test_no_memory_at_all_forgets_at_once():
    d = Discount(0.0, 1.0)
    assert (d.rate, d.half_life) == (math.inf, 0.0)


def test_discounted_sums_are_their_recursion_across_blocks():
    rng = np.random.default_rng(1)
    values, rates = rng.normal(size=(400, 2)), rng.exponential(size=400) * 0.02
    before = rng.normal(size=2)
    total, want = before, []
    for value, rate in zip(values, rates, strict=True):
        total = math.exp(-rate) * total + value
        want.append(total)
    np.testing.assert_allclose(discounted_sums(values, rates, before), want, rtol=1e-11)

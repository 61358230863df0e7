"""A comparator that moves in every round: blocks bracket what every move by itself gives, and cost far less."""

import math

import numpy as np
import pytest

from undrift._internal.discount import Discount
from undrift.learners import DiscountedAIOLI
from undrift.losses import logistic
from undrift.regret import certify, remembered


def paths(rng, T, d):
    """Comparators that drift slowly, drift fast, jump at random, and move at the very ends only."""
    yield np.cumsum(rng.normal(scale=1e-2, size=(T, d)), axis=0)
    yield np.cumsum(rng.normal(scale=0.3, size=(T, d)), axis=0)
    yield rng.normal(size=(T, d))
    still = np.tile(rng.normal(size=d), (T, 1))
    still[0] += 1.0
    still[-1] -= 2.0
    yield still


def by_definition(Z, y, u, beta):
    """(1 - beta) sum_t sum_{s<=t} beta^(t-s) f_s(u_t) + beta sum_s beta^(T-s) f_s(u_T), pair by pair."""
    losses = logistic.value(u @ Z.T, y)  # [t, s]
    sums = [sum(beta ** (t - s) * losses[t, s] for s in range(t + 1)) for t in range(len(y))]
    return math.fsum((1.0 - beta) * one for one in sums) + beta * sums[-1]


def test_stretches_are_the_sum_over_pairs_of_rounds():
    rng = np.random.default_rng(5)
    for beta in (1e-9, 0.3, 0.97, 1.0):
        for T in (1, 2, 40):
            Z, y = rng.normal(size=(T, 2)), np.sign(rng.normal(size=T))
            for u in (*paths(rng, T, 2), np.repeat(rng.normal(size=(5, 2)), 8, axis=0)[:T]):
                got = remembered.remembered_loss(Z, y, u, Discount(beta, 1.0 - beta), logistic)
                assert got.value == pytest.approx(by_definition(Z, y, u, beta), rel=1e-12)
                assert 0.0 <= got.error <= 1e-14 * got.value


@pytest.mark.parametrize("beta", [0.02, 0.5, 0.9, 0.99, 0.9999, 1.0])
def test_blocks_bracket_the_sum_over_pairs_of_rounds(beta, monkeypatch):
    monkeypatch.setattr(remembered, "CHEAP", 0)
    rng = np.random.default_rng(0)
    discount, stated = Discount(beta, 1.0 - beta), 0
    for affordable in (0, 1 << 28):
        monkeypatch.setattr(remembered, "AFFORDABLE", affordable)
        for T in (2, 3, 4, 7, 50, 301):
            d = int(rng.integers(1, 4))
            Z, y = rng.normal(size=(T, d)) * 10.0 ** rng.uniform(-2, 1), np.sign(rng.normal(size=T))
            for u in paths(rng, T, d):
                exact = by_definition(Z, y, u, beta)
                got = remembered.remembered_loss(Z, y, u, discount, logistic)
                room = 1e-12 * float(np.logaddexp(0.0, np.abs(Z @ u.T)).sum())
                assert got.value - room <= exact <= got.value + got.error + room
                stated += got.error > room
    assert (stated > 0) == (beta < 1.0)


def test_certificates_of_long_runs_state_the_error_and_hold(monkeypatch):
    rng = np.random.default_rng(1)
    T, d = 3000, 3
    Z = rng.normal(size=(T, d))
    u = np.cumsum(rng.normal(scale=0.02, size=(T, d)), axis=0)
    y = np.where(np.sum(Z * u, axis=1) + rng.logistic(size=T) > 0, 1.0, -1.0)
    for beta in (0.9, 0.99, 1.0):
        learner = DiscountedAIOLI(beta=beta, bound=float(np.abs(u @ Z.T).max()))
        trace = learner.clone().play(Z, y)
        rough = certify(learner, Z, y, trace, u)
        with monkeypatch.context() as patch:
            patch.setattr(remembered, "CHEAP", 1 << 40)
            exact = certify(learner, Z, y, trace, u)
        assert exact.holds
        assert rough.holds
        assert exact.variation <= rough.variation + 1e-9
        assert rough.variation - exact.variation <= rough.variation_error + 1e-9
        assert rough.variation_error <= remembered.SHARE * rough.comparator_loss * 1.001
        assert (rough.variation_error > 0.0) == (beta < 1.0)

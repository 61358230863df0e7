"""A comparator that moves in every round: blocks bracket what every move by itself gives, and cost far less."""

import math

import numpy as np
import pytest

from undrift.discount import Discount
from undrift.learners import DiscountedAIOLI
from undrift.losses import logistic
from undrift.regret import blocked_moves, certify
from undrift.regret._input import moves
from undrift.regret.past_losses import jumps


def paths(rng, T, d):
    """Comparators that drift slowly, drift fast, jump at random, and move at the very ends only."""
    yield np.cumsum(rng.normal(scale=1e-2, size=(T, d)), axis=0)
    yield np.cumsum(rng.normal(scale=0.3, size=(T, d)), axis=0)
    yield rng.normal(size=(T, d))
    still = np.tile(rng.normal(size=d), (T, 1))
    still[0] += 1.0
    still[-1] -= 2.0
    yield still


@pytest.mark.parametrize("beta", [0.02, 0.5, 0.9, 0.99, 0.9999, 1.0])
def test_blocks_bracket_the_sum_over_moves(beta, monkeypatch):
    monkeypatch.setattr(blocked_moves, "CHEAP", 0)
    rng = np.random.default_rng(0)
    discount, stated = Discount(beta, 1.0 - beta), 0
    for affordable in (0, 1 << 28):
        monkeypatch.setattr(blocked_moves, "AFFORDABLE", affordable)
        for T in (2, 3, 4, 7, 50, 301):
            d = int(rng.integers(1, 4))
            Z, y = rng.normal(size=(T, d)) * 10.0 ** rng.uniform(-2, 1), np.sign(rng.normal(size=T))
            for u in paths(rng, T, d):
                at = moves(u)
                exact = math.fsum(jumps(Z, y, u, at, discount, logistic, window=T).values.tolist())
                got = blocked_moves.moves_total(Z, y, u, at, discount, logistic)
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
            patch.setattr(blocked_moves, "CHEAP", 1 << 40)
            exact = certify(learner, Z, y, trace, u)
        assert exact.holds
        assert rough.holds
        assert exact.variation <= rough.variation + 1e-9
        assert rough.variation - exact.variation <= rough.variation_error + 1e-9
        assert rough.variation_error <= blocked_moves.SHARE * rough.comparator_loss * 1.001
        assert (rough.variation_error > 0.0) == (beta < 1.0)

"""variation: P_T^beta is the sum it stands for, what it bounds, and the memory that balances it."""

import math

import numpy as np
import pytest

from tests.theorems import direct
from undrift._internal.discount import Discount, from_eta
from undrift.losses import logistic, squared
from undrift.regret import beta_star, discounted_variation, path_length
from undrift.theory.regret_lemmas import changed_beta


@pytest.mark.parametrize("loss", [squared, logistic], ids=lambda loss: loss.name)
@pytest.mark.parametrize("beta", [0.3, 0.9, 1.0])
def test_it_is_the_sum_of_its_definition(loss, beta):
    rng = np.random.default_rng(2)
    for _ in range(15):
        T, d = int(rng.integers(1, 25)), int(rng.integers(1, 4))
        Z, u = rng.normal(size=(T, d)), direct.path(rng, T, d)
        y = np.sign(rng.normal(size=T))
        got = discounted_variation(Z, y, u, beta, loss, reg=0.7)
        assert got.error == 0.0
        assert got.value == pytest.approx(direct.variation(Z, y, u, beta, loss, 0.7), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("loss", [squared, logistic], ids=lambda loss: loss.name)
def test_a_window_states_how_much_it_may_have_missed(loss):
    rng = np.random.default_rng(4)
    missed = 0
    for _ in range(60):
        T, d, beta = int(rng.integers(2, 80)), int(rng.integers(1, 4)), float(rng.choice([0.5, 0.9, 0.99, 1.0]))
        Z, u, y = rng.normal(size=(T, d)), direct.path(rng, T, d), np.sign(rng.normal(size=T))
        whole = discounted_variation(Z, y, u, beta, loss).value
        part = discounted_variation(Z, y, u, beta, loss, window=int(rng.integers(1, 20)))
        assert part.value * (1 - 1e-12) <= whole <= (part.value + part.error) * (1 + 1e-12)
        missed += part.value < whole * (1 - 1e-9)
    assert missed > 10


@pytest.mark.parametrize("beta", [0.5, 0.9, 1.0])
def test_what_a_window_left_out_is_reached_by_losses_as_steep_as_they_may_be(beta):
    """Rows all alike, labels far below, one last move: every loss left out rises by as much as the error says."""
    T, window = 30, 5
    Z, y = np.ones((T, 1)), np.full(T, -4.0)
    u = np.vstack([np.ones((T - 1, 1)), 3.0 * np.ones((1, 1))])
    whole = discounted_variation(Z, y, u, beta, reg=0.0).value
    part = discounted_variation(Z, y, u, beta, reg=0.0, window=window)
    assert part.value + part.error == pytest.approx(whole, rel=1e-12)


def test_windows_forget_geometrically():
    rng = np.random.default_rng(6)
    Z, y, u = rng.normal(size=(400, 2)), rng.normal(size=400), np.cumsum(rng.normal(size=(400, 2)), axis=0)
    errors = [discounted_variation(Z, y, u, 0.9, window=w).error for w in (50, 100, 200)]
    assert errors[1] <= 0.9**50 * errors[0] * 1.0001
    assert errors[2] <= 0.9**100 * errors[1] * 1.0001


def test_a_lipschitz_constant_bounds_it_when_it_covers_the_regulariser():
    rng = np.random.default_rng(8)
    for _ in range(100):
        T, d, reg = 30, 2, 10.0 ** rng.uniform(-2, 1)
        Z, u, y = rng.normal(size=(T, d)), direct.path(rng, T, d), np.sign(rng.normal(size=T))
        reach = max(np.linalg.norm(Z, axis=1).max(), reg * np.linalg.norm(u, axis=1).max())
        value = discounted_variation(Z, y, u, 0.9, logistic, reg=reg).value
        assert value <= reach * path_length(u) * (1 + 1e-12)


def test_printed_remark_needs_the_regulariser_to_be_lipschitz_too():
    Z, y, u = np.full((2, 1), 1e-3), np.ones(2), np.array([[0.0], [100.0]])
    lipschitz_of_the_losses = 1e-3
    value = discounted_variation(Z, y, u, 0.9, logistic, reg=1.0).value
    assert value > 1e3 * lipschitz_of_the_losses * path_length(u)


@pytest.mark.parametrize("loss", [squared, logistic], ids=lambda loss: loss.name)
def test_moves_under_a_shorter_memory_cost_at_most_the_variation_under_a_longer_one(loss):
    rng = np.random.default_rng(10)
    for _ in range(300):
        T, d = int(rng.integers(1, 40)), int(rng.integers(1, 4))
        beta = float(rng.uniform(0.05, 0.98))
        gamma = float(rng.choice([beta, rng.uniform(beta, 0.99)]))
        Z, u, y = rng.normal(size=(T, d)), direct.path(rng, T, d), np.sign(rng.normal(size=T))
        left, right = changed_beta(Z, y, u, beta=beta, gamma=gamma, loss=loss, reg=float(rng.exponential()))
        assert left <= right + 1e-12 * (abs(left) + right)


def test_a_single_move_that_every_past_loss_dislikes_is_tight_up_to_the_normalisation():
    # gamma = beta, one move after many rounds, all differences positive: only 1 - beta^(t+1) < 1 is given away
    Z, y = np.ones((60, 1)), np.zeros(60)
    u = np.vstack([np.zeros((59, 1)), np.ones((1, 1))])
    left, right = changed_beta(Z, y, u, beta=0.5, gamma=0.5)
    assert left == pytest.approx(right, rel=1e-15)


def test_beta_star_solves_its_equation():
    rng = np.random.default_rng(12)
    Z, y, u = rng.normal(size=(60, 2)), rng.normal(size=60), direct.path(rng, 60, 2) + np.arange(60)[:, None] // 20
    budget = 60 * np.max(y * y)

    def variation(d):
        return discounted_variation(Z, y, u, d).value

    best = beta_star(variation, budget)
    p = variation(best)
    assert best.beta == pytest.approx(math.sqrt(budget) / (math.sqrt(budget) + math.sqrt(p)), rel=1e-10)
    assert best.one_minus_beta == pytest.approx(math.sqrt(p) / (math.sqrt(budget) + math.sqrt(p)), rel=1e-9)


@pytest.mark.parametrize("power", [-40, -5, 0, 5, 40])
def test_beta_star_is_exact_at_every_scale(power):
    best = beta_star(lambda d: 1.0, 10.0 ** (2 * power))
    assert best.eta == pytest.approx(10.0**power, rel=1e-9)
    assert beta_star(lambda d: 0.0, 1.0) == Discount(1.0, 0.0)
    assert beta_star(
        lambda d: 1.0 if d.one_minus_beta < from_eta(1.0).one_minus_beta else 0.0, 1e-6
    ).eta == pytest.approx(1.0, rel=1e-9)

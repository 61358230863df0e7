"""The four ways in which certificates once were below the regret, and what the terms must add up to."""

from dataclasses import replace

import numpy as np
import pytest

from undrift.learners import DiscountedAIOLI, DiscountedVAW, DriftVAW, drift
from undrift.learners.information import _restart_cost
from undrift.losses import squared
from undrift.regret import Template, certify, hindsight
from undrift.regret.hindsight import path_leaf
from undrift.regret.quadratic import quadratic_values, squared_losses
from undrift.template import Observations


def test_a_comparator_that_comes_back_from_far_away_is_not_lost_in_rounding():
    Z, y = np.array([[1e-8], [1.0], [1.0]]), np.array([-1.92, -1.11, -0.01])
    learner, u = DiscountedVAW(beta=1.0), y[:, None] / Z
    cert = certify(learner, Z, y, learner.clone().play(Z, y), u)
    assert cert.regret == pytest.approx(2.524, abs=1e-3)
    assert cert.regret <= cert.bound < 3.0  # four terms of 1e16 said 0.308
    assert cert.scale < 10.0  # the tolerance is a share of what is summed, not of what cancels
    assert cert.holds


def test_the_learners_own_leader_on_features_that_are_nearly_the_same():
    rng = np.random.default_rng(0)
    for _ in range(100):
        T = int(rng.integers(5, 60))
        z = rng.normal(size=T)
        Z, y = np.column_stack([z, z * (1.0 + 1e-12 * rng.normal(size=T))]), 10.0 * rng.normal(size=T)
        learner = DiscountedVAW(beta=0.5)
        trace = learner.play(Z, y)
        cert = certify(learner.clone(), Z, y, trace, learner.coef)
        assert cert.slack >= -1e-12 * cert.scale


@pytest.mark.parametrize("beta", [0.9, 0.999, 1.0])
def test_residuals_that_were_dropped_as_rounding_are_priced(beta):
    rng = np.random.default_rng(1)
    for _ in range(60):
        T, apart = int(rng.integers(20, 200)), 10.0 ** rng.uniform(-14, -9)
        z = rng.normal(size=T)
        Z = np.column_stack([z, z * (1.0 + apart * rng.normal(size=T))])
        u = np.array([1.0, -1.0]) / apart
        y = Z @ u
        learner = DiscountedVAW(beta=beta, reg=2e-21)
        cert = certify(learner, Z, y, learner.clone().play(Z, y), u)
        assert cert.slack >= -1e-12 * cert.scale


def test_dropped_residuals_of_logistic_rounds_are_priced():
    rng = np.random.default_rng(2)
    for _ in range(60):
        T, apart = int(rng.integers(20, 200)), 10.0 ** rng.uniform(-14, -9)
        z = rng.normal(size=T)
        Z = np.column_stack([z, z * (1.0 + apart * rng.normal(size=T))])
        u = 3.0 * np.array([1.0, -1.0]) / (apart * max(1.0, np.abs(Z @ [1.0, -1.0]).max() / apart))
        y = np.where(Z @ u > 0.0, 1.0, -1.0)
        learner = DiscountedAIOLI(beta=float(rng.choice([0.9, 1.0])), reg=2e-21, bound=4.0)
        cert = certify(learner, Z, y, learner.clone().play(Z, y), u)
        assert cert.slack >= -1e-12 * cert.scale


def test_on_ordinary_runs_the_terms_add_up_to_the_bound_and_are_what_they_are_called():
    rng = np.random.default_rng(3)
    for _ in range(100):
        T, d, beta = int(rng.integers(2, 40)), int(rng.integers(1, 4)), float(rng.choice([0.3, 0.9, 1.0]))
        Z, u, y = rng.normal(size=(T, d)), rng.normal(size=(T, d)), rng.normal(size=T)
        learner = DiscountedVAW(beta=beta, reg=0.5)
        cert = certify(learner, Z, y, learner.clone().play(Z, y), u)

        def F(t, point, Z=Z, y=y, beta=beta):
            past = sum(beta ** (t - s) * squared.value(Z[s] @ point, y[s]) for s in range(t + 1))
            return 0.25 * beta ** (t + 1) * point @ point + past

        variation = beta * sum(F(t, u[t + 1]) - F(t, u[t]) for t in range(T - 1))
        total = cert.start + cert.stability + cert.variation + cert.potential_drift
        assert cert.start == pytest.approx(0.25 * beta * u[0] @ u[0], rel=1e-12)
        assert cert.variation == pytest.approx(variation, abs=1e-11 * cert.scale)
        assert cert.bound == pytest.approx(total, abs=1e-13 * cert.scale)
        assert cert.bound - cert.regret == pytest.approx(cert.slack, abs=1e-13 * cert.scale)
        assert cert.rounding <= 1e-12 * cert.scale


@pytest.mark.parametrize("beta", [0.05, 0.9, 0.9999, 1.0])
def test_past_squares_at_present_comparators_are_those_of_the_definition(beta):
    rng = np.random.default_rng(4)
    T, d = 300, 3
    Z, y, u = rng.normal(size=(T, d)), rng.normal(size=T), rng.normal(size=(T, d))
    u[60:200] = u[60]
    got = quadratic_values(squared_losses(Z, y), u, np.full(T, -np.log(beta)))
    want = [sum(beta ** (t - s) * squared.value(Z[s] @ u[t], y[s]) for s in range(t + 1)) for t in range(T)]
    np.testing.assert_allclose(got, want, rtol=1e-12)
    seen = Observations(np.arange(T), Z, y, rng.exponential(size=T))
    got = quadratic_values(seen, u, np.full(T, -np.log(beta)))
    want = [
        sum(seen.weight[s] * beta ** (t - s) * squared.value(Z[s] @ u[t], y[s]) for s in range(t + 1)) for t in range(T)
    ]
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_prices_that_lost_digits_are_made_up_for():
    """Whatever a `DriftVAW` rounds: the prices of its rounds are held against what every path pays at least."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        Z, y = rng.normal(size=(12, 3)), rng.normal(size=12)
        learner = DriftVAW(1e15, reg=1e-10, hint="ridge")
        trace = learner.play(Z, y)
        short = replace(trace, stability=trace.stability * (1.0 - 1e-8))
        whole = learner.clone().template(Z, y)
        bare = Template(1.0, movement=whole.movement, loss=whole.loss)
        cert, wrong = (certify(promise, Z, y, short, learner.coef) for promise in (whole, bare))
        assert wrong.slack < -1e-10 * wrong.scale
        assert cert.slack >= -1e-12 * cert.scale
        assert certify(whole, Z, y, trace, learner.coef).rounding <= 1e-8 * cert.scale


def test_ordinary_runs_lose_no_digits():
    rng = np.random.default_rng(5)
    Z, y = rng.normal(size=(3000, 5)), rng.normal(size=3000)
    for tau in (1e-3, 1.0, 1e6):
        cert = certify(DriftVAW(tau), Z, y, u=np.zeros(5))
        assert cert.rounding <= 1e-12 * cert.scale
    assert DriftVAW(1.0).template(Z[:0], y[:0]).least_cost == 0.0


def test_sums_that_cancel_are_not_taken_at_their_rounded_value():
    """1e16 + 1 - 1e16 is 0 in float64, and 1: lower bounds must pay for the 1."""
    Z, s = np.ones((3, 1)), np.array([1e16, 1.0, -1e16])
    leaf = path_leaf(Z, -s, np.zeros((3, 1)), squared)  # slopes at 0 are s
    assert leaf.trace.stability[0] >= 0.5 / leaf.trace.potential[0]
    assert hindsight._length(np.zeros(1), s[:, None]) >= 1.0
    nothing = np.zeros(3)
    run = drift._DriftRun(Z, nothing, nothing, nothing, Z, np.array([0]))
    dear = np.array([1e34, 0.0, 0.0])  # so that the 1 counts beside the squares of s
    assert drift._dual_value(run, s, dear)[0] <= -1e34


def test_what_a_learner_held_before_it_started_afresh_is_paid_for():
    """Ignored rounds cost their loss; a fresh start what 0 lost before it, on rows and on raised pivots, discounted."""
    floors = Observations(np.array([1, 3]), np.ones((2, 1)), np.array([3.0, 5.0]), np.array([2.0, 7.0]))
    lost, still, rates = np.array([9.0, 1.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0, 4.0]), np.full(4, np.log(2.0))
    price = _restart_cost(lost, still, floors, [1], [2], rates)
    np.testing.assert_allclose(price, [0.0, 1.0, 1.0 / 4.0 + 2.0 / 2.0 + 0.5 * 2.0 * 3.0**2 / 2.0, 0.0], rtol=1e-14)

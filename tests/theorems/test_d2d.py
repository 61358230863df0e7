"""d2d: dynamic regret is three discounted parts, and the certificate is never below it."""

import math

import numpy as np
import pytest

from tests.theorems import direct
from undrift.learners import DiscountedAIOLI, DiscountedMean, DiscountedVAW, Zero
from undrift.losses import logistic, squared
from undrift.regret import Template, certify, d2d_identity, discounted_regret, dynamic_regret
from undrift.trace import Trace

BETAS = (0.01, 0.3, 0.5, 0.9, 0.99, 1.0)


def labels(rng, Z, u):
    """Labels the comparator explains, or does not, with or without noise."""
    return np.sum(Z * u, axis=1) * rng.integers(2) + rng.normal(size=len(Z)) * rng.choice([0.0, 1e-6, 1.0, 100.0])


@pytest.mark.parametrize("loss", [squared, logistic], ids=lambda loss: loss.name)
@pytest.mark.parametrize("beta", [0.2, 0.97, 1.0])
def test_the_three_parts_are_the_dynamic_regret(loss, beta):
    rng = np.random.default_rng(7)
    T, d = 10_000, 3
    Z, yhat = rng.normal(size=(T, d)), rng.normal(size=T)
    y = np.sign(rng.normal(size=T)) if loss is logistic else 10.0 * rng.normal(size=T)
    u = np.cumsum(0.05 * rng.normal(size=(T, d)), axis=0)
    u[rng.random(T) < 0.5] = 0.0
    incurred, theirs = loss.value(yhat, y), loss.value(np.sum(Z * u, axis=1), y)
    parts = d2d_identity(Z, y, yhat, u, beta, loss)
    scale = incurred.sum() + theirs.sum()
    assert abs(parts.total - dynamic_regret(incurred, theirs)) <= 1e-12 * scale
    assert abs(parts.total - dynamic_regret(incurred, theirs)) <= 1e-12 * abs(parts.total)


def test_the_parts_are_what_their_names_say():
    rng = np.random.default_rng(1)
    T, beta = 40, 0.8
    Z, y, yhat, u = rng.normal(size=(T, 2)), rng.normal(size=T), rng.normal(size=T), rng.normal(size=(T, 2))
    incurred = squared.value(yhat, y)
    reg = np.array([discounted_regret(incurred, squared.value(Z @ point, y), beta) for point in u])  # [comparator, t]
    parts = d2d_identity(Z, y, yhat, u, beta)
    assert parts.moves == pytest.approx(beta * sum(reg[t, t] - reg[t + 1, t] for t in range(T - 1)), rel=1e-12)
    assert parts.average == pytest.approx((1 - beta) * sum(reg[t, t] for t in range(T)), rel=1e-12)
    assert parts.last == pytest.approx(beta * reg[T - 1, T - 1], rel=1e-12)


def test_discounted_regret_is_the_sum_it_stands_for():
    rng = np.random.default_rng(3)
    a, b = rng.exponential(size=(2, 50))
    out = discounted_regret(a, b, 0.7)
    for t in range(50):
        direct_sum = math.fsum(0.7 ** (t - s) * (a[s] - b[s]) for s in range(t + 1))
        assert out[t] == pytest.approx(direct_sum, rel=1e-12, abs=1e-14)


def tight_template(rng, loss, beta, T, d):
    """Potential chosen so that the promise holds with equality at every comparator; its stability may be negative."""
    Z, yhat, u = rng.normal(size=(T, d)), rng.normal(size=T), direct.path(rng, T, d)
    y = np.sign(rng.normal(size=T)) if loss is logistic else rng.normal(size=T)
    stability = rng.normal(size=T)
    prices = discounted_regret(stability, np.zeros(T), beta)
    reg = [discounted_regret(loss.value(yhat, y), loss.value(Z @ u[t], y), beta)[t] for t in range(T)]
    potential = 2.0 * (np.array(reg) - prices) / np.sum(u * u, axis=1)
    return Z, y, u, Trace(yhat, stability, potential)


@pytest.mark.parametrize("loss", [squared, logistic], ids=lambda loss: loss.name)
def test_a_tight_template_leaves_no_slack(loss):
    rng = np.random.default_rng(11)
    for _ in range(150):
        beta = float(rng.choice(BETAS))
        Z, y, u, trace = tight_template(rng, loss, beta, T=int(rng.integers(1, 80)), d=int(rng.integers(1, 4)))
        cert = certify(Template(beta=beta), Z, y, trace, u, loss=loss)
        assert abs(cert.slack) <= 1e-10 * cert.scale


@pytest.mark.parametrize("kind", direct.KINDS)
@pytest.mark.parametrize("beta", [0.3, 0.9, 1.0])
def test_ridge_against_its_own_leaders_leaves_no_slack_floors_included(kind, beta):
    # The promise of the "ridge" hint is an equality at the leader, so every pseudo-observation must be accounted for.
    rng = np.random.default_rng(5)
    T = 150
    Z = direct.draw_design(rng, T, 3, kind)
    y = Z @ [1.0, -2.0, 0.5] + rng.normal(size=T)
    learner = DiscountedVAW(beta=beta, reg=0.1, hint="ridge")
    leaders = []
    for z, label in zip(Z, y, strict=True):
        learner.learn(z, label)
        leaders.append(learner.coef)
    trace = learner.clone().play(Z, y)
    cert = certify(learner, Z, y, trace, np.array(leaders))
    assert cert.floors == learner.floored
    assert (cert.floors > 0) == (beta == 0.3 and kind in ("doubled", "frozen"))
    assert abs(cert.slack) <= 1e-10 * cert.scale


def test_raised_pivots_are_paid_for_where_the_comparator_leaves_them():
    rng = np.random.default_rng(6)
    Z = np.repeat(rng.choice([-1.0, 1.0], size=(200, 1)), 2, axis=1)
    y = Z[:, 0]
    learner = DiscountedVAW(beta=0.3)
    trace = learner.clone().play(Z, y)
    u = np.tile([0.5, 0.5], (200, 1))
    u[150:] += [2.0**47, -(2.0**47)]  # predicts the same on every row; only the raised pivots can tell
    whole, bare = certify(learner, Z, y, trace, u), certify(Template(beta=0.3), Z, y, trace, u)
    assert whole.floors > 0
    assert whole.regret == bare.regret
    assert whole.bound > 2.0 * bare.bound


@pytest.mark.parametrize("hint", ["zero", "last", "ridge"])
def test_vaw_never_exceeds_its_certificate(hint):
    rng = np.random.default_rng({"zero": 21, "last": 22, "ridge": 23}[hint])
    floored = 0
    for _ in range(400):
        T, d = int(rng.integers(1, 90)), int(rng.integers(1, 5))
        Z, u = (
            direct.draw_design(rng, T, d, str(rng.choice(direct.KINDS))),
            direct.path(rng, T, d) * 10.0 ** rng.integers(-1, 2),
        )
        y = labels(rng, Z, u)
        learner = DiscountedVAW(beta=float(rng.choice(BETAS)), reg=10.0 ** rng.uniform(-6, 3), hint=hint)
        cert = certify(learner, Z, y, learner.clone().play(Z, y), u)
        assert cert.slack >= -1e-12 * cert.scale
        floored += cert.floors > 0
    assert floored > 10  # raised pivots are among the instances


def test_vaw_with_hints_from_outside_never_exceeds_its_certificate():
    rng = np.random.default_rng(29)
    for _ in range(150):
        T, d = int(rng.integers(1, 90)), int(rng.integers(1, 4))
        Z, u = direct.draw_design(rng, T, d, str(rng.choice(direct.KINDS))), direct.path(rng, T, d)
        y = labels(rng, Z, u)
        learner = DiscountedVAW(beta=float(rng.choice(BETAS)))
        cert = certify(learner, Z, y, learner.clone().play(Z, y, hint=y + rng.normal(size=T)), u)
        assert cert.slack >= -1e-12 * cert.scale


def test_aioli_never_exceeds_its_certificate():
    rng = np.random.default_rng(31)
    floored = 0
    for _ in range(500):
        T, d, reach = int(rng.integers(1, 90)), int(rng.integers(1, 5)), 10.0 ** rng.uniform(-1, 1.5)
        Z, u = direct.draw_design(rng, T, d, str(rng.choice(direct.KINDS))), direct.path(rng, T, d)
        u = u * min(1.0, reach / max(np.abs(u @ Z.T).max(), 1e-300))
        y = np.where(rng.random(T) < 0.5, 1, -1) if rng.integers(2) else np.where(np.sum(Z * u, axis=1) > 0, 1, -1)
        learner = DiscountedAIOLI(beta=float(rng.choice(BETAS)), reg=10.0 ** rng.uniform(-6, 2), bound=reach)
        cert = certify(learner, Z, y, learner.clone().play(Z, y), u)
        assert cert.slack >= -1e-12 * cert.scale
        floored += cert.floors > 0
    assert floored > 10


def test_mean_and_zero_never_exceed_their_certificates():
    rng = np.random.default_rng(37)
    for _ in range(300):
        T = int(rng.integers(1, 60))
        Z, u = np.ones((T, 1)), direct.path(rng, T, 1)
        y = labels(rng, Z, u)
        for learner in (DiscountedMean(beta=float(rng.choice(BETAS)), reg=10.0 ** rng.uniform(-3, 3)), Zero()):
            cert = certify(learner, Z, y, learner.clone().play(Z, y), u)
            assert cert.slack >= -1e-12 * cert.scale
        lazy = Zero(binary=True)
        cert = certify(lazy, Z, y > 0, lazy.clone().play(Z, y > 0), u)
        assert cert.slack >= -1e-12 * cert.scale


def test_the_learners_are_those_of_the_definition():
    rng = np.random.default_rng(41)
    Z, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    for hint in ("zero", "last", "ridge"):
        mine, theirs = DiscountedVAW(beta=0.9, hint=hint).play(Z, y), direct.vaw(Z, y, 0.9, hint=hint)
        np.testing.assert_allclose(mine.yhat, theirs.yhat, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mine.stability, theirs.stability, rtol=1e-9, atol=1e-11)
    mine, theirs = DiscountedAIOLI(beta=0.9, bound=3.0).play(Z, y > 0), direct.aioli(Z, np.sign(y), 0.9, bend=4.0)
    np.testing.assert_allclose(mine.yhat, theirs.yhat, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(mine.stability, theirs.stability, rtol=1e-7, atol=1e-9)


def test_rounds_lost_to_overflow_are_paid_for():
    Z, y = np.zeros((500, 2)), np.ones(500)
    Z[420:], Z[401] = 1.0, 1e75  # silence has worn the pivots down to the floor: the leverage leaves float64's range
    learner = DiscountedVAW(beta=0.9, reg=1e-140)
    played = learner.clone()
    trace = played.play(Z, y)
    assert played.resets == 1
    cert = certify(learner, Z, y, trace, [1e-76, 0.0])
    assert cert.slack >= -1e-12 * cert.scale
    bare = certify(Template(beta=0.9), Z, y, trace, [1e-76, 0.0])
    assert cert.stability > bare.stability + 5.0  # ignored rounds at their loss, and the past that was dropped


def test_standing_still_is_free():
    rng = np.random.default_rng(43)
    Z, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    learner = DiscountedVAW(beta=0.9)
    cert = certify(learner, Z, y, learner.clone().play(Z, y), [1.0, 2.0])
    assert cert.variation == 0.0
    assert cert.potential_drift == pytest.approx(cert.rounding, abs=1e-15)

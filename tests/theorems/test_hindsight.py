"""hindsight: no comparator of a kind lost less than the leaf says, and the best of them lost just that."""

import math

import numpy as np
import pytest

from undrift.losses import logistic, sigmoid, squared
from undrift.regret import HindsightLeaves, certify
from undrift.regret.comparators import fixed, piecewise, smooth
from undrift.regret.hindsight import path_leaf, stretches_leaf
from undrift.run.finish.certificates import proven_share
from undrift.trace import Trace

LOSSES = pytest.mark.parametrize("loss", [squared, logistic], ids=lambda loss: loss.name)


def problem(loss, seed, T=120, d=3, pieces=3):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(T, d))
    u = np.repeat(rng.normal(size=(pieces, d)), T // pieces, axis=0)
    y = np.sum(Z * u, axis=1) + 0.3 * rng.normal(size=T)
    return rng, Z, np.where(rng.random(T) < sigmoid(2.0 * y), 1.0, -1.0) if loss is logistic else y, u


def total(Z, y, u, loss):
    return float(loss.value(np.sum(Z * u, axis=1), y).sum())


def least(leaf, loss):
    """What the leaf says every comparator pays at least: its own loss less its prices of rounds."""
    return float(loss.value(leaf.trace.yhat, leaf.y).sum() - leaf.trace.stability.sum())


@LOSSES
@pytest.mark.parametrize("reg", [1e-4, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_no_comparator_with_the_same_cuts_paid_less(loss, reg, seed):
    rng, Z, y, u = problem(loss, seed)
    leaf = stretches_leaf(Z, y, u, loss, reg)
    bound = least(leaf, loss)
    best = np.concatenate([fixed(Z[a : a + 40], y[a : a + 40], loss, margin=3.0) for a in (0, 40, 80)])
    for k in range(200):
        far = 10.0 ** rng.uniform(-4, 1)
        v = (u if k % 2 else best) + np.repeat(far * rng.normal(size=(3, 3)), 40, axis=0)
        if leaf.learner.limit < math.inf:
            v *= min(1.0, leaf.learner.limit / np.abs(Z @ v.T).max())
        start = 0.5 * reg * np.sum(v[[0, 40, 80]] ** 2)
        assert total(Z, y, v, loss) + start >= bound - 1e-9 * abs(bound)


@LOSSES
@pytest.mark.parametrize("reg", [1e-4, 1.0])
def test_the_best_of_each_stretch_paid_just_that(loss, reg):
    _, Z, y, _ = problem(loss, 0)
    cuts = np.repeat(np.arange(3.0)[:, None] * 1e9, 40, axis=0) * np.ones(3)  # no margin binds
    leaf = stretches_leaf(Z, y, cuts, loss, reg)
    v = np.concatenate([np.tile(_ridge(Z[a : a + 40], y[a : a + 40], loss, reg), (40, 1)) for a in (0, 40, 80)])
    paid = total(Z, y, v, loss) + 0.5 * reg * np.sum(v[[0, 40, 80]] ** 2)
    assert least(leaf, loss) == pytest.approx(paid, rel=1e-8)  # Newton's method stops at 2e-9 of it


def _ridge(Z, y, loss, reg):
    """The minimiser of loss + reg/2 |u|^2, by Newton's method from the definition."""
    u = np.zeros(Z.shape[1])
    for _ in range(50):
        slope = Z.T @ loss.slope(Z @ u, y) + reg * u
        u = u - np.linalg.solve((Z.T * loss.curvature(Z @ u, y)) @ Z + reg * np.eye(len(u)), slope)
    return u


def test_a_margin_that_binds_is_part_of_the_promise():
    _, Z, y, _ = problem(logistic, 1)
    free = fixed(Z, y, logistic)
    held = fixed(Z, y, logistic, margin=0.4 * np.abs(Z @ free[0]).max())
    leaf = stretches_leaf(Z, y, held, logistic, 1e-4)
    assert least(leaf, logistic) == pytest.approx(total(Z, y, held, logistic), rel=1e-4)
    assert least(leaf, logistic) > total(Z, y, free, logistic) + 1.0  # which lies outside, and is not covered
    assert leaf.learner.limit == pytest.approx(np.abs(Z @ held[0]).max())


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-12, 1e-8])
def test_comparators_that_predict_nothing_are_certified(size):
    rng, Z, y, _ = problem(logistic, 2)
    yhat = rng.normal(size=len(y))
    cert = certify(HindsightLeaves(binary=True), Z, y, Trace(yhat), np.full(3, size))
    assert cert.holds
    assert cert.bound == pytest.approx(cert.regret, abs=1e-5)  # nobody else predicts as little


@LOSSES
@pytest.mark.parametrize("seed", range(8))
def test_no_path_paid_less(loss, seed):
    rng, Z, y, u = problem(loss, seed)
    u = u + np.cumsum(0.1 * rng.normal(size=u.shape), axis=0)
    leaf = path_leaf(Z, y, u, loss)
    bound, tau, reg = least(leaf, loss), leaf.learner.movement, leaf.trace.potential[0]
    best = smooth(Z, y, loss, tau=tau)
    for k in range(200):
        far = 10.0 ** rng.uniform(-4, 1)
        v = (u if k % 2 else best) + far * np.cumsum(rng.normal(size=u.shape), axis=0) / 10.0 + far * rng.normal(size=3)
        paid = total(Z, y, v, loss) + 0.5 * reg * v[0] @ v[0] + tau * np.sum(np.diff(v, axis=0) ** 2)
        assert paid >= bound - 1e-9 * abs(bound)


@LOSSES
@pytest.mark.parametrize("tau", [0.5, 50.0])
def test_the_smooth_comparator_paid_just_that(loss, tau):
    _, Z, y, _ = problem(loss, 2)
    u = smooth(Z, y, loss, tau=tau)
    leaf = path_leaf(Z, y, u, loss)
    assert leaf.learner.movement == pytest.approx(tau, rel=1e-3)
    assert least(leaf, loss) == pytest.approx(total(Z, y, u, loss) + tau * np.sum(np.diff(u, axis=0) ** 2), rel=1e-6)


@LOSSES
@pytest.mark.parametrize("kind", ["fixed", "pieces", "smooth"])
def test_certificates_through_such_leaves_are_nearly_the_regret(loss, kind):
    rng, Z, y, _ = problem(loss, 3, T=600)
    limit = {"margin": 3.0} if loss is logistic else {}
    u = {
        "fixed": lambda: fixed(Z, y, loss, **limit),
        "pieces": lambda: piecewise(Z, y, loss, segments=3, pull=1.0, **limit),
        "smooth": lambda: smooth(Z, y, loss, tau=100.0),
    }[kind]()
    someone = Trace(np.sum(Z * u, axis=1) + rng.normal(size=600))
    found = certify(HindsightLeaves(binary=loss is logistic), Z, y, someone, u)
    assert found.holds
    assert found.regret <= found.bound <= found.regret + 0.02 * found.comparator_loss


def test_what_is_proven_is_relative_to_the_least_that_any_comparator_of_the_kind_can_have_lost():
    assert proven_share(103.0, 10.0) == pytest.approx(10.0 / 93.0)  # the rival that was found lost 100
    assert proven_share(84.0, -15.0) == pytest.approx(-15.0 / 99.0)
    assert proven_share(5.0, 5.0) == proven_share(5.0, 7.0) == proven_share(0.0, 0.0) == math.inf


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_covers_comparators_no_larger_that_move_no_more_and_not_all_others(seed):
    rng, Z, y, u = problem(squared, seed)
    someone = Trace(np.sum(Z * u, axis=1) + rng.normal(size=len(y)))
    own = float(squared.value(someone.yhat, y).sum())
    for path in (u[:1].repeat(120, axis=0), u, u + np.cumsum(0.02 * rng.normal(size=u.shape), axis=0)):
        bound = certify(HindsightLeaves(), Z, y, someone, path).bound
        steps = np.sum(np.diff(path, axis=0) ** 2)
        for k in range(200):
            v = path + (10.0 ** rng.uniform(-3, 1) * rng.normal(size=3) if k % 2 else 0.0)
            v = v @ np.linalg.qr(rng.normal(size=(3, 3))).Q if k % 3 == 0 else v
            longest = np.max(np.linalg.norm(v, axis=1) / np.linalg.norm(path, axis=1))
            v = v / max(1.0, longest, np.sqrt(np.sum(np.diff(v, axis=0) ** 2) / steps) if steps else 1.0)
            assert own - total(Z, y, v, squared) <= bound + 1e-9 * own
    z = 1e-3 * (1.0 + 0.1 * rng.normal(size=(400, 1)))
    y = 1.0 + 0.05 * rng.normal(size=400)
    still = certify(HindsightLeaves(), z, y, Trace(np.zeros(400)), [0.0])
    far = np.full((400, 1), 993.0)
    assert still.bound <= 1e-9 * 400  # nobody with |v| <= 0 is better ...
    assert total(z, y, np.zeros((400, 1)), squared) - total(z, y, far, squared) > 150.0  # ... and 993 is not covered


def test_comparators_that_move_in_most_rounds_go_through_a_learner_that_drifts():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(800, 2))
    u = np.cumsum(0.05 * rng.normal(size=(800, 2)), axis=0)  # not the best of its kind
    y = np.sum(Z * u, axis=1) + rng.normal(size=800)
    found = certify(HindsightLeaves(), Z, y, Trace(np.zeros(800)), u)
    assert found.leaf.startswith("DriftVAW(")
    assert found.holds


def test_a_smooth_comparator_that_its_margin_holds_back_is_still_near_the_best():
    rng = np.random.default_rng(0)
    Z = np.column_stack((np.ones(900), rng.normal(size=(900, 2))))
    y = np.sign(Z[:, 1] * np.linspace(-4.0, 4.0, 900) + rng.logistic(size=900))
    free = smooth(Z, y, logistic, tau=100.0)
    held = smooth(Z, y, logistic, tau=100.0, margin=0.6 * np.abs(Z @ free.T).max())
    assert (held != free).any()
    own, found = path_leaf(Z, y, held, logistic), path_leaf(Z, y, held, logistic, free)
    assert least(found, logistic) <= total(Z, y, free, logistic) + 1e-6 + found.learner.movement * np.sum(
        np.diff(free, axis=0) ** 2
    )
    slack = [certify(leaf.learner, Z, y, trace=leaf.trace, u=held).slack for leaf in (own, found)]
    assert 0.0 <= slack[1] < 0.5 * slack[0]

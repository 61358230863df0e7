"""Discounts that change, fresh starts, and leaves that know the comparator's cuts."""

from dataclasses import replace

import numpy as np
import pytest

import undrift as ud
from undrift.errors import ConditionError, InputError
from undrift.losses import logistic, squared
from undrift.regret import HindsightLeaves, Restarted, Template, certify
from undrift.regret.comparators import fixed, piecewise
from undrift.regret.d2d import add_certificates
from undrift.trace import Trace


def ridge(Z, y, betas, reg):
    """Ridge regression whose discount changes, 0 starting afresh, with exact prices: all from the definition."""
    T, d = Z.shape
    yhat, stability, potential, leaders = np.zeros(T), np.zeros(T), np.zeros(T), np.zeros((T, d))
    A, r, c, pull, least = reg * np.eye(d), np.zeros(d), 0.0, reg, 0.0
    for t in range(T):
        if betas[t] == 0.0:
            A, r, c, pull = reg * np.eye(d), np.zeros(d), 0.0, reg
        else:
            A, r, c, pull = betas[t] * A, betas[t] * r, betas[t] * c, betas[t] * pull
        yhat[t] = Z[t] @ np.linalg.solve(A, r)
        A, r, c = A + np.outer(Z[t], Z[t]), r + y[t] * Z[t], c + 0.5 * y[t] ** 2
        leaders[t] = np.linalg.solve(A, r)
        before, least = betas[t] * least, c - 0.5 * r @ leaders[t]
        stability[t], potential[t] = 0.5 * (yhat[t] - y[t]) ** 2 - (least - before), pull
    return Trace(yhat, stability, potential), leaders


def schedule(rng, T):
    betas = rng.uniform(0.3, 1.0, size=T)
    betas[rng.random(T) < 0.2] = 1.0
    betas[rng.random(T) < 0.1] = 0.0
    return betas


def test_the_bound_is_the_sum_it_stands_for_and_tight_at_the_leaders():
    rng = np.random.default_rng(0)
    for _ in range(200):
        T, d = int(rng.integers(1, 40)), int(rng.integers(1, 4))
        Z, y, betas = rng.normal(size=(T, d)), rng.normal(size=T), schedule(rng, T)
        betas[0] = 1.0
        trace, leaders = ridge(Z, y, betas, 0.5)
        template = Template(beta=1.0, betas=betas, loss=squared)
        tight = certify(template, Z, y, trace, leaders)
        assert abs(tight.slack) <= 1e-11 * tight.scale
        u = np.repeat(rng.normal(size=(T, d)), rng.integers(1, 6), axis=0)[:T]
        cert = certify(template, Z, y, trace, u)
        assert cert.slack >= -1e-12 * cert.scale

        def F(t, point, Z=Z, y=y, betas=betas, trace=trace):
            past = sum(np.prod(betas[s + 1 : t + 1]) * squared.value(Z[s] @ point, y[s]) for s in range(t + 1))
            return 0.5 * trace.potential[t] * point @ point + past

        following = np.append(betas[1:], 0.0)
        wanted = trace.stability.sum() + sum((1.0 - following[t]) * F(t, u[t]) for t in range(T))
        assert cert.certified == pytest.approx(wanted, rel=1e-11)


def test_other_losses_take_changing_discounts_too():
    rng = np.random.default_rng(1)
    for _ in range(60):
        T = int(rng.integers(1, 30))
        Z, y, betas, yhat = rng.normal(size=(T, 2)), np.sign(rng.normal(size=T)), schedule(rng, T), rng.normal(size=T)
        u = np.repeat(rng.normal(size=(T, 2)), rng.integers(1, 6), axis=0)[:T]
        trace = Trace(yhat, rng.normal(size=T), rng.exponential(size=T))
        cert = certify(Template(beta=1.0, betas=betas), Z, y, trace, u, loss=logistic)

        def F(t, Z=Z, y=y, betas=betas, trace=trace, u=u):
            past = sum(np.prod(betas[s + 1 : t + 1]) * logistic.value(Z[s] @ u[t], y[s]) for s in range(t + 1))
            return 0.5 * trace.potential[t] * u[t] @ u[t] + past

        following = np.append(betas[1:], 0.0)
        wanted = trace.stability.sum() + sum((1.0 - following[t]) * F(t) for t in range(T))
        assert cert.certified == pytest.approx(wanted, abs=1e-11 * cert.scale)


def test_a_restarted_learner_keeps_its_promise_floors_included():
    rng = np.random.default_rng(2)
    floored = 0
    for _ in range(80):
        T = int(rng.integers(3, 150))
        Z = np.repeat(rng.normal(size=(T, 1)), 2, axis=1) if rng.integers(2) else rng.normal(size=(T, 2))
        starts = np.flatnonzero(rng.random(T) < 0.01)
        u = np.repeat(rng.normal(size=(T, 2)), rng.integers(1, 40), axis=0)[:T]
        y = np.sum(Z * u, axis=1) + rng.normal(size=T)
        base = ud.DiscountedVAW(beta=float(rng.choice([0.3, 0.9, 1.0])), hint="ridge")
        restarted = Restarted(base, starts)
        cert = certify(restarted, Z, y, restarted.play(Z, y), u)
        assert cert.slack >= -1e-12 * cert.scale
        floored += cert.floors > 0
    assert floored > 5


def test_a_restarted_learner_against_its_own_leaders_leaves_no_slack():
    """The "ridge" promise is an equality at the leader; after a fresh start that is the leader of the stretch alone."""
    rng = np.random.default_rng(4)
    Z, y, starts = rng.normal(size=(60, 2)), rng.normal(size=60), [0, 17, 40]
    for beta in (0.9, 1.0):
        restarted = Restarted(ud.DiscountedVAW(beta=beta, hint="ridge"), np.array(starts))
        leaders = []
        for a, b in zip(starts, [*starts[1:], 60], strict=True):
            learner = ud.DiscountedVAW(beta=beta, hint="ridge")
            for t in range(a, b):
                learner.learn(Z[t], y[t])
                leaders.append(learner.coef)
        cert = certify(restarted, Z, y, restarted.play(Z, y), np.array(leaders))
        assert abs(cert.slack) <= 1e-11 * cert.scale


STEP = np.repeat([0.0, 5.0], 20)
"""Labels, and with a column of ones the comparator too, that jump once."""


@pytest.mark.parametrize(
    "learner",
    [
        ud.DiscountedNewton("absolute", beta=0.99, gamma=10.0),  # comparators are charged by tangents
        ud.DiscountedNewton("absolute", beta=0.99),
        ud.DriftVAW(10.0),  # movement has a price
        ud.DiscountedVAW(beta=0.9),
        ud.linear_ensemble(horizon=40),  # goes through a leaf in each stretch
    ],
    ids=repr,
)
def test_what_a_promise_consists_of_survives_a_restart(learner):
    Z, y = np.ones((40, 1)), STEP
    restarted = Restarted(learner, [20])
    trace = restarted.play(Z, y)
    for u in (STEP[:, None], np.where(np.arange(40) < 30, 0.0, 5.0)[:, None]):
        cert = certify(restarted, Z, y, trace, u)
        regret = np.sum(learner.loss.value(trace.yhat, y) - learner.loss.value(u[:, 0], y))
        assert cert.regret == pytest.approx(regret, rel=1e-12)
        assert regret <= cert.bound
        assert cert.holds
        fresh = [learner.clone().play(Z[a : a + 20], y[a : a + 20]) for a in (0, 20)]
        alone = [certify(learner.clone(), Z[:20], y[a : a + 20], fresh[a // 20], u[a : a + 20]) for a in (0, 20)]
        assert cert.certified == pytest.approx(alone[0].certified + alone[1].certified, rel=1e-14)


def test_a_restarted_learner_covers_no_other_comparators_than_the_learner():
    Z, restarted = np.ones((40, 1)), Restarted(ud.DiscountedNewton("absolute", beta=0.99, gamma=10.0, radius=0.1), [20])
    with pytest.raises(ConditionError, match=r"covers comparators with \|u\| <= 0.1, one has 5"):
        certify(restarted, Z, STEP, restarted.play(Z, STEP), STEP[:, None])
    for learner in (ud.DiscountedSoftmax(3), ud.OnlineRegressor()):
        with pytest.raises(ConditionError, match=r"Restarted: stretches of \w+ cannot be certified one by one"):
            Restarted(learner, [20])
    for starts in ([-1], [0.5], [[1]], [np.nan], [np.inf], ["a"], None):
        with pytest.raises(InputError, match=r"Restarted: starts must be"):
            Restarted(ud.DiscountedVAW(), starts)
    with pytest.raises(InputError, match=r"Restarted: learner must be a learner, got"):
        Restarted("VAW", [1])
    with pytest.raises(InputError, match=r"Restarted: y must have one label for each of 3 rows, got shape \(2,\)"):
        Restarted(ud.DiscountedVAW(), [1]).play(np.ones((3, 1)), [1.0, 2.0])


@pytest.mark.parametrize(
    "learner", [ud.DriftVAW(10.0), ud.DiscountedVAW(beta=0.9), ud.DiscountedNewton(beta=0.9)], ids=repr
)
def test_weights_and_times_survive_a_restart(learner):
    rng = np.random.default_rng(6)
    Z, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    given = {"weight": rng.choice([0.0, 0.5, 7.0], 40), "elapsed": rng.choice([0.5, 1.0, 3.0], 40)}
    u = np.repeat(rng.normal(size=(4, 2)), 10, axis=0)
    restarted = Restarted(learner, [10, 25])
    trace = restarted.play(Z, y, **given)
    cert = certify(restarted, Z, y, trace, u, **given)
    mine, theirs = (given["weight"] * learner.loss.value(one, y) for one in (trace.yhat, np.sum(Z * u, axis=1)))
    assert cert.regret == pytest.approx(np.sum(mine - theirs), rel=1e-12)
    assert cert.regret <= cert.bound
    assert certify(restarted, Z, y, u=u, **given) == cert  # played again
    assert certify(restarted, Z[:0], y[:0], u=u[:0]).certified == 0.0


def test_floors_and_dropped_residuals_before_a_restart_are_priced():
    """Certificates of the stretches alone have them; so has the sum, wherever the fresh start is."""
    rng = np.random.default_rng(7)
    z = rng.normal(size=120)
    Z, u = np.column_stack([z, z * (1.0 + 1e-12 * rng.normal(size=120))]), np.tile([1e3, -1e3], (120, 1))
    y = Z[:, 0]
    restarted = Restarted(ud.DiscountedVAW(beta=0.3, reg=2e-21), [60])
    cert = certify(restarted, Z, y, restarted.play(Z, y), u)
    alone = [certify(restarted.learner, Z[a : a + 60], y[a : a + 60], u=u[a : a + 60]) for a in (0, 60)]
    assert alone[0].floors > 0 < alone[1].floors
    assert alone[0].rounding > 0.0 < alone[1].rounding
    assert cert.floors == alone[0].floors + alone[1].floors
    assert cert.rounding == pytest.approx(alone[0].rounding + alone[1].rounding, rel=1e-14)
    assert cert.potential_drift == pytest.approx(alone[0].potential_drift + alone[1].potential_drift, rel=1e-12)


def test_a_quantity_that_cannot_be_added_up_is_refused():
    cert = certify(ud.DiscountedVAW(beta=0.9), np.ones((3, 1)), np.ones(3), u=[1.0])
    with pytest.raises(TypeError, match="certificates cannot be added"):
        add_certificates([cert, replace(cert, scale=None)])


def test_leaves_that_know_the_cuts_bring_the_bound_near_the_regret():
    rng = np.random.default_rng(3)
    u = np.repeat(rng.normal(size=(5, 2)), 200, axis=0)
    Z = rng.normal(size=(1000, 2))
    y = np.sum(Z * u, axis=1) + 0.5 * rng.normal(size=1000)
    learner = ud.DiscountedVAW(beta=0.99, hint="ridge")
    trace = learner.clone().play(Z, y)
    own, best = certify(learner, Z, y, trace, u), certify(HindsightLeaves(), Z, y, trace, u)
    assert best.regret == pytest.approx(own.regret, rel=1e-12)
    assert best.regret <= best.bound <= best.regret + 0.05 * best.comparator_loss
    assert own.bound > 1.5 * best.bound
    found = certify(HindsightLeaves(), Z, y, trace, lambda Z, y: piecewise(Z, y, segments=5, pull=1.0))
    assert found.holds


def test_two_classes_and_online_estimators_have_such_leaves():
    rng = np.random.default_rng(4)
    u = np.repeat(2.0 * rng.normal(size=(3, 2)), 300, axis=0)
    Z = rng.normal(size=(900, 2))
    y = np.where(np.sum(Z * u, axis=1) + rng.logistic(size=900) > 0.0, 1.0, -1.0)
    learner = ud.DiscountedAIOLI(beta=0.99, bound=float(np.abs(u @ Z.T).max()))
    trace = learner.clone().play(Z, y)
    own, best = certify(learner, Z, y, trace, u), certify(HindsightLeaves(binary=True), Z, y, trace, u)
    assert best.regret == pytest.approx(own.regret, rel=1e-12)
    assert best.regret <= best.bound < own.bound
    model = ud.OnlineRegressor(speed="fast")
    played = model.play(Z, Z[:, 0])
    cert = certify(HindsightLeaves(model), Z, Z[:, 0], played, fixed)
    assert cert.regret == pytest.approx(certify(model, Z, Z[:, 0], played, fixed).regret, rel=1e-9)
    assert cert.holds


def test_bad_discounts_are_refused():
    with pytest.raises(InputError, match=r"Template: betas must be in \[0, 1\], got -0.1 to 1.2"):
        Template(beta=0.9, betas=np.array([-0.1, 1.2]))

"""What the numbers of a certificate are: terms that add up, a tolerance that forgives rounding alone, limits."""

import math

import numpy as np
import pytest

from undrift.errors import ConditionError
from undrift.kernels import layout
from undrift.kernels.definitions import INFORMATION
from undrift.learners import DiscountedAIOLI, DiscountedVAW
from undrift.losses import logistic, squared
from undrift.regret import Template, certify
from undrift.regret.d2d import Certificate
from undrift.template import Leaf, Observations
from undrift.trace import Trace


def certificate(**changes):
    numbers = {
        "certified": 10.0, "incurred": 8.0, "comparator_loss": 4.0, "regret": 4.0, "start": 1.0, "stability": 4.0,
        "variation": 1.0, "potential_drift": 0.0, "scale": 20.0,
    }  # fmt: skip
    return Certificate(**{**numbers, **changes})


def test_ratio_bound_and_slack_are_what_they_are_called():
    cert = certificate()
    assert (cert.bound, cert.slack, cert.ratio) == (6.0, 2.0, 2.5)
    assert certificate(comparator_loss=0.0).ratio == math.inf
    assert certificate(comparator_loss=0.0, certified=0.0).ratio == 1.0


def test_a_certificate_holds_to_rounding_and_no_further():
    assert certificate(incurred=10.0).holds
    assert certificate(incurred=10.0 + 1e-11).holds
    assert not certificate(incurred=10.0 + 1e-10).holds
    assert not certificate(incurred=10.1).holds


@pytest.mark.parametrize("loss", [squared, logistic], ids=lambda loss: loss.name)
def test_terms_add_up_with_pivots_raised_in_the_first_round_and_later(loss):
    rng = np.random.default_rng(1)
    T, d, beta = 12, 2, 0.8
    Z, y = rng.normal(size=(T, d)), np.sign(rng.normal(size=T))
    trace = Trace(rng.normal(size=T), rng.normal(size=T), beta ** np.arange(1.0, T + 1))
    raised = Observations(np.array([0, 0, 5]), rng.normal(size=(3, d)), rng.normal(size=3), rng.exponential(size=3))
    for u in (rng.normal(size=d), rng.normal(size=(T, d))):
        cert = certify(Template(beta, floors=raised), Z, y, trace, u, loss)
        bare = certify(Template(beta), Z, y, trace, u, loss)
        path = np.broadcast_to(u, (T, d))
        paid = 0.5 * raised.weight * (np.sum(raised.row * path[raised.round], axis=1) - raised.target) ** 2
        assert cert.floors == 3
        assert cert.start == pytest.approx(bare.start + paid[:2].sum(), rel=1e-12)
        assert cert.potential_drift - cert.rounding == pytest.approx(
            bare.potential_drift - bare.rounding + paid[2], abs=1e-12 * cert.scale
        )
        # F_t, every observation from its own round on, by the definition
        held = [
            0.5 * w * beta ** max(t - s, 0) * (row @ path[t] - v) ** 2 * (t >= s)
            for s, row, v, w in zip(*raised, strict=True)
            for t in range(T)
        ]
        factor = np.append(np.full(T - 1, 1.0 - beta), 1.0)
        more = float(np.sum(np.reshape(held, (3, T)) * factor))
        assert cert.certified == pytest.approx(bare.certified + more, abs=1e-12 * cert.scale + cert.rounding)
        total = cert.start + cert.stability + cert.variation + cert.potential_drift
        assert cert.bound == pytest.approx(total, abs=1e-12 * cert.scale)


def test_rounding_of_the_comparators_predictions_is_part_of_the_bound():
    """u.z cancels to rounding: what past rounds lose at u is known to |u||z| eps only."""
    rng = np.random.default_rng(2)
    learner, z = DiscountedVAW(beta=0.9, reg=1e-30), rng.normal(size=(40, 1))
    Z, y = np.hstack([z, z]), np.ones(40)
    u = 1e8 * np.array([1.0, -1.0])
    cert = certify(learner, Z, y, u=u)
    off = 2 * 4 * np.finfo(float).eps * float(np.abs(Z * u).sum(axis=1).max())
    assert off < cert.rounding < 400.0 * off
    assert certify(learner, Z, y, u=u / 1e8).rounding < 1e-7 * cert.rounding
    binary = certify(DiscountedAIOLI(beta=0.9), Z, y, u=u, loss=logistic)
    assert off < binary.rounding < 400.0 * off


def test_the_promise_ends_at_its_margin():
    Z, y = np.ones((5, 1)), np.array([1.0, -1.0, 1.0, 1.0, 1.0])
    learner = DiscountedAIOLI(beta=0.9, bound=2.0, radius=1.5)
    assert learner.reach == pytest.approx(3.0, rel=1e-15)
    assert certify(learner, Z, y, u=[learner.reach]).holds
    with pytest.raises(ConditionError, match=r"\|u.z\| <= BR = 3, the one of round 4 has 3.03 on row 0"):
        certify(learner, Z, y, u=[3.03])


class LearnedFromOthers:
    """A composite whose one leaf learned from labels that were cut; comparators are scored with the true ones."""

    binary = False

    def __init__(self, learner, cut):
        self.learner, self.cut = learner, cut

    def leaves(self, Z, y, u):
        seen = np.clip(y, -self.cut, self.cut)
        return [Leaf("cut", self.learner, Z, seen, self.learner.clone().play(Z, seen), u, labels=y)]


def test_labels_that_a_leaf_did_not_see_are_priced_by_measure():
    rng = np.random.default_rng(3)
    Z, u = rng.normal(size=(60, 2)), np.array([3.0, -1.0])
    y = Z @ u + rng.normal(size=60)
    trace = Trace(rng.normal(size=60))
    cert = certify(LearnedFromOthers(DiscountedVAW(beta=0.9), 1.0), Z, y, trace, u)
    theirs = squared.value(Z @ u, y).sum()
    assert cert.comparator_loss == pytest.approx(theirs, rel=1e-12)
    assert cert.regret == pytest.approx(squared.value(trace.yhat, y).sum() - theirs, rel=1e-12)
    total = cert.start + cert.stability + cert.variation + cert.potential_drift + cert.excess
    assert cert.bound == pytest.approx(total, rel=1e-12)
    assert cert.regret <= cert.bound


class InOtherUnits:
    """A composite whose one leaf sees labels in units of `scale`."""

    binary = False

    def __init__(self, learner, scale):
        self.learner, self.scale = learner, scale

    def leaves(self, Z, y, u):
        labels = y / self.scale
        trace = self.learner.clone().play(Z, labels)
        return [Leaf("scaled", self.learner, Z, labels, trace, u / self.scale, unit=self.scale**2)]


@pytest.mark.parametrize("scale", [0.01, 3.0, 1e4])
def test_a_leaf_in_other_units_is_the_learner_itself(scale):
    rng = np.random.default_rng(4)
    Z, u = rng.normal(size=(60, 2)), np.repeat(rng.normal(size=(3, 2)), 20, axis=0)
    y, learner = np.sum(Z * u, axis=1) + rng.normal(size=60), DiscountedVAW(beta=0.9)
    alone = certify(learner, Z, y, u=u)
    through = certify(InOtherUnits(learner, scale), Z, y, Trace(learner.clone().play(Z, y).yhat), u)
    for name in ("certified", "incurred", "comparator_loss", "regret", "start", "stability", "variation"):
        assert getattr(through, name) == pytest.approx(getattr(alone, name), abs=1e-10 * alone.scale), name
    assert through.excess == pytest.approx(0.0, abs=1e-10 * alone.scale)


@pytest.mark.parametrize("beta", [0.3, 0.01])
def test_raised_pivots_are_all_that_the_state_has_beyond_rows_and_ridge(beta):
    """The information matrix of the learner, divided into rows, ridge and the raised pivots of its template."""
    rng = np.random.default_rng(5)
    Z = np.repeat(rng.choice([-1.0, 1.0], size=(200, 1)), 3, axis=1)
    Z[:, 2] = rng.normal(size=200)
    y = Z[:, 0] + Z[:, 2]
    learner = DiscountedVAW(beta=beta)
    learner.play(Z, y)
    raised = learner.clone().template(Z, y).floors
    assert len(raised.round) == learner.floored > 5
    one = INFORMATION.split(learner.information, dim=3)
    L = np.eye(3)
    L[layout.factor_indices(3, 1)] = one["factor"]
    hidden = np.array([1.0, -1.0, 0.0])  # what no row sees: the ridge is gone, raised pivots alone keep it
    kept = float(np.sum((L.T @ hidden) ** 2 / one["inverse_pivots"]))
    ages = beta ** (199.0 - raised.round)
    paid = float(np.sum(raised.weight * ages * (raised.row @ hidden) ** 2)) + beta**200 * hidden @ hidden
    assert paid == pytest.approx(kept, rel=1e-6, abs=0.0)


def test_a_fresh_start_costs_what_0_lost_before_it_and_an_ignored_round_its_own_loss():
    Z, y = np.zeros((500, 2)), np.ones(500)
    Z[420:], Z[401] = 1.0, 1e75  # silence has worn the pivots down to the floor: the leverage leaves float64's range
    learner = DiscountedVAW(beta=0.9, reg=1e-140)
    trace = learner.clone().play(Z, y)
    cost = learner.template(Z, y).restart_cost
    (start,) = np.flatnonzero(cost > 1.0).tolist()
    ignored = np.flatnonzero((cost > 0.0) & (np.arange(500) < start))
    np.testing.assert_array_equal(ignored, np.arange(401, start))
    np.testing.assert_allclose(cost[ignored], squared.value(trace.yhat[ignored], y[ignored]), rtol=1e-12)
    before = math.fsum(0.5 * 0.9**age for age in range(1, start + 1))
    assert cost[start] == pytest.approx(before, rel=1e-9)


def test_surrogates_have_the_slope_of_the_loss_where_the_learner_was():
    rng = np.random.default_rng(6)
    z = rng.normal(size=60)
    Z = np.column_stack([z, z * (1.0 + 1e-12 * rng.normal(size=60))])
    y = np.sign(rng.normal(size=60))
    learner = DiscountedAIOLI(beta=0.99, reg=2e-21, bound=4.0)
    promise = learner.template(Z, y)
    yhat = promise.replayed.yhat
    assert (promise.blur > 0.0).any()  # features that agree to 1e-12: residuals may have been dropped
    seen = promise.surrogates
    np.testing.assert_allclose(seen.weight * (yhat - seen.target), logistic.slope(yhat, y), rtol=1e-9)
    np.testing.assert_allclose(seen.weight, learner.curvature * logistic.curvature(yhat, y), rtol=1e-12)

"""What the numbers of a certificate are: terms that add up, a tolerance that forgives rounding alone, limits."""

import math

import numpy as np
import pytest

from undrift.errors import ConditionError
from undrift.leaf import Leaf
from undrift.learners import DiscountedAIOLI, DiscountedVAW
from undrift.losses import logistic, squared
from undrift.regret import Template, certify
from undrift.regret.d2d import Certificate
from undrift.template import Observations
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

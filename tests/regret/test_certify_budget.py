"""Certificates end in time: what does not fit is left out by its size alone, and that is said."""

import sys

import numpy as np
import pytest

import undrift as ud
from tests.helpers import draw_stream
from undrift._internal.discount import discounted_sums
from undrift.regret import HindsightLeaves, ReferenceLearners, certify, composite
from undrift.regret.comparators import piecewise
from undrift.regret.comparators.piecewise import fixed
from undrift.trace import Trace


def sums_of_features(T=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng, *draw_stream(T, d, lambda Z: Z @ np.ones(d), seed=rng)


def test_a_composite_of_many_leaves_is_certified_through_some_of_them(monkeypatch):
    _, Z, y = sums_of_features()
    model = ud.OnlineRegressor()
    trace = model.play(Z, y)
    whole = certify(model.clone(), Z, y, trace, fixed)
    assert whole.leaves_left_out == 0
    one = len(y) * (composite.ROUND_SECONDS + composite.SQUARE_SECONDS * 16)
    monkeypatch.setattr(composite, "SECONDS", 3.5 * one)
    some = certify(model.clone(), Z, y, trace, fixed)
    assert some.leaves_left_out == len(model.leaves(Z, y, None)) - 3
    assert some.leaf.startswith("linear/")  # the waves have more columns
    assert some.holds
    assert some.bound >= whole.bound


def test_logistic_leaves_count_what_every_move_asks_for(monkeypatch):
    _, Z, y = sums_of_features()
    model = ud.OnlineClassifier()
    trace = model.play(Z, y > 0.0)
    u = np.repeat(fixed(*model.design(Z, y > 0.0)[:2], ud.losses.logistic, margin=4.0)[:1], 400, axis=0)
    u[200:] *= 0.5
    own = composite.ROUND_SECONDS + composite.SQUARE_SECONDS * 16 + 2 * composite.LOSS_SECONDS
    monkeypatch.setattr(composite, "SECONDS", 5.5 * len(y) * own)
    found = certify(model.clone(), Z, y > 0.0, trace, u)
    assert found.leaves_left_out == len(model.leaves(Z, y > 0.0, None)) - 5


def test_a_bound_above_the_loss_itself_says_nothing():
    _, Z, y = sums_of_features()
    learner = ud.DiscountedVAW(beta=0.99)
    trace = learner.play(Z, y)
    assert not certify(learner.clone(), Z, y, trace, fixed).vacuous
    perfect = certify(learner.clone(), Z, y, trace, Z * (y / np.sum(Z * Z, axis=1))[:, None])
    assert perfect.vacuous
    assert perfect.holds
    through_zero = certify(ReferenceLearners([ud.Zero()]), Z, y, Trace(trace.yhat), fixed)
    assert "Zero" in through_zero.leaf
    assert through_zero.vacuous


def test_wide_rows_have_fewer_candidate_cuts(monkeypatch):
    _, Z, y = sums_of_features(T=300, d=2)
    monkeypatch.setattr(sys.modules[piecewise.__module__], "SEARCH_WORK", 1.0)
    u = piecewise(Z, y, segments=4)
    cuts = np.flatnonzero((u[1:] != u[:-1]).any(axis=1)) + 1
    assert len(cuts) == 3
    assert set(cuts) <= {50, 100, 150, 200, 250}  # six cells: four pieces and half as many more


@pytest.mark.slow
def test_comparators_of_wide_rows_take_seconds_not_forever():
    rng, Z, y = sums_of_features(T=240, d=120)
    u = piecewise(Z, y, segments=6, pull=1.0)
    assert certify(HindsightLeaves(), Z, y, Trace(y + rng.normal(size=240)), u).holds


@pytest.mark.parametrize("rate", ["same", "changing"])
def test_weights_of_equal_blocks_are_used_again(rate):
    rng = np.random.default_rng(0)
    values, rates = rng.normal(size=(700, 2)), np.full(700, 0.03)
    if rate == "changing":
        rates[130:400] = 0.2
        rates[500] = 3.0
    got = discounted_sums(values, rates)
    total = np.zeros(2)
    for t in range(700):
        total = np.exp(-rates[t]) * total + values[t]
        np.testing.assert_allclose(got[t], total, rtol=1e-12, atol=1e-12)

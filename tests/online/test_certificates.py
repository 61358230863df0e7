"""The online estimators are certified on raw rows, through the learners inside them."""

from functools import partial

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.errors import ConditionError, InputError
from undrift.kernels import layout
from undrift.losses import logistic, squared
from undrift.regret import certify, comparators
from undrift.theory import frontier
from undrift.trace import Trace

MODELS = [ud.OnlineRegressor, ud.OnlineClassifier]


def problem(seed, T, d=3, binary=False):
    """Rows with holes, spikes and a frozen column; labels with spikes and some that never came."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-3, 4, size=d)
    Z = 5.0 + rng.normal(size=(T, d)) * scale
    Z[rng.random((T, d)) < 0.03] = np.nan
    Z[rng.random((T, d)) < 0.01] *= 1e4
    Z[: T // 2, -1] = 7.0
    y = np.nan_to_num((Z - 5.0) / scale).sum(axis=1) + rng.normal(size=T)
    if binary:
        y = np.where(rng.random(T) < 0.5 + 0.4 * np.tanh(y - np.median(y)), 1.0, 0.0)
    else:
        y[rng.random(T) < 0.01] += 1e5
    y[rng.random(T) < 0.05] = np.nan
    return Z, y


@pytest.mark.parametrize("indicators", [False, True])
@pytest.mark.parametrize("T", [1, 3, 5, 40, 300, 3000])
@pytest.mark.parametrize("kind", MODELS)
def test_the_design_is_what_the_learners_inside_saw(kind, T, indicators):
    Z, y = problem(T, T, binary=kind is ud.OnlineClassifier)
    y[0] = 1.0
    model = kind(indicators=indicators)
    model.play(Z, y)
    for leaf in model.leaves(Z, y, None):
        family, text = leaf.name.split("/")
        own = leaf.learner.clone()
        assert repr(own) == text
        own.play(leaf.Z, leaf.y)
        at = int(np.flatnonzero(model.plan.family_plans[family].betas == own.beta)[0])
        inside = layout.leader(model.part(f"{family}.information"), at, leaf.Z.shape[1])
        np.testing.assert_allclose(own.coef, inside, rtol=1e-9, atol=1e-9 * np.abs(inside).max())
    linear, waves = model.design(Z, y), model.design(Z, y, "waves")
    assert linear.rows.shape == (np.count_nonzero(~np.isnan(y)), 1 + 3 * (2 if indicators else 1))
    assert len(linear.names) == linear.rows.shape[1]
    assert waves.names[: len(linear.names)] == linear.names
    assert np.array_equal(waves.rows[:, : len(linear.names)], linear.rows)
    assert waves.rows.shape[1] == len(waves.names) == len(linear.names) + 48


@pytest.mark.parametrize("kind", MODELS)
def test_raw_rows_are_certified_against_comparators_of_the_design(kind):
    binary = kind is ud.OnlineClassifier
    loss = logistic if binary else squared
    Z, y = problem(1, 600, binary=binary)
    model = kind(speed="fast")  # certifying asks every memory of every family: wide ones are another test's
    trace = model.play(Z, y)
    design = model.design(Z, y)
    limit = {"margin": design.margin} if binary else {}
    assert design.margin == (pytest.approx(24.0) if binary else np.inf)
    opponents = {
        "fixed": partial(comparators.fixed, loss=loss, **limit),
        "piecewise": partial(comparators.piecewise, loss=loss, segments=4, **limit),
        "smooth": partial(comparators.smooth, loss=loss, tau=100.0, **limit),
    }
    known = ~np.isnan(y)
    signs = np.where(y[known] > 0, 1.0, -1.0) if binary else y[known]
    for opponent in opponents.values():
        path = np.asarray(opponent(design.rows, design.labels))
        cert = certify(kind(speed="fast"), Z, y, trace, opponent)
        assert cert.holds
        assert cert.leaf.split("/")[0] in model.candidates
        # the regret is against the labels as they came, spikes included
        theirs = loss.value(np.sum(design.rows * path, axis=1), signs)
        mine = loss.value(trace.yhat[known], signs)
        assert cert.comparator_loss == pytest.approx(theirs.sum(), rel=1e-12)
        assert cert.regret == pytest.approx(mine.sum() - theirs.sum(), abs=1e-12 * cert.scale)
        again = certify(model, Z, y, trace, path)
        assert again.bound == cert.bound
    points = frontier(model, Z, y, trace, loss, refits=[600, 150], **limit)
    assert all(point.certificate.holds for point in points)


def test_comparators_may_use_the_waves():
    Z, y = problem(2, 700)
    model = ud.OnlineRegressor()
    trace = model.play(Z, y)
    wide = model.design(Z, y, "waves")
    cert = certify(model, Z, y, trace, comparators.fixed(wide.rows, wide.labels))
    assert cert.holds
    assert cert.leaf.startswith("waves/")


def test_named_rows_are_certified_like_arrays():
    Z, y = problem(3, 400)
    model, named = ud.OnlineRegressor(), ud.OnlineRegressor()
    plain = certify(model, Z, y, model.play(Z, y), comparators.fixed)
    frame = pl.DataFrame(Z, schema=["a", "b", "c"])
    trace = named.play(frame, y)
    assert named.design(frame, y).names == ["constant", "a", "b", "c"]
    assert certify(named, frame, y, trace, comparators.fixed).bound == plain.bound
    assert certify(named, frame, y, u=comparators.fixed).bound == plain.bound  # played again from the frame


def test_features_that_came_late_are_part_of_the_design():
    rng = np.random.default_rng(4)
    rows = [{"a": float(v)} for v in rng.normal(size=300)] + [{"a": 1.0, "b": float(v)} for v in rng.normal(size=300)]
    y = np.array([row["a"] + 3.0 * row.get("b", 0.0) for row in rows])
    model = ud.OnlineRegressor()
    parts = [model.play(rows[:300], y[:300]), model.play(rows[300:], y[300:])]
    trace = Trace(np.concatenate([part.yhat for part in parts]), learner="OnlineRegressor", parameters=model.parameters)
    cert = certify(model, rows, y, trace, comparators.fixed)
    assert cert.holds
    assert cert.comparator_loss < 1e-9
    state = model.part("linear.information")  # the same learner, though it met the feature later
    leaf = next(leaf for leaf in model.leaves(rows, y, None) if leaf.learner.beta == 1.0)
    own = leaf.learner.clone()
    own.play(leaf.Z, leaf.y)
    np.testing.assert_allclose(own.coef, layout.leader(state, 7, 3), rtol=1e-9)


def test_what_cannot_be_certified_is_said_in_one_sentence():
    Z, y = problem(5, 60)
    model = ud.OnlineRegressor(speed="fast")
    trace = model.play(Z, y)
    with pytest.raises(ConditionError, match=r"OnlineRegressor: comparators need one number for each of the 4 columns"):
        certify(model, Z, y, trace, np.zeros(3))
    with pytest.raises(InputError, match=r"OnlineRegressor: family must be .*linear.*, got 'waves'"):
        model.design(Z, y, "waves")
    with pytest.raises(InputError, match=r"a design needs rows with labels, got none"):
        model.design(Z, np.full(60, np.nan))
    with pytest.raises(InputError, match=r"the trace was played with speed='fast', the learner has speed='best'"):
        certify(ud.OnlineRegressor(), Z, y, trace, np.zeros(4))
    with pytest.raises(InputError, match=r"the trace must cover the 59 rounds given, it has 60"):
        certify(model, Z[1:], y[1:], trace, np.zeros(4))
    with pytest.raises(InputError, match=r"u must be one comparator \(4,\) or one a round"):
        certify(model, Z, y, trace, np.zeros((3, 4)))
    signs = np.where(np.isnan(y), y, y > 0)
    classifier = ud.OnlineClassifier(speed="fast")
    trace = classifier.play(Z, signs)
    with pytest.raises(ConditionError, match=r"no leaf of OnlineClassifier covers .*BR = 0.*; and 21 more"):
        certify(classifier, Z, signs, trace, np.array([100.0, 0.0, 0.0, 0.0]))

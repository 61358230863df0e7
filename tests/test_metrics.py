"""Scores against scikit-learn's, closed forms, and any cut of the rounds into blocks."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as peer

from undrift import metrics
from undrift.losses import sigmoid
from undrift.metrics import RunningScores


def rounds(binary, n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.4).astype(np.float64) if binary else rng.normal(loc=3.0, size=n)
    return rng.normal(size=n) + y, y


def test_numbers_are_scored_as_scikit_learn_does():
    yhat, y = rounds(binary=False)
    assert metrics.rmse(yhat, y) == pytest.approx(math.sqrt(peer.mean_squared_error(y, yhat)), rel=1e-14)
    assert metrics.mae(yhat, y) == pytest.approx(peer.mean_absolute_error(y, yhat), rel=1e-14)
    assert metrics.r2(yhat, y) == pytest.approx(peer.r2_score(y, yhat), rel=1e-12)
    assert metrics.pinball(yhat, y, level=0.7) == pytest.approx(peer.mean_pinball_loss(y, yhat, alpha=0.7), rel=1e-14)


def test_classes_are_scored_as_scikit_learn_does():
    yhat, y = rounds(binary=True)
    p = sigmoid(yhat)
    assert metrics.log_loss(yhat, y) == pytest.approx(peer.log_loss(y, p), rel=1e-13)
    assert metrics.accuracy(yhat, y) == peer.accuracy_score(y, p > 0.5)
    assert metrics.brier(yhat, y) == pytest.approx(peer.brier_score_loss(y, p), rel=1e-13)


def test_both_codes_of_two_classes_score_the_same():
    yhat, y = rounds(binary=True)
    assert metrics.scores(yhat, y, binary=True) == metrics.scores(yhat, 2.0 * y - 1.0, binary=True)


def test_repeating_the_season_has_a_mase_of_one():
    _, y = rounds(binary=False)
    for season in (1, 7):
        naive = np.concatenate((y[:season], y[:-season]))
        assert metrics.mase(naive, y, season=season) == pytest.approx((len(y) - season) / len(y), rel=1e-13)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_the_quantile_minimises_the_pinball_loss(level):
    _, y = rounds(binary=False)
    best = metrics.pinball(np.full_like(y, np.quantile(y, level)), y, level=level)
    for guess in np.linspace(y.min(), y.max(), 50):
        assert best <= metrics.pinball(np.full_like(y, guess), y, level=level) + 1e-12


def test_coverage_counts_both_ends():
    y = np.array([0.0, 1.0, 2.0, 3.0])
    assert metrics.coverage(np.full(4, 1.0), np.full(4, 2.0), y) == 0.5


def test_scores_without_a_scale_are_not_numbers():
    y = np.ones(5)
    assert math.isnan(metrics.r2(y, y))
    assert math.isnan(metrics.mase(y, y))
    assert math.isnan(metrics.mase(y[:1], y[:1]))


@pytest.mark.parametrize("binary", [False, True])
@given(cuts=st.lists(st.integers(0, 200), max_size=5))
@settings(max_examples=25, deadline=None)
def test_blocks_score_like_the_whole(binary, cuts):
    yhat, y = rounds(binary)
    running = RunningScores(binary=binary)
    ends = [0, *sorted(cuts), len(y)]
    for a, b in pairwise(ends):
        running.add(yhat[a:b], y[a:b])
    whole = metrics.scores(yhat, y, binary=binary)
    found = running.scores()
    assert found == pytest.approx({name: whole[name] for name in found}, rel=1e-12)
    last = slice(max(end for end in ends if end < len(y)), None)
    leading = metrics.LEADING["classification" if binary else "regression"]
    assert running.latest == pytest.approx(metrics.scores(yhat[last], y[last], binary=binary)[leading], rel=1e-12)
    assert next(iter(found)) == leading


@pytest.mark.parametrize("binary", [False, True])
def test_the_mean_of_the_rounds_is_the_leading_score(binary):
    yhat, y = rounds(binary)
    mean = float(np.mean(metrics.round_losses(yhat, y, binary=binary)))
    assert (mean if binary else math.sqrt(2.0 * mean)) == pytest.approx(
        metrics.log_loss(yhat, y) if binary else metrics.rmse(yhat, y), rel=1e-14
    )


def test_pinball_loss_of_intervals_is_that_of_both_ends():
    lower, upper, y = np.array([0.0, 1.0, np.nan]), np.array([2.0, 3.0, np.nan]), np.array([1.0, 5.0, 0.0])
    low, high = metrics.pinball(lower[:2], y[:2], level=0.05), metrics.pinball(upper[:2], y[:2], level=0.95)
    assert metrics.interval_pinball(lower, upper, y, level=0.9) == pytest.approx((low + high) / 2.0)
    assert np.isnan(metrics.interval_pinball(lower[2:], upper[2:], y[2:], level=0.9))


def test_no_class_is_the_likeliest_where_none_is_known():
    assert np.isnan(metrics.most_likely(np.empty((2, 0)))).all()
    known = metrics.most_likely(np.array([[np.nan, np.nan], [np.nan, 0.2], [0.4, 0.4]]))
    assert np.array_equal(known, [np.nan, 1.0, 0.0], equal_nan=True)


@pytest.mark.parametrize("binary", [False, True])
def test_running_scores_are_the_same_bits_however_rounds_are_cut(binary):
    rng = np.random.default_rng(5)
    yhat, y = rng.normal(size=500), rng.normal(size=500)
    y = (y > 0.0).astype(float) if binary else y
    whole, cut = RunningScores(binary=binary), RunningScores(binary=binary)
    whole.add(yhat, y)
    for a, b in ((0, 1), (1, 2), (2, 2), (2, 130), (130, 499), (499, 500)):
        cut.add(yhat[a:b], y[a:b])
    assert cut.errors == whole.errors
    assert cut.scores() == whole.scores()

"""The numbers behind the figures are the numbers of the run."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import played, stream

from undrift.losses import sigmoid
from undrift.report import curves, scores
from undrift.report.axis import clock
from undrift.report.blocks import cut
from undrift.report.memory import changes, effective


@given(rounds=st.integers(1, 500), most=st.integers(1, 60), window=st.integers(1, 70))
def test_blocks_cover_every_round_once(rounds, most, window):
    values = np.random.default_rng(rounds).random(rounds)
    blocks = cut(rounds, most)
    assert len(blocks.starts) <= most
    assert blocks.counts.sum() == rounds
    assert blocks.last[-1] == rounds
    assert blocks.sum(values).sum() == pytest.approx(values.sum())
    assert blocks.lowest(values).min() == values.min()
    assert blocks.highest(values).max() == values.max()
    rolling = blocks.rolling(values, window)
    for k, end in enumerate(blocks.last):
        start = blocks.starts[max(0, k - window + 1)]
        assert rolling[k] == pytest.approx(values[start:end].mean())


def test_an_early_spike_leaves_nothing_behind():
    values = np.ones(1000)
    values[0] = 1e30
    rolling = cut(1000, 100).rolling(values, 5)
    assert (rolling[5:] == 1.0).all()


@pytest.fixture(scope="module")
def regression():
    return played("regression", *stream("regression", 900), certify=False)


@pytest.fixture(scope="module")
def classification():
    return played("classification", *stream("classification", 900), certify=False)


def test_scores_are_the_usual_measures(regression, classification):
    own, last, _ = scores.scores(regression)
    error = regression.yhat - regression.y
    assert own.measures["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert own.measures["mae"] == pytest.approx(np.mean(np.abs(error)))
    assert own.measures["r2"] == pytest.approx(
        1.0 - np.var(error) / np.var(regression.y) - np.mean(error) ** 2 / np.var(regression.y)
    )
    assert own.total == pytest.approx(0.5 * np.sum(error**2))
    assert last.name == "last value"
    own = scores.scores(classification)[0]
    p = sigmoid(classification.yhat)
    came = np.where(classification.y > 0, p, 1.0 - p)
    assert own.measures["log_loss"] == pytest.approx(-np.mean(np.log(came)))
    assert own.measures["accuracy"] == pytest.approx(np.mean((p > 0.5) == (classification.y > 0)))
    assert own.measures["brier"] == pytest.approx(np.mean((p - classification.y) ** 2))


def test_curves_end_at_the_totals(regression):
    sheet = curves.loss_curves(regression, clock(regression))
    totals = [one.total for one in scores.scores(regression)]
    assert [curve[-1] for curve in sheet["cumulative"]] == pytest.approx(totals, rel=1e-5)
    assert sheet["behind"][0] == [0.0] * len(sheet["behind"][0])
    assert sheet["behind"][1][-1] == pytest.approx(totals[1] - totals[0], rel=1e-4)


def test_coverage_counts_labels_inside(regression):
    inside = (regression.lower <= regression.y) & (regression.y <= regression.upper)
    sheet = curves.intervals(regression, clock(regression))
    assert sheet["measured"] == np.mean(inside)
    last = regression.rounds - sheet["window"]
    assert sheet["coverage"][-1] == pytest.approx(np.mean(inside[last:]), abs=1e-4)


def test_rounds_without_an_interval_do_not_count(regression):
    lower = regression.lower.copy()
    lower[:100] = math.nan
    part = dataclasses.replace(regression, lower=lower)
    sheet = curves.intervals(part, clock(part))
    assert sheet["rounds"] == regression.rounds - 100
    assert sheet["coverage"][0] is None
    none = dataclasses.replace(regression, lower=np.full(len(lower), math.nan))
    assert curves.intervals(none, clock(none)) is None


def test_calibration_groups_rows_by_what_was_said(classification):
    sheet = curves.calibration(classification)
    assert sum(sheet["count"]) == classification.rounds
    p = sigmoid(classification.yhat)
    middle = (p >= 0.5) & (p < 0.55)
    k = sheet["middle"].index(0.525)
    assert sheet["count"][k] == np.count_nonzero(middle)
    assert sheet["came"][k] == pytest.approx(np.mean(classification.y[middle]), rel=1e-4)


def test_the_spectrum_is_a_share_at_every_moment(regression):
    sheet = curves.spectrum(regression, clock(regression))
    assert np.sum(sheet["weights"], axis=0) == pytest.approx(1.0, abs=0.01)
    assert sheet["half_lives"][-1] is None  # never forgets
    assert sheet["heights"] == sorted(sheet["heights"])


def test_a_change_of_memory_is_found_where_it_is():
    K = 200
    weights = np.zeros((K, 3))
    weights[:120, 2] = weights[120:, 0] = 1.0
    half_lives = np.array([10.0, 100.0, math.inf])
    (found,) = changes(np.arange(1.0, K + 1) * 50, half_lives, weights)
    assert (found.round, found.before, found.after) == (120 * 50, math.inf, 10.0)
    assert not changes(np.arange(1.0, K + 1), half_lives, np.full((K, 3), 1.0 / 3.0))
    assert effective(half_lives, weights)[0] == math.inf


@pytest.mark.parametrize("rounds", [1, 2, 20_000])
def test_no_curve_grows_with_the_run(rounds):
    data = played("regression", *stream("regression", rounds), certify=False)
    time = clock(data)
    sheets = (curves.loss_curves, curves.recent, curves.whole, curves.spectrum, curves.coefficients, curves.intervals)
    for make in sheets:
        sheet = make(data, time)
        assert 1 <= len(sheet["axis"]["round"]) <= curves.POINTS
        assert sheet["axis"]["round"][-1] == rounds


def test_times_that_cannot_order_rows_are_not_used():
    Z, y = stream("regression", 50)
    time = np.datetime64("2020-01-01", "us") + np.arange(50) * np.timedelta64(3600, "s")
    data = played("regression", Z, y, certify=False, time=time)
    assert clock(data).seconds == 3600.0
    assert clock(data).axis(np.array([1, 50]))["time"] == ["2020-01-01T00:00:00", "2020-01-03T01:00:00"]
    gap = time.copy()
    gap[25:] += np.timedelta64(1000, "D")
    assert clock(dataclasses.replace(data, time=gap)).seconds == pytest.approx(3600.0 * (48 + 100) / 49)
    back = time.copy()
    back[20] = time[0]
    assert "time goes back at line 22" in clock(played("regression", Z, y, certify=False, time=back)).doubt
    back[20] = np.datetime64("NaT")
    assert "1 rows have no time" in clock(played("regression", Z, y, certify=False, time=back)).doubt

"""The numbers behind the figures are the numbers of the run."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.report_runs import jumping_rows, play_run
from undrift.losses import sigmoid
from undrift.online.inspection import GateUse
from undrift.report.blocks import cut_blocks
from undrift.report.figures import calibration, candidate_weights, interval_coverage
from undrift.report.figures.candidate_weights import model_shares
from undrift.report.figures.data_drift import largest_gap
from undrift.report.figures.registry import RUN_FIGURES, make_figures
from undrift.report.half_life import effective_half_life, find_changes
from undrift.report.run_context import POINTS, make_context, make_timeline
from undrift.report.run_page import SECTIONS
from undrift.report.scores import score_predictors


def measure(data):
    """Return the embedded numbers of all figures of a run."""
    return make_figures(RUN_FIGURES, make_context(data), SECTIONS)[0]


@given(rounds=st.integers(1, 500), most=st.integers(1, 60), window=st.integers(1, 70))
def test_blocks_cover_every_round_once(rounds, most, window):
    values = np.random.default_rng(rounds).random(rounds)
    blocks = cut_blocks(rounds, most)
    assert len(blocks.starts) <= most
    assert blocks.counts.sum() == rounds
    assert blocks.last[-1] == rounds
    assert blocks.sum(values).sum() == pytest.approx(values.sum())
    assert blocks.minimum(values).min() == values.min()
    assert blocks.maximum(values).max() == values.max()
    rolling = blocks.rolling_mean(blocks.sum(values), window)
    for k, end in enumerate(blocks.last):
        start = blocks.starts[max(0, k - window + 1)]
        assert rolling[k] == pytest.approx(values[start:end].mean())


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_errors_through_time_begin_with_the_first_prediction(task):
    data = play_run(task, *jumping_rows(task, 300), certify=False)
    late = dataclasses.replace(data, yhat=np.where(np.arange(300) < 25, np.nan, data.yhat))
    loss = measure(late)["loss"]
    assert loss["window"] == 20
    for k, name in enumerate(loss["names"]):
        each = late.losses(name)
        assert loss["rolling"][k][:25] == [None] * 25
        mean = each[:10].mean()  # of the ten predicted ones among the last twenty rows
        assert loss["rolling"][k][34] == pytest.approx(np.sqrt(2.0 * mean) if task == "regression" else mean, rel=1e-4)
    if task == "classification":
        right = (late.yhat[25:35] > 0.0) == (late.y[25:35] > 0.0)
        assert loss["right"][0][:25] == [None] * 25
        assert loss["right"][0][34] == pytest.approx(right.mean())


def test_an_early_spike_leaves_nothing_behind():
    values = np.ones(1000)
    values[0] = 1e30
    blocks = cut_blocks(1000, 100)
    rolling = blocks.rolling_mean(blocks.sum(values), 5)
    assert (rolling[5:] == 1.0).all()


@pytest.fixture(scope="module")
def regression():
    return play_run("regression", *jumping_rows("regression", 900), certify=False)


@pytest.fixture(scope="module")
def classification():
    return play_run("classification", *jumping_rows("classification", 900), certify=False)


def test_scores_are_the_usual_measures(regression, classification):
    own, last, _ = score_predictors(regression)
    error = regression.yhat - regression.y
    assert own.measures["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert own.measures["mae"] == pytest.approx(np.mean(np.abs(error)))
    assert own.measures["r2"] == pytest.approx(
        1.0 - np.var(error) / np.var(regression.y) - np.mean(error) ** 2 / np.var(regression.y)
    )
    assert own.total == pytest.approx(0.5 * np.sum(error**2))
    assert last.name == "last value"
    own = score_predictors(classification)[0]
    p = sigmoid(classification.yhat)
    came = np.where(classification.y > 0, p, 1.0 - p)
    assert own.measures["log_loss"] == pytest.approx(-np.mean(np.log(came)))
    assert own.measures["accuracy"] == pytest.approx(np.mean((p > 0.5) == (classification.y > 0)))
    assert own.measures["brier"] == pytest.approx(np.mean((p - classification.y) ** 2))


def test_curves_end_at_the_totals(regression):
    loss = measure(regression)["loss"]
    totals = [one.total for one in score_predictors(regression)]
    assert [curve[-1] for curve in loss["cumulative"]] == pytest.approx(totals, rel=1e-5)
    assert loss["best"] == "running mean"
    assert loss["saved"][-1] == pytest.approx(min(totals[1:]) - totals[0], rel=1e-4)
    each = regression.losses("running mean") - regression.losses("undrift")
    assert loss["saved"][99] == pytest.approx(each[:100].sum(), rel=1e-3)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_parts_of_models_are_weights_of_the_mixer_and_of_level_2(request, task):
    data = request.getfixturevalue(task)
    shares = model_shares(data)
    assert np.sum([*shares.values()], axis=0) == pytest.approx(1.0)
    assert all((share >= 0.0).all() for share in shares.values())
    weight = dict(zip(data.candidates, data.candidate_weights[-1], strict=True))
    size = dict(zip(data.families, np.abs(data.combination[-1]), strict=True))
    level2 = weight["level 2"] / sum(size.values())
    assert shares["recent past (last labels, running means)"][-1] == pytest.approx(
        weight["context"] + level2 * size["context"]
    )
    again = "last value" if task == "regression" else "same as last time"
    assert shares["the last label again"][-1] == pytest.approx(weight[again] + level2 * size["last label"])
    assert shares["all kinds together"] == pytest.approx(0.0, abs=1e-12)


def test_the_arms_of_a_regressor_are_a_band_and_a_sentence(regression, classification):
    assert "all kinds, from labels whose jumps are limited" in model_shares(regression)
    used = [GateUse(0.0, 900, 0.5), GateUse(4.0, 80, 0.9), GateUse(32.0, 0, 0.5), GateUse(256.0, 1, 0.25)]
    for arms, words in (
        (used, "They disagreed by 4 to 32 usual errors in 80 rows (90% raw at the end) and by more than 256 usual "),
        ([*used[:1], GateUse(4.0, 0, 0.5)], "They never disagreed by more than 4 usual errors."),
    ):
        run = make_context(dataclasses.replace(regression, arms=arms))
        assert words in candidate_weights.draw(run, candidate_weights.measure(run)).measured
    run = make_context(classification)
    assert "raw" not in candidate_weights.draw(run, candidate_weights.measure(run)).measured


def test_the_first_moments_do_not_flatten_all_contributions(regression):
    far = regression.coef.copy()
    far[:2, 0] *= 1e6
    part, usual = (
        measure(dataclasses.replace(regression, coef=one))["contributions"] for one in (far, regression.coef)
    )
    assert part["far"] < 3.0 * usual["far"]
    assert [one["name"] for one in part["panels"]] == [one["name"] for one in usual["panels"]]


def test_level_2_is_one_part_where_its_coefficients_were_not_kept(regression):
    none = np.full_like(regression.combination, np.nan)
    for old in ({"families": (), "combination": None}, {"combination": none}):
        shares = model_shares(dataclasses.replace(regression, **old))
        np.testing.assert_allclose(shares["all kinds together"], regression.candidate_weights[:, 0])


def test_coverage_counts_labels_inside(regression):
    inside = (regression.lower <= regression.y) & (regression.y <= regression.upper)
    intervals = measure(regression)["intervals"]
    assert intervals["measured"] == np.mean(inside[np.isfinite(regression.lower)])
    last = regression.rounds - intervals["window"]
    assert intervals["coverage"][-1] == pytest.approx(np.mean(inside[last:]), abs=1e-4)


def test_coverage_is_told_by_size_and_time_of_day(regression):
    hours = np.datetime64("2024-01-01") + np.arange(regression.rounds) * np.timedelta64(1, "h")
    part = dataclasses.replace(regression, time=hours.astype("datetime64[us]"))
    intervals = interval_coverage.measure(make_context(part))["intervals"]
    known = np.isfinite(regression.lower)
    inside = ((regression.lower <= regression.y) & (regression.y <= regression.upper))[known]
    small = regression.yhat[known] <= np.quantile(regression.yhat[known], 0.2)
    assert len(intervals["by_size"]) == 5
    assert intervals["by_size"][0] == pytest.approx(np.mean(inside[small]))
    night = (np.arange(regression.rounds) % 24 < 6)[known]
    assert len(intervals["by_quarter"]) == 4
    assert intervals["by_quarter"][0] == pytest.approx(np.mean(inside[night]))
    assert intervals["pinball"] > 0.0
    days = np.datetime64("2024-01-01") + np.arange(regression.rounds) * np.timedelta64(1, "D")
    daily = dataclasses.replace(regression, time=days.astype("datetime64[us]"))
    assert interval_coverage.measure(make_context(daily))["intervals"]["by_quarter"] is None


def test_rounds_without_an_interval_do_not_count(regression):
    lower = regression.lower.copy()
    lower[:100] = math.nan
    part = dataclasses.replace(regression, lower=lower)
    intervals = interval_coverage.measure(make_context(part))["intervals"]
    assert intervals["rounds"] == regression.rounds - 100
    assert intervals["coverage"][0] is None
    none = dataclasses.replace(regression, lower=np.full(len(lower), math.nan))
    assert interval_coverage.measure(make_context(none)) == {"intervals": None}


def test_probabilities_that_were_hardly_given_have_no_point(classification):
    log_odds = np.where(np.arange(900) < 4, 0.1, np.where(np.arange(900) < 9, 1.0, -2.0))
    bins = calibration.measure(make_context(dataclasses.replace(classification, yhat=log_odds)))["calibration"]
    assert bins["count"] == [891, 4, 5]
    assert [one is None for one in bins["came"]] == [False, True, False]


def test_calibration_groups_rows_by_what_was_said(classification):
    bins = calibration.measure(make_context(classification))["calibration"]
    assert sum(bins["count"]) == classification.rounds
    p = sigmoid(classification.yhat)
    middle = (p >= 0.5) & (p < 0.55)
    k = bins["middle"].index(0.525)
    assert bins["count"][k] == np.count_nonzero(middle)
    assert bins["came"][k] == pytest.approx(np.mean(classification.y[middle]), rel=1e-4)


def test_the_spectrum_is_a_share_at_every_moment(regression):
    spectrum = measure(regression)["spectrum"]
    assert np.sum(spectrum["weights"], axis=0) == pytest.approx(1.0, abs=0.01)
    assert spectrum["half_lives"][-1] is None  # never forgets
    assert spectrum["heights"] == sorted(spectrum["heights"])


def test_a_change_of_memory_is_found_where_it_is():
    K = 200
    weights = np.zeros((K, 3))
    weights[:120, 2] = weights[120:, 0] = 1.0
    half_lives = np.array([10.0, 100.0, math.inf])
    (found,) = find_changes(np.arange(1.0, K + 1) * 50, half_lives, weights)
    assert (found.round, found.before, found.after) == (120 * 50, math.inf, 10.0)
    assert not find_changes(np.arange(1.0, K + 1), half_lives, np.full((K, 3), 1.0 / 3.0))
    assert effective_half_life(half_lives, weights)[0] == math.inf


def test_what_moved_most_comes_first_then_and_now():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(500, 3)), rng.normal(size=500)
    Z[250:, 1] += 2.0
    Z[:30, 2] = np.nan
    part = measure(play_run("regression", Z, y, certify=False))["drift"]
    assert part["rows"] == 200
    assert [panel["name"] for panel in part["panels"]][:2] == ["count", "feature 1"]
    first = part["table"][0]
    assert first["gap"] == round(largest_gap(Z[:200, 1], Z[-200:, 1]), 3) > 0.6
    assert max(row["gap"] for row in part["table"][1:]) < 0.2
    assert next(row for row in part["table"] if row["name"] == "feature 2")["missing"] == [0.15, 0.0]
    for panel in part["panels"]:
        assert sum(panel["then"]) == pytest.approx(1.0, abs=0.01)
        assert sum(panel["now"]) == pytest.approx(1.0, abs=0.01)
    assert measure(play_run("regression", Z[100:130], y[100:130], certify=False))["drift"] is None


def test_gaps_are_those_of_distribution_functions():
    a = np.array([1.0, 2.0, 3.0, np.nan])
    assert largest_gap(a, a) == 0.0
    assert largest_gap(a, a + 10.0) == 1.0
    assert largest_gap(a, np.array([np.nan])) == 0.0
    assert largest_gap(np.zeros(10), np.repeat([0.0, 1.0], 5)) == 0.5


def test_contributions_are_medians_in_units_of_the_target():
    Z, y = jumping_rows("regression", 600)
    data = play_run("regression", Z, y, certify=False, snapshots=400)
    wild = data.coef.copy()
    wild[7] = 1e9  # one moment at which another memory led
    part = measure(dataclasses.replace(data, coef=wild))["contributions"]
    assert part["far"] < 1e3
    largest = part["panels"][0]
    j = data.coef_names.index(largest["name"])
    spread = np.std(np.concatenate([data.then, data.now])[:, j])
    a, b = np.linspace(0, len(wild), 41).round().astype(int)[-2:]
    assert largest["values"][-1] == pytest.approx(np.median(wild[a:b, j]) * spread, rel=1e-4)


@pytest.mark.parametrize("rounds", [1, 2, 20_000])
def test_no_curve_grows_with_the_run(rounds):
    data = play_run("regression", *jumping_rows("regression", rounds), certify=False)
    numbers = measure(data)
    for name in ("loss", "recent", "whole", "spectrum", "candidates", "contributions", "intervals"):
        if name == "intervals" and rounds <= 2:
            assert numbers[name] is None, "there is none before the third row"
            continue
        if name == "contributions" and rounds == 1:
            assert numbers[name] is None, "one row does not say how far features usually lie apart"
            continue
        axis = numbers[name]["axis"]["round"]
        assert 1 <= len(axis) <= POINTS
        assert axis[-1] == rounds


def test_times_that_cannot_order_rows_are_not_used():
    Z, y = jumping_rows("regression", 50)
    time = np.datetime64("2020-01-01", "us") + np.arange(50) * np.timedelta64(3600, "s")
    data = play_run("regression", Z, y, certify=False, time=time)
    assert make_timeline(data).spacing == 3600.0
    assert make_timeline(data).axis(np.array([1, 50]))["time"] == ["2020-01-01T00:00:00", "2020-01-03T01:00:00"]
    gap = time.copy()
    gap[25:] += np.timedelta64(1000, "D")
    assert make_timeline(dataclasses.replace(data, time=gap)).spacing == pytest.approx(3600.0 * (48 + 100) / 49)
    back = time.copy()
    back[20] = time[0]
    assert "time goes back at line 22" in make_timeline(play_run("regression", Z, y, certify=False, time=back)).warning
    back[20] = np.datetime64("NaT")
    assert "1 rows have no time" in make_timeline(play_run("regression", Z, y, certify=False, time=back)).warning

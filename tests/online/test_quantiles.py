"""Quantiles and intervals of an online regressor: their identity, what they follow, and what they refuse."""

from __future__ import annotations

import gzip
import math

import numpy as np
import pytest

import undrift as ud
from tests.helpers import DATA
from tests.twins.constants import FIRST_STEP, LEAST_RATIO, LEAST_STEP, STEP_ROUNDS, STEP_TAIL
from undrift import metrics
from undrift.errors import InputError
from undrift.kernels.definitions import IntervalState
from undrift.learners.intervals import LEVELS, QUANTILES, START, TAILS, interval_levels


def changing_spread(seed, rows=3000):
    """Noise whose spread is told by a column of its own, exp(0.6 z)."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, 3))
    return Z, Z[:, 0] - Z[:, 1] + rng.normal(size=rows) * np.exp(0.6 * Z[:, 2])


@pytest.fixture(scope="module")
def learned():
    Z, y = changing_spread(0)
    model = ud.OnlineRegressor(speed="fast")
    return model, Z, y, model.play(Z, y, interval=0.9, quantiles=QUANTILES)


def test_every_width_is_what_its_misses_add_up_to(learned):
    model, _, y, trace = learned
    below, above, _, _ = np.split(model.part("intervals")[len(IntervalState) :], 4)
    served = np.isfinite(trace.lower)
    rounds = np.arange(np.count_nonzero(served))
    steps = np.maximum(LEAST_STEP, FIRST_STEP / np.sqrt(1.0 + rounds / STEP_ROUNDS))
    for k, tail in enumerate(TAILS):
        own = steps * math.sqrt(STEP_TAIL / tail)
        under = y[served] < trace.quantiles[served, len(TAILS) - 1 - k]
        over = y[served] > trace.quantiles[served, len(TAILS) + 1 + k]
        for width, missed in ((below[k], under), (above[k], over)):
            assert math.log(width / START[k]) == pytest.approx(np.sum(own * (missed - tail)), abs=1e-9)
        assert model.coverage()[k].rounds == len(rounds) == len(y) - 2  # the first two rows had no interval
        assert model.coverage()[k].measured == np.mean(~under & ~over)


def test_either_side_keeps_its_level(learned):
    _, _, y, trace = learned
    served = np.isfinite(trace.lower)
    for k, level in enumerate(QUANTILES):
        assert np.mean(y[served] < trace.quantiles[served, k]) == pytest.approx(level, abs=0.015)


def test_widths_follow_the_row(learned):
    model, _, _, _ = learned
    calm, wild = (model.predict_interval([0.0, 0.0, z]) for z in (-1.0, 1.0))
    assert wild.high - wild.low > 2.0 * (calm.high - calm.low)  # exp(1.2) = 3.3


def test_widths_that_follow_the_row_lose_less(learned):
    _, _, y, trace = learned
    late = np.arange(len(y)) >= 500
    loss = metrics.pinball(trace.quantiles[late, 4], y[late], level=0.1)
    widths = trace.quantiles[late, 8] - trace.quantiles[late, 4]
    fixed = metrics.pinball(trace.quantiles[late, 8] - np.mean(widths), y[late], level=0.1)
    assert loss < 0.9 * fixed


def test_either_side_has_its_own_width():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(3000, 2))
    y = Z[:, 0] + rng.gamma(1.0, size=3000)
    model = ud.OnlineRegressor(speed="fast")
    model.play(Z, y)
    low, median, high = model.predict_quantiles([0.0, 0.0])
    assert median < model.predict([0.0, 0.0])  # the mean of such noise is above its median
    assert high - median > 2.0 * (median - low)


def test_quantiles_between_tracked_ones_lie_between_them(learned):
    model, Z, _, trace = learned
    levels = np.sort(np.concatenate([QUANTILES, [0.007, 0.3, 0.49, 0.62, 0.994]]))
    found = model.predict_quantiles(Z[:5], levels)
    assert found.shape == (5, len(levels))
    assert (np.diff(found, axis=1) > 0.0).all()
    one = model.predict_quantiles(Z[0], [0.05, 0.95])
    assert one.shape == (2,)
    assert tuple(one) == model.predict_interval(Z[0], 0.9)
    assert np.array_equal(trace.quantiles[:, [3, -4]], np.column_stack([trace.lower, trace.upper]))
    for level, tail in zip(LEVELS, TAILS, strict=True):
        assert interval_levels(level).tolist() == [tail, 1.0 - tail]


@pytest.mark.parametrize("delay", [0, 7])
def test_what_was_served_is_what_was_promised(delay):
    Z, y = changing_spread(2, 300)
    model, played = ud.OnlineRegressor(speed="fast"), ud.OnlineRegressor(speed="fast")
    trace = played.play(Z, y, delay=delay, interval=0.8, quantiles=(0.5,))
    waiting = []
    for t in range(len(y)):
        promised = model.predict_interval(Z[t], 0.8), model.predict_quantiles(Z[t], [0.5])[0]
        waiting.append(model.ask(Z[t]))
        assert (waiting[-1].interval(0.8), waiting[-1].quantile(0.5)) == promised
        assert (*promised[0], promised[1]) == (trace.lower[t], trace.upper[t], trace.quantiles[t, 0])
        if t >= delay:
            model.tell(waiting[t - delay], y[t - delay])
    assert np.array_equal(model._core.state, played._core.state)


def test_without_an_interval_quantiles_are_infinite_and_the_median_is_the_prediction():
    model = ud.OnlineRegressor(speed="fast")
    assert model.predict_quantiles([1.0, 2.0]).tolist() == [-np.inf, 0.0, np.inf]
    model.learn([1.0, 2.0], 3.0)
    assert model.predict_quantiles([1.0, 2.0], [0.3, 0.5, 0.6]).tolist() == [-np.inf, 3.0, np.inf]


@pytest.mark.parametrize("speed", ["fast", "best"])
def test_everything_at_once_is_what_each_call_predicts(speed):
    Z, y = changing_spread(4, 400)
    Z = np.column_stack([Z, y + 1.0])
    model = ud.OnlineRegressor(speed=speed, candidates=[3], limits=(-2.0, None))
    for learned in (0, 1, 300):  # with trees at last
        model.play(Z[model.rounds : learned], y[model.rounds : learned])
        for rows in (Z[300:], Z[300]):
            yhat, ends, quantiles = model.predict_all(rows, 0.75, (0.2, 0.6), elapsed=2.5)
            assert np.array_equal(yhat, model.predict(rows, elapsed=2.5))
            assert np.array_equal(ends, model.predict_interval(rows, 0.75, elapsed=2.5))
            assert np.array_equal(quantiles, model.predict_quantiles(rows, (0.2, 0.6), elapsed=2.5))
            assert np.shape(quantiles) == (*np.shape(yhat), 2)


def test_limits_cut_what_is_served_and_nothing_else():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(800, 2))
    y = rng.poisson(np.exp(0.5 * Z[:, 0])).astype(float)
    model, free = ud.OnlineRegressor(speed="fast", limits=(0, None)), ud.OnlineRegressor(speed="fast")
    cut, uncut = model.play(Z, y, interval=0.95), free.play(Z, y, interval=0.95)
    assert uncut.lower[500:].min() < 0.0
    assert np.array_equal(cut.lower, np.maximum(uncut.lower, 0.0))
    assert np.array_equal(cut.upper, uncut.upper)
    assert np.array_equal(cut.yhat, uncut.yhat)
    assert model.predict_interval(Z[0], 0.99).low == model.ask(Z[0]).interval(0.99).low == 0.0
    assert model.clone().parameters == model.copy().parameters == model.parameters
    assert model.copy().predict_interval(Z[0], 0.99).low == 0.0


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ((1.0, 0.0), r"the lower one of limits must be below the upper one, got \(1.0, 0.0\)"),
        ((0.0,), r"limits must be two numbers or None, such as \(0, None\), got \(0.0,\)"),
        (0.0, "limits must be two numbers or None"),
        (("a", None), "limits must be a number"),
    ],
)
def test_wrong_limits_are_refused(limits, words):
    with pytest.raises(InputError, match=words):
        ud.OnlineRegressor(limits=limits)


def test_wrong_levels_are_refused(learned):
    model, Z, _, _ = learned
    with pytest.raises(InputError, match=r"level must be in \[0.5, 0.99\], got 0.999"):
        model.predict_interval(Z[0], level=0.999)
    with pytest.raises(InputError, match=r"levels must be in \[0.005, 0.995\], got 0.999"):
        model.predict_quantiles(Z[0], [0.5, 0.999])
    with pytest.raises(InputError, match=r"levels must be in \[0.005, 0.995\], got 0.001"):
        model.copy().ask(Z[0]).quantile(0.001)


def test_levels_between_those_that_are_followed_are_served_as_they_are_predicted(learned):
    model, Z, _, _ = learned
    model = model.copy()
    promised = model.predict_quantiles(Z[0], [0.3, 0.77]).tolist(), model.predict_interval(Z[0], 0.85)
    served = model.ask(Z[0])
    assert ([served.quantile(0.3), served.quantile(0.77)], served.interval(0.85)) == promised
    assert served.interval(0.8).low < served.interval(0.77).low


def test_columns_that_never_change_stay_harmless():
    rng = np.random.default_rng(4)
    Z = np.column_stack([np.ones(20_000), np.zeros(20_000), rng.normal(size=20_000)])
    Z = np.column_stack([Z, Z[:, 2]])
    y = Z[:, 2] + rng.normal(size=20_000)
    model = ud.OnlineRegressor(speed="fast")
    trace = model.play(Z, y, interval=0.9)
    P = model.part("spread.covariance")
    assert np.linalg.eigvalsh(P).min() > 0.0
    assert (P == P.T).all()
    widths = (trace.upper - trace.lower)[10_000:]
    assert widths.mean() == pytest.approx(2 * 1.645, rel=0.05)
    assert widths.std() < 0.2 * widths.mean()


def worst_window(inside, rows=100):
    """Return the least share of consecutive rows that were inside."""
    return np.min(np.convolve(inside, np.ones(rows) / rows, "valid"))


def coverage_by_place(inside, length):
    """Return the coverage at every place of a season."""
    return np.array([np.mean(inside[place::length]) for place in range(length)])


def play_inside(Z, y, **settings):
    """Return which labels, from row 10 on, were inside of their 90% interval, and the mean interval score."""
    trace = ud.OnlineRegressor(**settings).play(Z, y, interval=0.9)
    low, high, y = trace.lower[10:], trace.upper[10:], y[10:]
    missed = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return missed == 0.0, float(np.mean(high - low + 20.0 * missed))


def test_misses_do_not_follow_each_other_for_long():
    found = []
    for seed in range(8):
        rng = np.random.default_rng([seed, 7])
        Z = rng.normal(size=(1600, 2))
        spread = np.where(np.arange(1600) // 400 % 2, 3.0, 1.0)  # a change of regime every 400 rows
        inside, _ = play_inside(Z, Z[:, 0] + spread * rng.normal(size=1600), speed="fast")
        assert np.mean(inside) == pytest.approx(0.9, abs=0.015)
        found.append(worst_window(inside))
    assert np.mean(found) >= 0.82  # 0.77 without a response to misses


@pytest.mark.parametrize("length", [7, 24, 48, 96])
def test_places_of_a_season_are_covered_alike(length):
    rng = np.random.default_rng(length)
    rows = 4800 + 100 * length
    Z = rng.normal(size=(rows, 2))
    spread = np.where(np.arange(rows) % length % 4 == 3, 3.0, 1.0)  # no feature shows the place
    inside, _ = play_inside(Z, Z[:, 0] + spread * rng.normal(size=rows), speed="fast")
    shares = coverage_by_place(inside[rows // 4 :], length)
    assert shares.min() >= 0.8
    assert shares.std() < 0.04


def test_late_labels_keep_the_places_of_a_season():
    rng = np.random.default_rng(8)
    Z = rng.normal(size=(6000, 2))
    hour = np.arange(6000) % 24
    y = Z[:, 0] + np.where(hour == 3, 4.0, 1.0) * rng.normal(size=6000)
    trace = ud.OnlineRegressor(speed="fast").play(Z, y, delay=10, interval=0.9)
    late = slice(2000, 5990)
    widths = (trace.upper - trace.lower)[late]
    assert np.mean(widths[hour[late] == 3]) > 2.0 * np.mean(widths[hour[late] != 3])


@pytest.mark.parametrize(
    ("name", "burn", "before"), [("daily_climate", 500, 6.998), ("elec2_demand", 300, 0.09454)]
)  # mean interval scores of version 0.2, whose worst windows cover .78 to .84
def test_the_worst_window_around_public_forecasts_is_covered(name, burn, before):
    table = read_numbers(f"intervals/{name}.csv.gz")[burn:]
    each = [play_inside(table[:, [k]].copy(), table[:, 0].copy()) for k in range(1, table.shape[1])]
    windows = sorted(worst_window(inside) for inside, _ in each)
    assert all(0.88 <= np.mean(inside) <= 0.92 for inside, _ in each)
    assert windows[0] >= 0.825
    assert windows[1] >= 0.835
    assert np.mean([score for _, score in each]) <= 1.01 * before


def test_every_hour_of_electricity_demand_is_covered():
    demand = read_numbers("series/vic_electricity.csv.gz")[:, 0]
    t = np.arange(336, len(demand))
    angle = 2.0 * np.pi * t / 48.0
    Z = np.column_stack([np.sin(angle), np.cos(angle), np.sin(2.0 * angle), np.cos(2.0 * angle)])
    Z = np.column_stack([Z, demand[t - 48], demand[t - 336]])
    inside, _ = play_inside(Z, demand[t])
    shares = coverage_by_place(np.roll(inside, 10), 48).reshape(24, 2).mean(axis=1)
    assert shares.min() >= 0.85
    assert shares.max() <= 0.95


def test_seasons_survive_predictions_without_error():
    rng = np.random.default_rng(9)
    y = np.concatenate([rng.normal(size=300), np.zeros(20_000), rng.normal(size=300)])
    model = ud.OnlineRegressor(speed="fast")
    model.play(np.ones((len(y), 1)), y)
    assert np.isfinite(model._core.state).all()
    _, sums, places = np.split(model.part("seasons"), [5, 9])
    means = np.split(places, np.cumsum([7, 24, 48]))
    np.testing.assert_allclose(sums, [np.sum(part) for part in means])
    assert min(np.min(part) for part in means) >= LEAST_RATIO


def read_numbers(name):
    """Return the columns of a table of the data folder after its time; what is no number is NaN."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here; set UNDRIFT_DATA")
    with gzip.open(path, "rt") as file:
        return np.genfromtxt(file, delimiter=",", skip_header=1)[:, 1:]

"""Forecasts by banks of smoothers: what they can forecast, what must not break them, and how they go on from files."""

import itertools

import numpy as np
import pytest

from benchmarks.forecast_series import last_known, make_series, naive_forecast
from undrift.forecast import Forecaster, core
from undrift.forecast.smoothers import POSITIVE, REFUSED, UNSEEN, SmootherBanks, season_sets
from undrift.kernels.definitions import INPUT_LIMIT

pytestmark = pytest.mark.filterwarnings("error")


def rms(yhat, y, origins):
    """Return the root mean squared error over all steps of the forecasts made at some origins."""
    steps = np.arange(1, yhat.shape[1] + 1)
    return float(np.sqrt(np.mean((yhat[origins] - y[np.asarray(origins)[:, None] + steps]) ** 2)))


def daily(rows, *, seed=1):
    rng = np.random.default_rng(seed)
    return 10.0 + 3.0 * np.sin(2.0 * np.pi * np.arange(rows) / 24.0) + 0.3 * rng.normal(size=rows)


def test_a_season_with_trend_and_no_noise_is_forecast_after_a_few_seasons():
    t = np.arange(400)
    y = np.random.default_rng(0).normal(size=12)[t % 12] + 0.05 * t
    trace = Forecaster(6, 12).play(y)
    assert rms(trace.yhat, y, range(48, 96)) < 0.1 * y[:60].std()
    assert rms(trace.yhat, y, range(100, 190)) < 0.03
    bank = SmootherBanks(1, season_sets((12,), ()), 6).play(0, y[:, None])
    for k in range(2):  # the bank alone finds the trend later
        assert rms(bank[:, 0, k], y, range(300, 390)) < 0.02


def test_the_growth_of_last_season_is_forecast_exactly():
    """The candidate "last season and its growth" has no error on a season with a trend, also beyond one season."""
    t = np.arange(80)
    y = np.random.default_rng(0).normal(size=7)[t % 7] + 0.5 * t
    model = Forecaster(16, 7)
    model.play(y[:60])
    said = model._core.answers[(model._core.rows.total - 1) % 16, 0]
    growth, season = (said[core.NAIVE.index(name)] for name in ("last season and its growth", "same as last season"))
    np.testing.assert_allclose(growth, y[60:76], rtol=1e-12)
    np.testing.assert_allclose(growth - season, 3.5 * np.repeat([1.0, 2.0, 3.0], [7, 7, 2]), rtol=1e-12)


def test_a_day_found_without_times_has_a_week_too():
    assert season_sets((24,), ())[-1] == (24, 168)
    rng, t = np.random.default_rng(0), np.arange(24 * 7 * 6)
    y = (
        10.0
        + 3.0 * np.sin(2.0 * np.pi * t / 24.0) * np.where(t // 24 % 7 < 5, 1.0, 0.3)
        + 0.2 * rng.normal(size=len(t))
    )
    origins = range(24 * 7 * 4, len(t) - 25)
    trace = Forecaster(24, 24).play(y)  # the week is not given
    assert rms(trace.yhat, y, origins) < 0.5 * rms(np.stack([np.roll(y, 24 - h) for h in range(1, 25)], 1), y, origins)


def test_multiplicative_seasons_are_forecast_better_by_logarithms():
    for seed in range(3):
        rng, t = np.random.default_rng(seed), np.arange(400)
        y = np.exp(0.005 * t + np.sin(2.0 * np.pi * t / 12.0) + 0.05 * rng.normal(size=len(t)))
        shift = y.max() + 1.0
        positive, negative = (Forecaster(6, 12).play(z).yhat for z in (y, y - shift))
        assert rms(positive, y, range(100, 390)) < 0.9 * rms(negative, y - shift, range(100, 390))


@pytest.mark.parametrize("refused", [0.0, -2.0])
def test_logarithms_end_with_the_first_value_that_has_none(tmp_path, refused):
    y = np.abs(daily(150))
    y[80], y[30:33] = refused, np.nan
    whole = Forecaster(5, 24)
    trace = whole.play(y)
    model, parts, edges = Forecaster(5, 24), [], (0, 1, 31, 79, 80, 81, 90, 150)
    for k, (a, b) in enumerate(itertools.pairwise(edges)):
        parts.append(model.play(y[a:b]).yhat)
        if model._core.banks is not None:
            assert model._core.banks.logs[0, 0] == (REFUSED if b > 80 else POSITIVE)
        model.save(tmp_path / f"{k}.undrift")
        model = Forecaster.load(tmp_path / f"{k}.undrift")
    assert np.concatenate(parts).tobytes() == trace.yhat.tobytes()
    assert model == whole
    banks = whole._core.banks
    assert banks.outputs[0, :2].tobytes() == banks.outputs[0, 2:].tobytes(), "without logarithms both banks are one"


def test_blocks_of_rows_give_the_bits_of_single_rows():
    y = np.column_stack([np.abs(daily(120)), daily(120, seed=2) - 10.0])
    y[40:44] = np.nan
    whole, single = (SmootherBanks(2, season_sets((24,), ()), 7) for _ in range(2))
    assert (whole.logs[:, 0] == UNSEEN).all()
    out = whole.play(0, y)
    rows = [single.play(t, y[t : t + 1])[0] for t in range(120)]
    assert np.array(rows).tobytes() == out.tobytes()
    for name, array in whole.arrays().items():
        assert array.tobytes() == single.arrays()[name].tobytes()


@pytest.mark.parametrize("size", [1e-70, 1.0, 1e74])
def test_series_of_any_size_have_finite_forecasts(size):
    y = size * np.abs(daily(150)) / 20.0
    y[60:70] = np.nan
    mixed = np.where(np.arange(150) < 75, 1e-70 * daily(150), y)  # grows by as much as there is
    for values in (y, -y, mixed, np.minimum(mixed * 1e3, INPUT_LIMIT)):
        model = Forecaster(5, 12)
        trace = model.play(values)
        assert np.isfinite(trace.yhat[trace.known]).all()
        for array in (*model._core.weights.arrays().values(), *model._core.banks.arrays().values()):
            assert np.isfinite(array).all()


def test_forecasts_of_logarithms_stay_below_the_largest_value():
    y = 10.0 ** np.linspace(-70.0, 74.0, 30)
    out = SmootherBanks(1, [()], 5).play(0, y[:, None])[:, 0, 2:]
    assert 1e74 < out.max() <= INPUT_LIMIT * (1.0 + 1e-12)


def score(kind, period, seed, *, timed, horizon=6):
    """Return the mean squared error of a synthetic series, and the better naive forecast's."""
    series = make_series(kind, period, seed, timed=timed)
    y = series.values[:, 0]
    origins, steps = np.arange(series.first, len(y) - horizon), np.arange(1, horizon + 1)
    truth = y[origins[:, None] + steps]
    naive = [
        np.stack([naive_forecast(last_known(series.values, season)[:, 0], origins, h, season) for h in steps], axis=1)
        for season in (1, period)
    ]
    forecasts = Forecaster(horizon).play(y, times=series.times).yhat[origins]
    losses = [np.nanmean((one - truth) ** 2) for one in (forecasts, *naive)]
    return losses[0], min(losses[1:])


@pytest.mark.slow
def test_forecasts_are_not_worse_than_the_better_naive_one(monkeypatch):
    """Means over seeds; and smoothers earn at least 3% on average, so that leaving them out is noticed."""
    kinds = ("seasonal", "trending", "intermittent", "gapped")

    def ratios():
        for kind in kinds:
            for period in (7, 12):
                ours, naive = np.mean([score(kind, period, 100 + k, timed=True) for k in range(4)], axis=0)
                yield ours / naive

    with_smoothers = np.array(list(ratios()))
    assert with_smoothers.max() < 1.02
    assert with_smoothers.mean() < 0.7
    monkeypatch.setattr(core, "FAMILIES", (*core.FAMILIES[:-1], (core.FAMILIES[-1][0], 1e-300)))
    assert with_smoothers.mean() < 0.97 * np.mean(list(ratios()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["constant first", "zero first", "stuck", "spike"])
def test_weights_recover_from_faults_of_a_sensor(kind):
    """Some hundred rows after the fault the forecasts are nearly as good as without it: 1.25 times after `stuck`."""
    ratios = []
    for seed in range(1, 5):
        y = daily(700, seed=seed)
        expected = rms(Forecaster(6, 24).play(y).yhat, y, range(560, 690))
        if kind == "stuck":
            y[200:400] = y[200]
        elif kind == "spike":
            y[400] = 1e6
        else:
            y[:200] = 10.1 if kind == "constant first" else 0.0
        ratios.append(rms(Forecaster(6, 24).play(y).yhat, y, range(560, 690)) / expected)
    assert np.mean(ratios) < 1.3


@pytest.mark.parametrize("seed", [1, 2])
def test_after_a_jump_of_the_level_forecasts_are_soon_better_than_the_last_value(seed):
    y = daily(900, seed=seed)
    y[520:] += 50.0
    origins = range(620, 890)
    assert rms(Forecaster(6, 24).play(y).yhat, y, origins) < 0.6 * rms(np.repeat(y[:, None], 6, axis=1), y, origins)


def test_smoothers_hold_no_season_that_is_longer_than_the_calendars():
    """A given season of 100,000 rows would take 36 smoothers of that length twice, for each series."""
    model = Forecaster(2, (24, 100_000))
    model.play(daily(40, seed=1))
    assert {*model._core.banks.periods.ravel().tolist()} == {0, 24, 168}
    assert model.seasons == (24, 100_000)

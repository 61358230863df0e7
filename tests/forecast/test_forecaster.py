"""Forecaster: the same bits however rows come, no look ahead, no NaN, and forecasts worth having."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undrift as ud
from tests.forecast.series import errors, random_walk, seasonal, with_holes
from undrift.forecast import Forecaster

pytestmark = pytest.mark.filterwarnings("error")


def assert_same(a, b):
    for one, other in zip(a, b, strict=True):
        assert one.tobytes() == other.tobytes()


def joined(parts):
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


@given(cuts=st.lists(st.integers(0, 100), max_size=3), how=st.sampled_from(["plain", "copy", "pickle", "file"]))
@settings(max_examples=6, deadline=None)
def test_cutting_a_series_anywhere_changes_no_bit(tmp_path_factory, cuts, how):
    y = with_holes(seasonal(100, 7), seed=3)
    Y = np.column_stack([y, random_walk(100)])
    known = np.cos(np.arange(110.0))[:, None]
    times = np.datetime64("2024-01-01T00", "s") + np.arange(100) * np.timedelta64(3600, "s")
    whole = Forecaster(5, every=3600)
    trace = whole.play(Y, known=known, times=times)
    model, parts, edges = Forecaster(5, every=3600), [], [0, *sorted(cuts), 100]
    for a, b in itertools.pairwise(edges):
        if how == "copy":
            model = model.copy()
        elif how == "pickle":
            model = pickle.loads(pickle.dumps(model))
        elif how == "file":
            path = tmp_path_factory.mktemp("cut") / "model.undrift"
            model.save(path)
            model = Forecaster.load(path)
        parts.append(model.play(Y[a:b], known=known[a:], times=times[a:b]))
    assert_same(joined(parts), trace)
    assert model == whole


def test_rows_one_by_one_are_the_same_as_a_block():
    y = with_holes(seasonal(140, 12))
    whole, model = Forecaster(4), Forecaster(4)
    trace = whole.play(y)
    for t, value in enumerate(y):
        model.observe(value)
        if trace.known[t]:
            assert_same(model.forecast(), (trace.yhat[t], trace.lower[t], trace.upper[t]))
    assert model == whole


def test_known_columns_one_by_one_are_the_same_as_a_block():
    y, known = seasonal(60, 12), np.sin(np.arange(64.0))
    whole, model = Forecaster(4), Forecaster(4)
    trace = whole.play(y, known=known)
    for t, value in enumerate(y):
        model.observe(value, known=known[t : t + 5])
    assert_same(model.forecast(), (trace.yhat[-1], trace.lower[-1], trace.upper[-1]))


def test_the_future_does_not_change_a_forecast():
    y = seasonal(300, 12)
    other = y.copy()
    other[200:] = 1e6
    one, two = Forecaster(6).play(y), Forecaster(6).play(other)
    for a, b in zip(one, two, strict=True):
        assert a[:200].tobytes() == b[:200].tobytes()


def test_units_do_not_matter():
    y = with_holes(seasonal(200, 12))
    one = Forecaster(6).play(y)
    four = Forecaster(6).play(4.0 * y)
    np.testing.assert_allclose(four.yhat, 4.0 * one.yhat, rtol=1e-9, atol=1e-9)


def test_where_zero_lies_does_not_matter_to_values_that_have_no_logarithm():
    y = with_holes(seasonal(200, 12))
    one, moved = Forecaster(6).play(y - 100.0), Forecaster(6).play(y - 1000.0)
    np.testing.assert_allclose(moved.yhat[20:] + 900.0, one.yhat[20:], atol=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9, 40])
@pytest.mark.parametrize(
    "value", [lambda t: 0.0 * t, lambda t: 7.0 + 0.0 * t, lambda t: 1e75 * (-1.0) ** t, lambda t: 1e-200 * t]
)
def test_few_rows_constants_and_extremes_give_finite_forecasts(rows, value):
    for season in (None, 0, 24, 5000):
        model = Forecaster(6, season)
        trace = model.play(value(np.arange(float(rows))))
        assert np.isfinite(trace.yhat).all()
        assert not np.isnan(trace.lower).any()
        assert not np.isnan(trace.upper).any()
        assert (trace.lower <= trace.upper).all()
        assert model.forecast().yhat.shape == (6,)


def test_a_constant_series_is_forecast_exactly():
    model = Forecaster(6)
    trace = model.play(np.full(100, 3.25))
    assert (trace.yhat == 3.25).all()
    assert (model.forecast().upper == 3.25).all()


@given(st.lists(st.one_of(st.none(), st.floats(-1e75, 1e75)), min_size=1, max_size=60), st.integers(1, 9))
@settings(max_examples=25, deadline=None)
def test_nothing_ever_outputs_nan(values, horizon):
    y = np.array([np.nan if one is None else one for one in values])
    trace = Forecaster(horizon).play(y)
    assert np.isfinite(trace.yhat).all()
    assert not np.isnan(trace.lower).any()
    assert not np.isnan(trace.upper).any()


def test_a_series_may_begin_later_than_another():
    Y = np.column_stack([seasonal(80, 8), seasonal(80, 8, seed=1)])
    Y[:30, 1] = np.nan
    model = Forecaster(3)
    trace = model.play(Y)
    assert not trace.known[:30, 1].any()
    assert trace.known[30:].all()
    assert (trace.yhat[:30, 1] == 0.0).all()
    assert np.isfinite(trace.yhat).all()


def test_rows_missing_between_times_are_filled_in():
    times = np.datetime64("2024-03-01", "s") + np.arange(90) * np.timedelta64(86400, "s")
    y = seasonal(90, 7)
    holes = y.copy()
    gone = np.array([20, 21, 50])
    holes[gone] = np.nan
    kept = np.delete(np.arange(90), gone)
    one, two = Forecaster(5), Forecaster(5)
    full = one.play(holes, times=times)
    part = two.play(y[kept], times=times[kept])
    assert_same(part, [column[kept] for column in full])
    assert one == two
    assert one.rows == 90
    assert one.times()[0] == np.datetime64("2024-05-30")


@pytest.mark.parametrize("gap", [12, 30, 100])
def test_a_gap_costs_neither_the_rows_in_it_nor_those_after_it(gap):
    y = 4.0 * seasonal(700, 24, noise=0.2)
    holes = y.copy()
    holes[500 : 500 + gap] = np.nan
    off, _ = errors(Forecaster(24).play(y), y, 500)
    with_gap, _ = errors(Forecaster(24).play(holes), y, 500)
    assert np.nanmean(with_gap**2) < 1.15 * np.nanmean(off**2)


def test_months_are_steps_of_the_calendar():
    months = np.arange(np.datetime64("2015-01"), np.datetime64("2023-01")).astype("datetime64[s]")
    model = Forecaster(3)
    model.play(np.delete(seasonal(96, 12), 40), times=np.delete(months, 40))
    assert model.rows == 96
    assert model.times().astype("datetime64[D]").astype(str).tolist() == ["2023-01-01", "2023-02-01", "2023-03-01"]


def test_a_season_is_found_and_beats_both_naive_forecasts():
    y = seasonal(1000, 24, trend=0.002)
    model = Forecaster(24)
    off, _ = errors(model.play(y), y, 500)
    assert model.seasons == (24,)
    at = np.arange(500, len(y) - 24)
    truth = np.stack([y[at + h] for h in range(1, 25)], axis=1)
    last = np.mean((y[at][:, None] - truth) ** 2)
    season = np.mean((np.stack([y[at + h - 24] for h in range(1, 25)], axis=1) - truth) ** 2)
    assert np.mean(off**2) < 0.7 * season < last


@pytest.mark.parametrize(("season", "seconds"), [(24, 3600), (7, 86400)])
def test_a_short_file_is_forecast_as_well_as_by_its_last_season(season, seconds):
    times = np.datetime64("2024-01-01T00", "s") + np.arange(150) * np.timedelta64(seconds, "s")
    ratios = []
    for seed in range(3):
        y = seasonal(150, season, seed=seed)
        off, _ = errors(Forecaster(season).play(y, times=times), y, season)
        at = np.arange(season, 150 - season)
        naive = np.stack([y[at + h] - y[at + h - season] for h in range(1, season + 1)], axis=1)
        ratios.append(np.mean(off**2) / np.mean(naive**2))
    assert np.mean(ratios) < 1.1


def test_a_random_walk_costs_at_most_one_percent_of_no_change():
    Y = np.cumsum(np.random.default_rng(4).normal(size=(800, 2)), axis=0)
    trace = Forecaster(12).play(Y)
    at = np.arange(100, 788)
    truth = np.stack([Y[at + h] for h in range(1, 13)], axis=2)
    assert np.mean((trace.yhat[at] - truth) ** 2) <= 1.01 * np.mean((Y[at][:, :, None] - truth) ** 2)


def test_intervals_cover_every_step():
    rows = 2500
    Y = np.column_stack([seasonal(rows, 24, noise=0.5), seasonal(rows, 24, trend=0.01, seed=2), seasonal(rows, seed=5)])
    Y[:, 2] = with_holes(Y[:, 2])
    trace = Forecaster(24).play(Y)
    for s in range(3):
        one = type(trace)(*(column[:, s] for column in trace))
        _, inside = errors(one, Y[:, s], 300)
        assert np.abs(np.nanmean(inside, axis=0) - 0.9).max() <= 0.02


def test_known_columns_help():
    rng = np.random.default_rng(0)
    known = (rng.random(310) < 0.2).astype(float)
    y = 5.0 * known[:300] + 0.2 * rng.normal(size=300)
    with_them, _ = errors(Forecaster(5).play(y, known=known), y, 100)
    without, _ = errors(Forecaster(5).play(y), y, 100)
    assert np.mean(with_them**2) < 0.2 * np.mean(without**2)


def test_a_spike_is_forgotten():
    y = seasonal(600, 24)
    calm, _ = errors(Forecaster(6).play(y), y, 400)
    bad = y.copy()
    bad[300] = -9999.0
    off, _ = errors(Forecaster(6).play(bad), bad, 400)
    assert np.mean(off**2) < 1.3 * np.mean(calm**2)


def test_it_is_exported():
    assert ud.Forecaster is Forecaster


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_long_frames_are_the_same_as_arrays(library, tmp_path):
    frames = pytest.importorskip(library)
    Y = np.column_stack([seasonal(60, 7), random_walk(60)])
    times = np.datetime64("2024-01-01", "us") + np.arange(60) * np.timedelta64(1, "D")

    def frame(rows):
        columns = {"unique_id": ["a"] * len(rows) + ["b"] * len(rows), "ds": np.tile(times[rows], 2)}
        return frames.DataFrame(columns | {"y": Y[rows].T.ravel()})

    one, two = Forecaster(4), Forecaster(4)
    trace = one.play(Y, times=times)
    two.play(frame(np.arange(40)))
    two.save(tmp_path / "model")
    two = Forecaster.load(tmp_path / "model")
    rest = two.play(frame(np.arange(40, 60)))
    assert two.names == ["a", "b"]
    assert rest.yhat.tobytes() == trace.yhat[40:].tobytes()
    table = two.forecast_table()
    assert table["unique_id"] == ["a"] * 4 + ["b"] * 4
    assert table["ds"][0] == np.datetime64("2024-03-01")
    assert table["yhat"].tolist() == one.forecast().yhat.ravel().tolist()
    with pytest.raises(ud.errors.InputError, match="series 'c' was not there before"):
        two.play(frames.DataFrame({"unique_id": ["c"], "ds": times[:1], "y": [1.0]}))
    with pytest.raises(ud.errors.InputError, match="two rows of one time"):
        two.play(frames.DataFrame({"unique_id": ["a", "a"], "ds": times[[0, 0]], "y": [1.0, 2.0]}))


def test_a_horizon_beyond_memory_is_one_sentence():
    with pytest.raises(ud.errors.InputError, match=r"1000 series, 1000 steps ahead, need .* GB, more than 4"):
        Forecaster(1000).play(np.zeros((2, 1000)))

"""`nonnegative`: forecasts of counts are not below 0, and nothing else changes."""

import numpy as np
import polars as pl
import pytest

import undrift as ud
from tests.run.forecast.test_forecast_files import hours, state, write
from undrift.cli.app import run
from undrift.errors import InputError

STEPS = 6


def counts(rows=300, *, seed=0):
    """Counts that are often 0 and fall in the middle, so that a linear forecast goes below 0."""
    rng, t = np.random.default_rng(seed), np.arange(rows)
    rate = 3.0 * (1.0 + np.sin(2.0 * np.pi * t / 12.0)) * np.where(t % 100 < 50, 1.0, 0.05)
    return rng.poisson(rate).astype(float)


def play(y, nonnegative=None):
    return ud.Forecaster(STEPS, nonnegative=nonnegative).play(y)


def test_forecasts_of_counts_are_cut_at_zero_and_otherwise_the_same():
    y = counts()
    cut, free = play(y), play(y, nonnegative=False)
    assert (free.yhat < 0.0).any()
    assert (free.lower < 0.0).any()
    np.testing.assert_array_equal(cut.yhat, np.maximum(free.yhat, 0.0))
    assert (cut.lower >= 0.0).all()
    assert (cut.upper >= cut.yhat).all()
    np.testing.assert_array_equal(play(y, nonnegative=True).lower, cut.lower)


def test_cutting_never_costs_while_values_are_not_negative():
    for seed in range(3):
        y = counts(seed=seed)
        at = np.arange(20, len(y) - STEPS)
        truth = np.stack([y[at + h] for h in range(1, STEPS + 1)], axis=1)
        cut, free = (np.sum((play(y, option).yhat[at] - truth) ** 2) for option in (None, False))
        assert cut < free


def test_intervals_are_judged_around_what_was_served():
    y, model = counts(), ud.Forecaster(STEPS)
    trace = model.play(y)
    for h in range(1, STEPS + 1):
        inside = (trace.lower[:-h, h - 1] <= y[h:]) & (y[h:] <= trace.upper[:-h, h - 1])
        assert model.coverage()[h - 1] == pytest.approx(inside[1:].mean(), abs=2.0 / len(y))
    free = play(y, nonnegative=False)
    below = free.yhat < 0.0
    # The residuals of forecasts served as 0 are smaller than those of forecasts below 0, and so are later intervals.
    assert (cut_widths := (trace.upper - trace.yhat)[below][-50:].mean()) < (free.upper - free.yhat)[below][-50:].mean()
    assert cut_widths > 0.0


def test_a_value_below_zero_ends_it_for_its_series_alone():
    Y = np.column_stack([counts(), counts(seed=1)])
    Y[200, 0] = -1.0
    trace, free = play(Y), play(Y, nonnegative=False)
    assert (trace.yhat[:200] >= 0.0).all()
    assert (free.yhat[:200, 0] < 0.0).any()
    np.testing.assert_array_equal(trace.yhat[200:, 0], free.yhat[200:, 0])
    assert (free.yhat[200:, 1] < 0.0).any()
    assert (trace.yhat[:, 1] >= 0.0).all()
    always = play(Y, nonnegative=True)
    assert (always.yhat >= 0.0).all()
    assert (always.lower >= 0.0).all()


@pytest.mark.parametrize("nonnegative", [None, True, False])
@pytest.mark.parametrize("at", [50, 150, 250])
def test_a_saved_forecaster_goes_on_with_the_same_bits(tmp_path, nonnegative, at):
    Y = np.column_stack([counts(), counts(seed=1)])
    Y[100, 0] = -1.0
    whole, model = ud.Forecaster(STEPS, nonnegative=nonnegative), ud.Forecaster(STEPS, nonnegative=nonnegative)
    trace = whole.play(Y)
    model.play(Y[:at])
    model.save(tmp_path / "model")
    again = ud.Forecaster.load(tmp_path / "model")
    assert again.nonnegative is nonnegative
    rest = again.play(Y[at:])
    for one, other in zip(rest, trace, strict=True):
        assert one.tobytes() == other[at:].tobytes()
    assert again == whole
    assert again.clone().nonnegative is nonnegative


def test_a_series_without_a_value_has_an_interval_without_ends():
    model = ud.Forecaster(2, nonnegative=True)
    model.observe([np.nan, 1.0])
    np.testing.assert_array_equal(model.forecast().lower, [[-np.inf] * 2, [0.0] * 2])
    np.testing.assert_array_equal(model.lower_limits, [-np.inf, 0.0])


def test_what_is_no_choice_is_refused():
    with pytest.raises(InputError, match="nonnegative must be True or False"):
        ud.Forecaster(nonnegative="yes")


def test_the_command_takes_it_and_update_keeps_it(tmp_path):
    y = np.concatenate([counts(100), np.zeros(20)])
    first, rest = (write(tmp_path / f"{k}.csv", hours(120), y, keep=k) for k in (range(80), range(80, 120)))
    for option, expected in (([], None), (["--nonnegative"], True), (["--no-nonnegative"], False)):
        out = tmp_path / f"{expected}"
        command = ["forecast", str(first), "-t", "value", "-H", "6", "-o", str(out), "--no-report", "-q", *option]
        assert run(command) == 0
        assert run(["update", str(out), str(rest), "--no-report", "-q"]) == 0
        assert state(out)["settings"].get("nonnegative") is expected
        table = pl.read_parquet(out / state(out)["files"]["forecasts"])
        assert (table["yhat"].min() < 0.0) == (expected is False)
        assert (table["lower"].min() < 0.0) == (expected is False)
        ahead = pl.read_csv(out / state(out)["files"]["next"])
        assert (ahead["lower"].min() < 0.0) == (expected is False)

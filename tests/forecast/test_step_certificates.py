"""Certificates of forecasts: the regret of what was served, step by step, and bounds that are never below it."""

import json

import numpy as np
import pytest

from tests.forecast.series import random_walk, seasonal, with_holes
from tests.run.forecast.test_forecast_files import hours, write
from undrift.cli.app import run
from undrift.errors import ConditionError, InputError
from undrift.forecast import Forecaster, ForecastTrace
from undrift.regret import comparators


@pytest.mark.parametrize("y", [seasonal(160, 12), with_holes(random_walk(160))], ids=["season", "walk with holes"])
def test_bounds_are_never_below_the_regret_of_what_was_served(y):
    model = Forecaster(4)
    trace = model.play(y)
    for one in model.certify(y, trace, steps=[1, 4]):
        at = [t for t in range(160 - one.step) if trace.known[t] and not np.isnan(y[t + one.step])]
        own = 0.5 * np.sum([(trace.yhat[t, one.step - 1] - y[t + one.step]) ** 2 for t in at])
        assert one.origins == len(at)
        for certificate in (one.promised, one.proven):
            assert certificate.incurred == pytest.approx(own)
            assert certificate.regret == pytest.approx(own - certificate.comparator_loss)
            assert certificate.holds
            assert certificate.bound >= certificate.regret - 1e-9 * certificate.scale
        assert one.proven.bound <= one.promised.bound + 1e-9 * one.promised.scale


def test_the_comparator_is_the_best_linear_forecast_from_the_same_rows():
    y = seasonal(200, 12)
    model = Forecaster(2, 12)
    trace = model.play(y)
    (one,) = model.certify(y, trace, steps=[2])
    # A linear forecast of the rows: the value a season before the step, which is among the lags.
    naive = np.sum([(y[t + 2 - 12] - y[t + 2]) ** 2 for t in range(12, 198)]) / 2.0
    assert one.promised.comparator_loss < naive
    zero = model.certify(y, trace, steps=[2], u=lambda Z, _: np.zeros_like(Z))[0].promised
    assert zero.comparator_loss == pytest.approx(np.sum((y[2:] - y[:-2]) ** 2) / 2.0)  # no change at all


def test_several_series_have_certificates_of_their_own_and_worse_forecasts_larger_bounds():
    Y = np.column_stack([seasonal(260, 12), random_walk(260)])
    model = Forecaster(2)
    trace = model.play(Y, times=hours(260))
    found = model.certify(Y, trace, times=hours(260), steps=[1], u=comparators.fixed)
    assert [(one.series, one.step) for one in found] == [(0, 1), (1, 1)]
    worse = ForecastTrace(trace.yhat + 1.0, *trace[1:])
    for one, other in zip(found, model.certify(Y, worse, times=hours(260), steps=[1]), strict=True):
        lost = other.promised.incurred - one.promised.incurred
        assert other.promised.bound - one.promised.bound == pytest.approx(lost)


def test_what_cannot_be_certified_is_one_sentence():
    y = seasonal(30, 12)
    model = Forecaster(2)
    with pytest.raises(ConditionError, match="nothing to certify yet"):
        model.certify(np.empty(0), model.play(np.empty(0)))
    trace = model.play(y)
    with pytest.raises(ConditionError, match=r"step 1 has 29 forecasts to certify; \d+ columns need"):
        model.certify(y, trace)
    with pytest.raises(InputError, match="needs all 30 rows since the first"):
        model.certify(y[:20], trace)
    with pytest.raises(InputError, match="steps must be"):
        model.certify(y, trace, steps=[3])


def test_a_folder_of_forecasts_is_certified(tmp_path, capsys):
    y, out = seasonal(120, 12), tmp_path / "out"
    path = write(tmp_path / "a.csv", hours(120), y)
    assert run(["forecast", str(path), "-t", "value", "-H", "1", "-o", str(out), "--no-report", "-q"]) == 0
    capsys.readouterr()
    assert run(["certify", str(out), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    model = Forecaster(1)
    direct = model.certify(y, model.play(y, times=hours(120)), times=hours(120))
    for one, other in zip(shown["certificates"], direct, strict=True):
        assert (one["series"], one["step"], one["origins"]) == ("value", other.step, other.origins)
        assert one["promised"] == pytest.approx(other.promised.bound)
        assert one["proven"] == pytest.approx(other.proven.bound)
    assert run(["certify", str(out), "--within", "0.001"]) == 4
    assert "fails" in capsys.readouterr().out
    assert run(["certify", str(out), "--replay"]) == 2
    assert "--replay is for runs" in capsys.readouterr().err

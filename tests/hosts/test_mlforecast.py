"""mlforecast: undrift as one of its models, its forecasts as candidates of ours, and the recipe in the docs."""

import numpy as np
import pytest

pytest.importorskip("mlforecast")

import pandas as pd
from mlforecast import MLForecast

import undrift as ud
from undrift.sklearn import DriftRegressor

pytestmark = pytest.mark.filterwarnings("ignore")
LAGS = list(range(1, 25))


def frame(rows=400):
    t = np.arange(rows)
    rng = np.random.default_rng(0)
    y = 10.0 + np.sin(2.0 * np.pi * t / 24.0) + 0.1 * rng.normal(size=rows)
    return pd.DataFrame({"unique_id": "a", "ds": pd.date_range("2024-01-01", periods=rows, freq="h"), "y": y})


def test_undrift_is_a_model_of_mlforecast():
    data = frame()
    host = MLForecast(models={"undrift": DriftRegressor(speed="light")}, freq="h", lags=LAGS)
    host.fit(data[:-24])
    found = host.predict(24)
    assert found["ds"].tolist() == data["ds"][-24:].tolist()
    off = found["undrift"].to_numpy() - data["y"].to_numpy()[-24:]
    assert np.mean(off**2) < 0.1 * np.var(data["y"])


def test_new_rows_are_learned_without_fitting_again():
    """What the docs say: rows made by `preprocess` are learned by `partial_fit`, and `update` moves the lags on."""
    data = frame()
    host = MLForecast(models={"undrift": DriftRegressor(speed="light")}, freq="h", lags=LAGS)
    host.fit(data[:300])
    model = host.models_["undrift"]
    for end in range(301, 325):
        new = data[end - 1 : end]
        rows = MLForecast(models=[], freq="h", lags=LAGS).preprocess(data[:end]).tail(1)
        model.partial_fit(rows[[f"lag{lag}" for lag in LAGS]], rows["y"])
        host.update(new)
    assert model.model_.rounds == 300 - 24 + 24
    whole = MLForecast(models={"undrift": DriftRegressor(speed="light")}, freq="h", lags=LAGS).fit(data[:324])
    assert np.array_equal(host.predict(6)["undrift"], whole.predict(6)["undrift"])


def test_forecasts_of_mlforecast_are_candidates_of_ours():
    from sklearn.linear_model import LinearRegression

    data, steps = frame(), 6
    host = MLForecast(models={"linear": LinearRegression()}, freq="h", lags=LAGS)
    made = host.cross_validation(data, n_windows=100, h=steps, step_size=1, refit=False)
    own = np.full((len(data), 1, steps), np.nan)
    place = {when: i for i, when in enumerate(data["ds"])}
    for cutoff, window in made.groupby("cutoff"):
        own[place[cutoff], 0] = window["linear"]
    model = ud.Forecaster(horizon=steps, candidates=["linear"])
    trace = model.play(data["y"].to_numpy(), times=data["ds"].to_numpy(), candidates=own)
    assert model.candidates[-1] == "linear"
    assert np.isfinite(trace.yhat).all()
    assert 0.0 < model.weights()[-1].max() < 1.0

"""skforecast: undrift as its estimator, and the recipe in the docs."""

import numpy as np
import pytest

pytest.importorskip("skforecast")

import pandas as pd
from skforecast.direct import ForecasterDirect
from skforecast.recursive import ForecasterRecursive

from undrift.sklearn import DriftRegressor

pytestmark = pytest.mark.filterwarnings("ignore")


def series(rows=400):
    t = np.arange(rows)
    rng = np.random.default_rng(0)
    y = 10.0 + np.sin(2.0 * np.pi * t / 24.0) + 0.1 * rng.normal(size=rows)
    return pd.Series(y, index=pd.date_range("2024-01-01", periods=rows, freq="h"), name="y")


@pytest.mark.parametrize("make", [ForecasterRecursive, lambda **more: ForecasterDirect(steps=24, **more)])
def test_undrift_is_an_estimator_of_skforecast(make):
    y = series()
    host = make(estimator=DriftRegressor(speed="light"), lags=24)
    host.fit(y=y[:-24])
    found = host.predict(steps=24)
    assert found.index.equals(y.index[-24:])
    assert np.mean((found.to_numpy() - y.to_numpy()[-24:]) ** 2) < 0.1 * np.var(y)


def test_new_rows_are_learned_without_fitting_again():
    """What the docs say: the host makes the rows, `partial_fit` learns those that are new, `last_window` moves on."""
    y = series()
    host = ForecasterRecursive(estimator=DriftRegressor(speed="light"), lags=24)
    host.fit(y=y[:300])
    X, labels = host.create_train_X_y(y=y)
    host.estimator.partial_fit(X.to_numpy()[276:], labels.to_numpy()[276:])
    whole = ForecasterRecursive(estimator=DriftRegressor(speed="light"), lags=24)
    whole.fit(y=y)
    assert np.array_equal(host.predict(steps=6, last_window=y[-24:]), whole.predict(steps=6))

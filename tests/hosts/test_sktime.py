"""The sktime forecaster: sktime's own checks, and updates that learn without fitting again."""

import numpy as np
import pytest

pytest.importorskip("sktime")

import pandas as pd
from sktime.utils.estimator_checks import check_estimator

from undrift.forecast import Forecaster
from undrift.sktime import DriftForecaster

pytestmark = pytest.mark.filterwarnings("ignore")


def test_it_passes_the_checks_of_sktime():
    check_estimator(DriftForecaster, raise_exceptions=True)


def test_updates_are_the_same_as_one_fit():
    y = pd.Series(np.sin(np.arange(90.0)), index=pd.period_range("2020-01", periods=90, freq="M"))
    whole = DriftForecaster(horizon=4).fit(y)
    parts = DriftForecaster(horizon=4).fit(y[:40])
    parts.update(y[40:70]).update(y[70:])
    assert (whole.predict(fh=[1, 4]) == parts.predict(fh=[1, 4])).all()
    assert whole.model_ == parts.model_
    alone = Forecaster(4)
    alone.play(y.to_numpy()[:, None])
    assert (whole.predict(fh=[1, 2, 3, 4]).to_numpy() == alone.forecast().yhat[0]).all()


@pytest.mark.parametrize("remember", [True, False])
def test_a_larger_horizon_needs_no_memory_of_sktimes(remember):
    """In sktime 1.3 `remember_data` is False unless asked for."""
    y = pd.Series(np.sin(np.arange(90.0)), index=pd.period_range("2020-01", periods=90, freq="M"))
    X = pd.DataFrame({"x": np.cos(np.arange(100.0))}, index=pd.period_range("2020-01", periods=100, freq="M"))
    model = DriftForecaster(horizon=2).set_config(remember_data=remember)
    model.fit(y[:60], X=X[:60]).update(y[60:], X=X[60:90])
    whole = DriftForecaster(horizon=6).fit(y, X=X[:90])
    found = model.predict(fh=[1, 6], X=X[90:])
    assert (found == whole.predict(fh=[1, 6], X=X[90:])).all()


def test_forecasts_and_intervals_of_counts_are_not_negative():
    y = pd.Series(np.random.default_rng(0).poisson(0.5, 90).astype(float))
    for nonnegative in (None, True, False):
        model = DriftForecaster(horizon=3, nonnegative=nonnegative).fit(y)
        ends = model.predict_interval(fh=[1, 2, 3], coverage=[0.9, 0.99]).to_numpy()
        assert (ends.min() < 0.0) == (nonnegative is False)
        upper = Forecaster(3, nonnegative=nonnegative)
        upper.play(y.to_numpy()[:, None])
        np.testing.assert_allclose(ends[:, 1], upper.forecast(level=0.9).upper[0], rtol=1e-12)


def test_rows_are_learned_whatever_update_params_says():
    y = pd.Series(np.sin(np.arange(90.0)))
    one, two = DriftForecaster(horizon=2).fit(y[:60]), DriftForecaster(horizon=2).fit(y)
    one.update(y[60:], update_params=False)
    assert (one.predict(fh=[1, 2]) == two.predict(fh=[1, 2])).all()

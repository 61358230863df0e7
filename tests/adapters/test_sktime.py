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

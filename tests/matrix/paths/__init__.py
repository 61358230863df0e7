"""The paths through the package, one driver each, in the order of the matrix."""

from __future__ import annotations

from ..outcome import PathDriver
from .ask_tell import AskTell
from .certify import Certify
from .compare import Compare
from .fleet import FleetPath
from .forecast import Forecast
from .forecast_keys import ForecastKeys
from .live import Live
from .play import Play
from .predict import Predict
from .predict_learn import PredictLearn
from .river import River
from .run import Run
from .serve import Serve
from .serve_keys import ServeKeys
from .sklearn import Sklearn
from .spark import Spark
from .update import Update

PATHS: dict[str, PathDriver] = {
    driver.name: driver
    for driver in (
        Play(), PredictLearn(), AskTell(), Run(), Live(), Update(), Predict(), Compare(), Certify(), FleetPath(),
        Spark(), Serve(), ServeKeys(), Forecast(), ForecastKeys(), River(), Sklearn(),
    )
}  # fmt: skip
"""Columns of the matrix."""

"""From a folder of a run, a fleet or forecasts, or a model file, to a service that goes on where it was left."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import undrift
from undrift._internal.state_file import find_kind
from undrift.errors import InputError, ModelFileError
from undrift.fleet.state_store import STORE_FILE
from undrift.online.estimator import OnlineEstimator
from undrift.run.forecast.forecast_folder import ForecastFolder
from undrift.run.service.begin import begin_run
from undrift.run.service.open_keys import open_copies, open_fleet
from undrift.run.service.served_forecasts import ServedForecasts, open_forecast_journal
from undrift.run.service.served_run import open_run
from undrift.run.service.service import HOLD, Service
from undrift.serve.forecast_service import ForecastService
from undrift.stream import Stream


@contextlib.contextmanager
def open_service(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    level: float | None = None,
    hold: float | None = HOLD,
    durable: bool = False,
    versions: int | None = None,
) -> Iterator[Service]:
    """Give the service of a run's or a fleet's folder, or of a model file; no other process writes there meanwhile.

    What it learns is in the folder: predictions, scores and the stream of a run, or the states of a fleet's keys, are
    committed there now and then and when it ends, and what came since is in its journal. Of a model file,
    `NAME-service` beside it becomes such a folder, or has the journal with a model for each key.

    Parameters
    ----------
    path
        Folder of a finished run or of a fleet, or a file that a stream or an online estimator was saved to.
    key
        With a model file: column that names the key of a row; every key has a model of its own, which begins as a copy
        of the file's. A fleet's folder knows its key.
    level
        Part of the labels that intervals are made to hold: one of the levels that regressors track; by default that of
        the run.
    hold
        Seconds after which a row that has no label yet is given up, 7 days by default; None: never, unless too many
        wait.
    durable
        Whether what was answered survives a power cut (slower), not only a kill of the process.
    versions
        How many versions the folder of a run keeps for `rollback_run`, the current one counted; None: 5, or as many as
        before. A service makes one when it ends, and one a day.
    """
    given = Path(path)
    if not given.exists():
        raise InputError(f"{given} does not exist; name the folder of a run or of a fleet, or a model file")
    if given.is_dir() and key is not None:
        raise InputError(
            "--key is for a model file; of a file with many keys make a fleet: undrift fleet FILE --key COLUMN"
        )
    beside = given.with_name(f"{given.stem}-service")
    if (given / STORE_FILE).is_file() or key is not None:
        if versions is not None:
            raise InputError(f"{given}: models by key keep no versions; leave out --versions")
        more: dict[str, Any] = {"level": level, "hold": hold, "durable": durable}
        opened = open_fleet(given, **more)
        if key is not None:
            opened = open_copies(model_in_file(given), key, beside, _digest(given), **more)
    else:
        if not given.is_dir():
            begin_run(beside, given, _stream_in_file(given))
        opened = open_run(
            given if given.is_dir() else beside, level=level, hold=hold, durable=durable, versions=versions
        )
    with opened as service:
        yield service


def _stream_in_file(file: Path) -> Stream | OnlineEstimator:
    """Return what was saved to a file; refuse what is neither a stream nor an online estimator."""
    model = undrift.load(file)
    if not isinstance(model, (Stream, OnlineEstimator)):
        raise ModelFileError(
            f"{file}: a {type(model).__name__} cannot be served; name the folder of a run, or the file of a Stream, an "
            "OnlineRegressor or an OnlineClassifier"
        )
    return model


def model_in_file(file: Path) -> OnlineEstimator:
    """Return the online estimator that was saved to a file."""
    model = _stream_in_file(file)
    if isinstance(model, Stream):
        raise InputError(f"{file}: --key takes a saved estimator, and this is a stream; omit --key")
    return model


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def holds_forecasts(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is one of forecasts."""
    return Path(path).is_dir() and find_kind(Path(path)) == "forecast"


@contextlib.contextmanager
def open_forecasts(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[ForecastService]:
    """Give the service of a folder that `undrift forecast` made; no other process writes there meanwhile.

    Rows are in its journal before they are acknowledged, and in the folder's tables, forecaster and next steps once a
    minute and when it ends; then the journal is gone.

    Parameters
    ----------
    path
        Folder of forecasts.
    durable
        Whether what was acknowledged survives a power cut (slower), not only a kill of the process.
    """
    given = ForecastFolder(path)
    with given.hold_lock():
        state = given.read_state()
        if state["settings"].get("key"):
            raise InputError(f"{path}: forecasters of many keys cannot be served yet; use update")
        if state["settings"].get("candidate"):
            raise InputError(f"{path}: forecasts beside candidates of your own cannot be served yet; use update")
        served = ServedForecasts(given)
        both = next((name for name in served.known if name in served.plan.names), None)
        if both is not None:
            raise InputError(f"{path}: '{both:.60}' is a series and a column known in advance; rename one of them")
        with open_forecast_journal(given, durable=durable) as journal:
            service = ForecastService(served, journal)
            yield service
            service.close()

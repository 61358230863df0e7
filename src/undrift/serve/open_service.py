"""From a folder of a run, a fleet or forecasts, or a model file, to a service that goes on where it was left."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import undrift
from undrift._internal.folder import Folder, regular_file
from undrift.errors import InputError, ModelFileError
from undrift.fleet.state_store import STORE_FILE
from undrift.online.estimator import OnlineEstimator
from undrift.run.forecast.forecast_folder import ForecastFolder
from undrift.run.forecast.panel import PanelPlan
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.run_loop import load_stream
from undrift.run.play.state import read_run
from undrift.run.state_file import find_kind
from undrift.serve.first_states import begin_with_fleet, begin_with_model
from undrift.serve.forecast_service import ForecastService
from undrift.serve.journal import Journal
from undrift.serve.keyed_models import KeyedModels
from undrift.serve.one_model import ClassModel, OneModel, has_several_classes
from undrift.serve.rows import NamedNumbers, RowEncoder, RunRows
from undrift.serve.service import HOLD, Service

JOURNAL, MODEL = "journal.sqlite", "model.undrift"
NAMES = r"journal\.sqlite(-wal|-shm)?|model\.undrift"


@contextlib.contextmanager
def open_service(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    level: float = 0.9,
    hold: float | None = HOLD,
    durable: bool = False,
) -> Iterator[Service]:
    """Give the service of a run's or a fleet's folder, or of a model file; no other process writes there meanwhile.

    Its journal lies in `service` inside the folder, or in `NAME-service` beside a model file. When a service of one
    model ends in order, the model as it is then lies there too, for `undrift.load`.

    Parameters
    ----------
    path
        Folder of a finished run or of a fleet, or a file that an online estimator was saved to.
    key
        With a model file: column that names the key of a row; every key has a model of its own, which begins as a copy
        of the file's. A fleet's folder knows its key.
    level
        Part of the labels that intervals are made to hold: one of the levels that regressors track.
    hold
        Seconds after which a row that has no label yet is given up, 7 days by default; None: never, unless too many
        wait.
    durable
        Whether what was answered survives a power cut (slower), not only a kill of the process.
    """
    given = Path(path)
    if not given.exists():
        raise InputError(f"{given} does not exist; name the folder of a run or of a fleet, or a model file")
    is_fleet = (given / STORE_FILE).is_file()
    if given.is_dir() and key is not None:
        raise InputError(
            "--key is for a model file; of a file with many keys make a fleet: undrift fleet FILE --key COLUMN"
        )
    with contextlib.ExitStack() as held:
        if is_fleet:
            held.enter_context(Folder(given, "fleet").hold_lock())
        elif given.is_dir():
            read_run(given)  # refuses what is no run before anything is made there
            held.enter_context(RunFolder(given).files.hold_lock())
        folder = Folder(
            given / "service" if given.is_dir() else given.with_name(f"{given.stem}-service"), "service", names=NAMES
        )
        held.enter_context(folder.hold_lock())
        models: OneModel | KeyedModels
        if is_fleet or key is not None:
            beginning = (
                held.enter_context(begin_with_fleet(given))
                if key is None
                else begin_with_model(model_in_file(given), key, _digest(given))
            )
            journal = held.enter_context(open_journal(folder, durable))
            models = KeyedModels(beginning.pool, beginning.rows, journal, beginning.first, level=level)
            origin = beginning.origin
        else:
            models, origin = (_read_run if given.is_dir() else _read_model)(given, level)
            journal = held.enter_context(open_journal(folder, durable))
        service = Service(models, journal, origin=origin, hold=hold)
        yield service
        service.close()
        if service.is_restored and isinstance(service.models, OneModel):
            with folder.new_file(MODEL) as temporary:
                service.models.model.save(temporary)


@contextlib.contextmanager
def open_journal(folder: Folder, durable: bool) -> Iterator[Journal]:
    """Give the journal in a service's folder, which is locked; it is closed whatever happens."""
    folder.claim(JOURNAL, f"{JOURNAL}-wal", f"{JOURNAL}-shm")
    with contextlib.closing(Journal(folder.path / JOURNAL, durable=durable)) as journal:
        yield journal


def _read_run(folder: Path, level: float) -> tuple[OneModel, str]:
    """Return the model of a finished run with what makes features of rows like its own, and the file's digest."""
    state = read_run(folder)
    if state["status"] != "finished" or state["model"] is None:
        raise InputError(f"{folder}: this run is not finished; continue it with --resume, then serve it")
    file = regular_file(folder, state["model"])
    stream = load_stream(file)
    if stream.settings.weight is not None or stream.settings.elapsed:
        raise InputError(f"{folder}: runs with --weight or --elapsed cannot be served; serve one without them")
    assert stream.features is not None  # a finished run has learned rows
    stream.features.settings = stream.settings.replace(limit=None, missing="fill")
    return _serve_one(stream.model, RunRows(stream.features), level), _digest(file)


def _read_model(file: Path, level: float) -> tuple[OneModel, str]:
    model = model_in_file(file)
    return _serve_one(model, NamedNumbers(model), level), _digest(file)


def model_in_file(file: Path) -> OnlineEstimator:
    """Return the online estimator that was saved to a file."""
    model = undrift.load(file)
    if not isinstance(model, OnlineEstimator):
        raise ModelFileError(
            f"{file}: a {type(model).__name__} cannot be served; name the folder of a run, or the file of an "
            "OnlineRegressor or OnlineClassifier"
        )
    return model


def _serve_one(model: OnlineEstimator, rows: RowEncoder, level: float) -> OneModel:
    """Return what serves one model: numbers and two classes, or several classes by their labels."""
    return (ClassModel if has_several_classes(model) else OneModel)(model, rows, level=level)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def holds_forecasts(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is one of forecasts."""
    return Path(path).is_dir() and find_kind(Path(path)) == "forecast"


@contextlib.contextmanager
def open_forecasts(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[ForecastService]:
    """Give the service of a folder that `undrift forecast` made; no other process writes there meanwhile.

    Its journal lies in `service` inside the folder; when it ends in order, the forecaster as it is then lies there too.

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
        if state["settings"].get("known"):
            raise InputError(f"{path}: forecasts that need columns known in advance cannot be served yet; use update")
        if state["settings"].get("key"):
            raise InputError(f"{path}: forecasters of many keys cannot be served yet; use update")
        if state["settings"].get("candidate"):
            raise InputError(f"{path}: forecasts beside candidates of your own cannot be served yet; use update")
        plan = PanelPlan(**{**state["plan"], "names": tuple(state["plan"]["names"])})
        digest = hashlib.sha256(regular_file(given.path, state["files"]["model"]).read_bytes()).hexdigest()
        folder = Folder(given.path / "service", "service", names=NAMES)
        with folder.hold_lock(), open_journal(folder, durable) as journal:
            service = ForecastService(given.read_model(state), plan, state["last"], journal, digest)
            yield service
            service.close()
            if service.is_restored:
                with folder.new_file(MODEL) as temporary:
                    service.model.save(temporary)

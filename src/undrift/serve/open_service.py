"""From a run's folder or a model file to a service that goes on where it was left."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from undrift import store
from undrift.errors import InputError
from undrift.folder import Folder, regular_file
from undrift.online.base import OnlineLearner
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.run_model import load_model
from undrift.run.play.state import explain_damage, read_state, settings_of
from undrift.run.prepare.columns import ColumnRoles
from undrift.serve.journal import Journal
from undrift.serve.rows import NamedNumbers, RowEncoder, RunRows
from undrift.serve.service import Service

JOURNAL, MODEL = "journal.sqlite", "model.undrift"
_NAMES = r"journal\.sqlite(-wal|-shm)?|model\.undrift"


class _Beginning(NamedTuple):
    """What a service begins with."""

    model: OnlineLearner
    rows: RowEncoder
    origin: str
    """Digest of the model's file."""


@contextlib.contextmanager
def open_service(
    path: str | os.PathLike[str], *, level: float = 0.9, hold: float | None = None, durable: bool = False
) -> Iterator[Service]:
    """Give the service of a run's folder, or of a model file; no other process writes there meanwhile.

    Its journal lies in `service` inside the run's folder, or in `NAME-service` beside a model file. When it ends in
    order, the model as it is then lies there too, for `undrift.load`.

    Parameters
    ----------
    path
        Folder of a finished run, or a file that an online estimator was saved to.
    level
        Part of the labels that intervals are made to hold: one of the levels that regressors track.
    hold
        Seconds after which a row that has no label yet is given up; None: never.
    durable
        Whether what was answered survives a power cut (slower), not only a kill of the process.
    """
    given = Path(path)
    if not given.exists():
        raise InputError(f"{given} does not exist; name the folder of a run, or a model file")
    with contextlib.ExitStack() as held:
        if given.is_dir():
            read_state(given)  # refuses what is no run before anything is made there
            held.enter_context(RunFolder(given).files.hold_lock())
        folder = Folder(
            given / "service" if given.is_dir() else given.with_name(f"{given.stem}-service"), "service", names=_NAMES
        )
        held.enter_context(folder.hold_lock())
        beginning = _read_run(given) if given.is_dir() else _read_model(given)
        folder.claim(JOURNAL, f"{JOURNAL}-wal", f"{JOURNAL}-shm")
        journal = Journal(folder.path / JOURNAL, durable=durable)
        service = Service(beginning.model, beginning.rows, journal, origin=beginning.origin, level=level, hold=hold)
        yield service
        service.close()
        with folder.new_file(MODEL) as temporary:
            service.model.save(temporary)


def _read_run(folder: Path) -> _Beginning:
    """Return the model of a finished run, and what makes features of rows like its own."""
    state = read_state(folder)
    if state["status"] != "finished" or state["model"] is None:
        raise InputError(f"{folder}: this run is not finished; continue it with --resume, then serve it")
    file = regular_file(folder, state["model"])
    model = load_model(str(file))
    settings = replace(settings_of(folder, state), limit=None, missing="fill")
    with explain_damage(folder):
        rows = RunRows(settings, ColumnRoles.from_dict(state["plan"], state["plan"]["time"]))
        _, arrays = store.read(regular_file(folder, state["trace"]))
        rows.follow(state["carry"]["encoder"], arrays)
    return _Beginning(model, rows, _digest(file))


def _read_model(file: Path) -> _Beginning:
    model = load_model(str(file))
    return _Beginning(model, NamedNumbers(model), _digest(file))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()

"""From a folder of forecasts to a service that goes on where it was left."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from undrift._internal.folder import Folder, regular_file
from undrift.errors import InputError
from undrift.run.forecast.forecast_folder import STATE, ForecastFolder
from undrift.run.forecast.panel import PanelPlan
from undrift.serve.forecast_service import ForecastService
from undrift.serve.open_service import MODEL, NAMES, open_journal


def holds_forecasts(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is one of forecasts."""
    return (Path(path) / STATE).is_file()


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

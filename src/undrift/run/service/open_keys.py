"""From the folder of a fleet, or a model file, to a service by key, and back to the folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import undrift.online
from undrift._internal.folder import Folder
from undrift._internal.state_file import JOURNAL, STATE
from undrift._internal.stopping import StopRequest
from undrift.errors import InputError
from undrift.fleet import Fleet
from undrift.fleet.state_store import STORE_FILE, StateStore, read_about
from undrift.online import OnlineClassifier
from undrift.online.estimator import OnlineEstimator
from undrift.run.fleet.plan import FleetPlan, read_plan
from undrift.run.fleet.play import FleetUpdate, learn_later_rows
from undrift.run.fleet.result import FleetResult
from undrift.run.ledger import make_entry
from undrift.run.service.begin import stream_around
from undrift.run.service.folder_journal import open_journal
from undrift.run.service.served_keys import SERVED, ServedKeys
from undrift.run.service.service import HOLD, Service
from undrift.stream.keyed.key_state import KeyState
from undrift.stream.keyed.keyed_rows import Fields
from undrift.stream.keyed.keyed_streams import KeyedStreams
from undrift.stream.keyed.outputs import LABELLED, OK
from undrift.stream.keyed.stream_pool import take_two_classes

SERVICE = "service"
"""Sub-folder of a fleet with the journal of its service."""
NAMES = r"journal\.sqlite(-wal|-shm)?|model\.undrift"


@contextlib.contextmanager
def open_fleet(
    path: Path, *, level: float | None = None, hold: float | None = HOLD, durable: bool = False
) -> Iterator[Service]:
    """Give the service of a fleet's folder; no other process writes there meanwhile.

    When it ends in order, what it learned is in the fleet's store, and in the ledger.
    """
    with contextlib.ExitStack() as held:
        fleet_folder = Folder(path, "fleet")
        held.enter_context(fleet_folder.hold_lock())
        about = read_about(path / STORE_FILE)
        plan = read_plan(path) if "file" in about else None  # refuses a fleet whose first file was not finished
        fleet = _fleet_of(about, path) if plan is None else plan.fleet
        if not isinstance(fleet.prototype, OnlineEstimator):
            kind = about.get("model class")
            raise InputError(f"{path}: keys have a {kind!r:.40}; only online estimators can be served")
        store = held.enter_context(StateStore(path / STORE_FILE, about))
        folder = Folder(path / SERVICE, "service", names=NAMES)
        held.enter_context(folder.hold_lock())
        journal = held.enter_context(open_journal(folder, durable))
        unused = [fleet.fields.label_of] if plan is None else plan.left_out
        models = ServedKeys(fleet, journal, store=store, unused=filter(None, unused), level=level)
        service = Service(models, journal, hold=hold)
        if models.is_moved:
            service.save(everything=True)  # from now on it goes on from what the files taught
            service.close_labelled(models.find_labelled())
        yield service
        service.close()
        if service.is_restored and plan is not None:
            _write_ledger(fleet_folder, plan, store)


def commit_fleet_journal(path: str | os.PathLike[str]) -> None:
    """Commit what a service that was killed left in the journal of a fleet, as if it had ended in order."""
    if (Path(path) / SERVICE / JOURNAL[0]).exists() and (Path(path) / STATE).exists():
        with open_fleet(Path(path), hold=None):
            pass  # it restores what the journal says, or refuses a damaged one, and commits it


def update_fleet(
    folder: str | Path,
    path: str,
    *,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
    report: Callable[[FleetResult, Path], object] | None = None,
    stop: StopRequest | None = None,
) -> FleetUpdate:
    """Learn the rows of a file that a fleet has not learned, with the columns and settings it began with.

    A file that begins with the bytes of one that was learned is continued behind them. Of another file, rows count
    whose order or time their key has not seen, and labels of rows that had none; without orders, all of them. A file
    that was learned already is refused.
    Killed at any moment, the same call goes on behind the rows that are saved. What a service learned counts; what a
    killed one left in its journal is committed first.
    """
    commit_fleet_journal(folder)
    return learn_later_rows(folder, path, workers=workers, progress=progress, report=report, stop=stop)


def _write_ledger(folder: Folder, plan: FleetPlan, store: StateStore) -> None:
    """Write how many rows the service taught since the last file into the ledger of the fleet."""
    statuses = [part.status for part in store.outputs(SERVED)]
    before = [entry for entry in plan.learned if entry["by"] == "serve"]
    if not statuses:
        return
    if plan.learned[-1]["by"] == "serve":
        entry = before.pop()
    else:
        entry = make_entry(SERVED, "serve") | {"source": SERVED, "labelled": 0}
    status = np.concatenate(statuses)
    rows, labelled = (int(np.count_nonzero(np.isin(status, some))) for some in ((OK, LABELLED), (LABELLED,)))
    entry["rows"] = rows - sum(int(one["rows"]) for one in before)
    entry["labelled"] = labelled - sum(int(one["labelled"]) for one in before)
    if entry["rows"]:
        if plan.learned[-1] is not entry:
            plan.learned.append(entry)
        plan.write(folder)


def _fleet_of(about: Mapping[str, Any], folder: Path) -> Fleet:
    """Return a fleet that was made in Python, from what its folder says about it."""
    cls = getattr(undrift.online, str(about.get("model class")), None)
    if not (isinstance(cls, type) and issubclass(cls, OnlineEstimator)):
        kind = about.get("model class")
        raise InputError(f"{folder}: keys have a {kind!r:.40}; only online estimators can be served")
    names = [name.removeprefix("model ") for name in about if name.startswith("model ")]
    options = {name: about[f"model {name}"] for name in names if name not in ("class", "rounds", "dim")}
    own: dict[str, Any] = {
        name: about.get(name) for name in ("features", "target", "order", "label_of", "wait", "hold", "numbered")
    }
    more: dict[str, Any] = {
        "delay": about.get("delay", 0),
        "lags": about.get("lags", ()),
        "interval": about.get("interval"),
    }
    try:
        return Fleet(cls(**options), key=about["key"].split(", "), time_unit=about["unit"], **own, **more)
    except (TypeError, KeyError):
        raise InputError(f"{folder}: its model has options that this undrift does not know; upgrade undrift") from None


@contextlib.contextmanager
def open_copies(
    model: OnlineEstimator,
    key: str,
    folder: Path,
    digest: str,
    *,
    level: float | None = None,
    hold: float | None = HOLD,
    durable: bool = False,
) -> Iterator[Service]:
    """Give the service of a model for each key, which begins as a copy of one from a file, of this digest."""
    if model.dim is None:
        raise InputError("the model has learned no row yet, so nobody knows its features; let it learn one first")
    if model.keeps_rows:
        raise InputError(
            "a model with trees cannot be copied for every key, as they take megabytes; train it with trees=False, or "
            "with speed 'fast'"
        )
    if len(model.pending):
        raise InputError("the model has rows that wait for their label, and --key would copy them; tell it the labels")
    kind = None
    if isinstance(model, OnlineClassifier) and not isinstance(model.columns[0], str):
        kind = type(model.columns[0]).__name__
    stream = stream_around(model)
    schema, settings = stream.schema, stream.settings
    assert schema is not None
    if key in schema.numbers:
        raise InputError(f"--key '{key}': this is a feature of the model; name another column")
    fields = Fields((key,), None, schema.numbers, settings.target, None)
    fresh = stream.model.clone()
    prototype = fresh if schema.task == "multiclass" else take_two_classes(fresh)
    about: dict[str, Any] = {"wait": 0, "hold": 0, "numbered": False, "interval": None, "on_error": "raise"}
    streams = KeyedStreams(fields, settings, schema, prototype, from_table=True, **about)
    state = KeyState()
    streams.pool.write_back(stream, state)
    with contextlib.ExitStack() as held:
        service_folder = Folder(folder, "service", names=NAMES)
        held.enter_context(service_folder.hold_lock())
        journal = held.enter_context(open_journal(service_folder, durable))
        initial, origin = streams.pool.codec.pack(state), f"{digest} {key}"
        models = ServedKeys(streams, journal, origin=origin, initial=initial, kind=kind, level=level)
        service = Service(models, journal, hold=hold)
        yield service
        service.close()

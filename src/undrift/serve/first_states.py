"""What keys begin with: their states in a fleet's folder, or one model that was given for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import undrift.online
from undrift.errors import InputError
from undrift.fleet.state_store import STORE_FILE, StateStore, read_about
from undrift.online import OnlineClassifier
from undrift.online.estimator import OnlineEstimator
from undrift.run.fleet.plan import read_plan
from undrift.serve.keyed_models import FirstStates
from undrift.serve.rows import KeyedRows
from undrift.stream.keyed.key_state import KeyState, lag_names
from undrift.stream.keyed.model_pool import ModelPool, fresh_prototype
from undrift.stream.keyed.outputs import Key


class KeyedBeginning(NamedTuple):
    """What a service with a model for each key begins with."""

    pool: ModelPool
    rows: KeyedRows
    first: FirstStates
    origin: str
    """Digest of it all."""


class FleetStates:
    """The keys of a fleet's folder; a new key begins as every key of the fleet did."""

    def __init__(self, store: StateStore, pool: ModelPool) -> None:
        self._store, self._pool, self._count = store, pool, len(store)

    def __len__(self) -> int:
        return self._count

    def has(self, key: str) -> bool:
        """Whether the fleet has a key of this name."""
        return self._find(key) is not None

    def read(self, key: str) -> KeyState:
        """Return what a key begins with."""
        found = self._find(key)
        return KeyState() if found is None else self._pool.codec.unpack(found)

    def _find(self, key: str) -> bytes | None:
        """Return the state of a key, which a fleet made in Python may have as an integer."""
        names: list[Key] = [key, int(key)] if key.isdecimal() and key.isascii() and len(key) < 19 else [key]
        return next(iter(self._store.get_many(names).values()), None)


class CopiedModel:
    """One model with which every key begins."""

    def __init__(self, model: OnlineEstimator, pool: ModelPool) -> None:
        self._state = KeyState()
        pool.write_back(_without_names(model), self._state)

    def __len__(self) -> int:
        return 0

    def has(self, key: str) -> bool:
        """No key is there to begin with."""
        return False

    def read(self, key: str) -> KeyState:
        """Return what every key begins with."""
        return self._state


def begin_with_model(model: OnlineEstimator, key: str, origin: str) -> KeyedBeginning:
    """Let every key begin with a copy of a model."""
    names = [f"x{j}" for j in range(model.dim or 0)] if model.names is None else list(model.names)
    if not names:
        raise InputError("the model has learned no row yet, so nobody knows its features; let it learn one first")
    if isinstance(model, OnlineClassifier) and model.several_classes:
        raise InputError("a model of several classes cannot be served by key, as fleets take two; leave --key away")
    if model.keeps_rows:
        raise InputError(
            "a model with trees cannot be copied for every key, as they take megabytes; train it with trees=False, or "
            "with speed 'fast'"
        )
    if len(model.pending):
        raise InputError("the model has rows that wait for their label, and --key would copy them; tell it the labels")
    pool = ModelPool(fresh_prototype(model.clone()), names)
    return KeyedBeginning(pool, KeyedRows(key, names), CopiedModel(model, pool), f"{origin} {key}")


@contextlib.contextmanager
def begin_with_fleet(folder: Path) -> Iterator[KeyedBeginning]:
    """Give what a fleet's folder holds, which is read as long as this is open."""
    path = folder / STORE_FILE
    about = read_about(path)
    if "file" in about:
        read_plan(folder)  # refuses a fleet whose first file was not finished
    made = about.get("made") or lag_names(about["target"], about.get("lags", ()))
    if made:
        raise InputError(
            f"{folder}: its models see texts, the calendar or earlier labels ('{made[0]}'), of which only undrift "
            "fleet and undrift update make features; serve a fleet of numbers alone"
        )
    pool = ModelPool(_prototype(about, folder), about["features"])
    unused = [name for name in (about.get("order"), about.get("label_of")) if name is not None]
    rows = KeyedRows(
        about["key"], about["features"], target=about["target"], unused=unused, classes=about.get("classes")
    )
    with StateStore(path, about) as store:
        yield KeyedBeginning(pool, rows, FleetStates(store, pool), store.digest())


def _prototype(about: Mapping[str, Any], folder: Path) -> OnlineEstimator:
    """Return the model that every key of a fleet began with, from what the folder says about it."""
    cls = getattr(undrift.online, str(about.get("model class")), None)
    if not (isinstance(cls, type) and issubclass(cls, OnlineEstimator)):
        raise InputError(
            f"{folder}: keys have a {about.get('model class')!r:.40}; only online estimators can be served"
        )
    names = [name.removeprefix("model ") for name in about if name.startswith("model ")]
    options = {name: about[f"model {name}"] for name in names if name not in ("class", "rounds", "dim")}
    try:
        return cls(**options)
    except TypeError:
        raise InputError(f"{folder}: its model has options that this undrift does not know; upgrade undrift") from None


def _without_names(model: OnlineEstimator) -> OnlineEstimator:
    """Return a copy that takes rows as arrays, in the order of the names."""
    header, arrays = model.snapshot()
    header.pop("names", None)
    return type(model)._from_snapshot(header, arrays)

"""StreamPool: one Stream object that serves the keys of a fleet, one after another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import numpy as np

from undrift import _check
from undrift.errors import InputError, ModelFileError
from undrift.learners import Learner
from undrift.learners.serializable import restore
from undrift.learners.served import PREFIX
from undrift.online import OnlineClassifier
from undrift.online.estimator import OnlineEstimator
from undrift.stream.features import Features
from undrift.stream.keyed.key_state import KeyState, StateCodec
from undrift.stream.schema import Schema
from undrift.stream.settings import Settings
from undrift.stream.stream import Stream


class StreamPool:
    """Makes streams from states and states from streams.

    undrift's own learners are parameters and arrays, so that one object serves every key: `acquire` overwrites its
    arrays. Learners of other packages may keep more than that, and get an object for every key.

    Parameters
    ----------
    settings
        Of each stream.
    schema
        What each column is, the same for all keys.
    prototype
        A fresh model.
    named
        Whether features have names, so that a key's own texts may add some.
    bounded
        Whether rows get intervals as they are learned.
    """

    def __init__(self, settings: Settings, schema: Schema, prototype: Learner, *, named: bool, bounded: bool) -> None:
        self.prototype, self._bounded = prototype, bounded
        self.start = Features(settings, schema, described=False)
        """Features of a key before its first row."""
        names = self.start.names
        self.spec = prototype.snapshot()[0]
        text = json.dumps([self.spec, names], sort_keys=True)
        self.fingerprint = hashlib.blake2b(text.encode(), digest_size=8).digest()
        self.dim = len(names) - len(settings.candidate)
        self._names = self.start.learned_names if named else None
        initial = initial_model(prototype, self.dim, self._names)
        header, arrays = initial.snapshot()
        self.codec = StateCodec(self.fingerprint, arrays, self.dim, len(schema.numbers))
        self._initial_header = {name: value for name, value in header.items() if name != "rounds"}
        self._usual = self.spec | ({"names": header["names"]} if "names" in header else {})
        plain = type(prototype).__module__.startswith("undrift.") and schema.task != "multiclass"
        self._shared: Learner | None = initial if plain else None  # more classes make more arrays
        self._stream = Stream(settings)
        self._stream.begin(schema)

    def model(self, state: KeyState) -> Learner:
        """Return the model of a state as an object of its own."""
        if not state.arrays:
            return self.prototype.clone()
        arrays = {name: np.array(array) for name, array in (state.arrays | state.records).items()}
        try:
            made_with = self.prototype._construction()
            model = restore(type(self.prototype), made_with, {**self._usual, **state.header}, arrays)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise _misfit_error(error) from None
        return model

    def stream(self, state: KeyState) -> Stream:
        """Return the stream of a state as an object of its own."""
        start = self.start
        stream = Stream(start.settings)
        stream.begin(start.schema)
        return self._fill(stream, state, self.model(state))

    def acquire(self, state: KeyState) -> Stream:
        """Return the stream of a state, valid until the next call."""
        return self._fill(self._stream, state, self.acquire_model(state), bounded=self._bounded)

    def _fill(self, stream: Stream, state: KeyState, model: Learner, *, bounded: bool = True) -> Stream:
        try:
            features = self.start.copy()
            features.resume_progress(state.features, state.last_labels.copy(), model.served_rows)
            first_rows = np.array(state.features.get("first_rows", ()), dtype=np.float64)
            if first_rows.ndim != 1 or len(first_rows) > len(features.labels.classes or ()):
                raise ValueError("classes cannot be used")
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise _misfit_error(error) from None
        stream.go_on(features, model, first_rows, dict(state.weights), bounded=bounded)
        return stream

    def acquire_model(self, state: KeyState) -> Learner:
        """Return the model of a state, valid until the next call."""
        header = {**self._usual, **state.header}
        rounds = header.pop("rounds")
        if self._shared is None or (state.arrays and header != self._initial_header):
            return self.model(state)
        try:
            # Rounds come first, because an ensemble hands them to its members when arrays are loaded.
            self._shared.rounds = _check.integer("Fleet", "rounds", rounds, 0)
            self._shared._load_arrays((state.arrays or self.codec.initial) | state.records)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise _misfit_error(error) from None
        return self._shared

    def write_back(self, stream: Stream, state: KeyState) -> None:
        """Put what the stream is now into the state."""
        features, model = stream.features, stream.model
        assert features is not None
        self.write_model(model, state)
        state.features = features.progress(self.start)
        if len(first_rows := stream.first_rows):
            state.features["first_rows"] = first_rows.tolist()
        state.last_labels = features.last_labels if features.rows else np.empty(0)
        state.weights = stream.waiting_weights

    def write_model(self, model: Learner, state: KeyState) -> None:
        """Put what the model is now into the state."""
        header, arrays = model.snapshot()
        records = {name: arrays.pop(name) for name in list(arrays) if name.startswith(PREFIX)}
        if model is self._shared and not model.rounds and not records and not state.arrays:
            return  # no row has come, and a key without rows has no arrays
        if model is self._shared and model.dim != self.dim:  # texts of this key added features
            self._shared = initial_model(self.prototype, self.dim, self._names)
        state.arrays, state.records = arrays, records
        state.header = {name: value for name, value in header.items() if self._usual.get(name, ...) != value}


def _misfit_error(error: Exception) -> ModelFileError:
    """Return the error for a state whose numbers no model of this kind can have."""
    return ModelFileError(f"Fleet: the state of a key does not fit its model ({error}); it was edited")


def fresh_prototype(make_model: Learner | Callable[[], Learner]) -> Learner:
    """Return a fresh model, without trees: a clone of the learner given, or what the function makes."""
    model = make_model if isinstance(make_model, Learner) else make_model() if callable(make_model) else None
    if not isinstance(model, Learner):
        raise InputError(
            f"Fleet: make_model must be a learner or a function that returns one, got {make_model!r:.60}; "
            "derive your own from undrift.Learner"
        )
    if model.rounds:
        raise InputError("Fleet: make_model must give a fresh model, got one that has learned; pass clone() of it")
    if model.parameters.get("candidates"):
        raise InputError(
            "Fleet: candidates are named columns, got a model with some; pass candidate= to Fleet.of_table, or leave "
            "them out"
        )
    if model.parameters.get("speed") == "max":
        raise InputError(
            "Fleet: speed='max' is for single estimators, as fleets grow no trees, which take megabytes a key; use "
            "'best' or less"
        )
    if model.outputs > 1 and model.mixes_columns:
        raise InputError("Fleet: horizon must be 1, as a record has one label; give each step a key of its own")
    if model.outputs > 1:
        raise InputError(
            f"Fleet: {type(model).__name__} predicts several classes from arrays; use Fleet.of_table, which names them"
        )
    if model.needs_model:
        raise InputError(
            f"Fleet: make_model must give a model that is data only, got {_check.describe(model)}, which keeps a model "
            "of your own; give its predictions as a column instead"
        )
    fresh = model.without_trees() if isinstance(model, OnlineEstimator) else model.clone()  # which take megabytes a key
    return take_two_classes(fresh)


def take_two_classes(model: Learner) -> Learner:
    """Return a fresh model that takes two classes only, where it would take more: states of keys have one layout."""
    if not isinstance(model, OnlineClassifier) or model.two_classes_only:
        return model
    return type(model)(**{**model._construction().named, "two_classes_only": True})


def initial_model(prototype: Learner, dim: int, names: list[str] | None = None) -> Learner:
    """Return a clone whose arrays are set up for `dim` features, perhaps with names, before its first round."""
    model = prototype.clone()
    if names is not None and isinstance(model, OnlineEstimator):
        model.name_features(names)
    model._begin(dim)
    model.dim = dim
    return model

"""ModelPool: one model object that serves the keys of a fleet, one after another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence

import numpy as np

from undrift import _check
from undrift.errors import InputError, ModelFileError
from undrift.fleet.key_state import KeyState
from undrift.fleet.state_codec import StateCodec
from undrift.learners import Learner
from undrift.learners.serializable import restore
from undrift.learners.served import PREFIX
from undrift.online import OnlineClassifier
from undrift.online.estimator import OnlineEstimator


class ModelPool:
    """Makes models from states and states from models.

    undrift's own learners are parameters and arrays, so that one object serves every key: `acquire` overwrites its
    arrays. Learners of other packages may keep more than that, and get an object for every key. The last `lags` of the
    features are not in the records.
    """

    def __init__(self, prototype: Learner, features: Sequence[str], lags: int = 0) -> None:
        self.prototype, self.dim = take_two_classes(prototype), len(features)
        self.spec = prototype.snapshot()[0]
        text = json.dumps([self.spec, list(features)], sort_keys=True)
        self.fingerprint = hashlib.blake2b(text.encode(), digest_size=8).digest()
        initial = initial_model(prototype, self.dim)
        header, arrays = initial.snapshot()
        self.codec = StateCodec(self.fingerprint, arrays, self.dim, self.dim - lags)
        self._initial_header = {name: value for name, value in header.items() if name != "rounds"}
        self._shared: Learner | None = initial if type(prototype).__module__.startswith("undrift.") else None

    def model(self, state: KeyState) -> Learner:
        """Return the model of a state as an object of its own."""
        if not state.arrays:
            return self.prototype.clone()
        arrays = {name: np.array(array) for name, array in (state.arrays | state.records).items()}
        try:
            made_with = self.prototype._construction()
            model = restore(type(self.prototype), made_with, {**self.spec, **state.header}, arrays)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise _misfit_error(error) from None
        return model

    def acquire(self, state: KeyState) -> Learner:
        """Return a model with this state, valid until the next call."""
        header = {**self.spec, **state.header}
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

    def write_back(self, model: Learner, state: KeyState) -> None:
        """Put what the model is now into the state."""
        header, arrays = model.snapshot()
        records = {name: arrays.pop(name) for name in list(arrays) if name.startswith(PREFIX)}
        if model is self._shared and not model.rounds and not records and not state.arrays:
            return  # no row has come, and a key without rows has no arrays
        state.arrays, state.records = arrays, records
        state.header = {name: value for name, value in header.items() if self.spec.get(name, ...) != value}


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
        raise InputError("Fleet: candidates are for single estimators so far, got a model with some; leave them out")
    if model.parameters.get("speed") == "max":
        raise InputError(
            "Fleet: speed='max' is for single estimators, as fleets grow no trees, which take megabytes a key; use "
            "'best' or less"
        )
    if model.outputs > 1 and model.mixes_columns:
        raise InputError("Fleet: horizon must be 1, as a record has one label; give each step a key of its own")
    if model.outputs > 1:
        raise InputError(
            f"Fleet: {type(model).__name__} predicts several classes, which fleets do not carry; use OnlineClassifier "
            "with two classes for each key"
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


def initial_model(prototype: Learner, dim: int) -> Learner:
    """Return a clone whose arrays are set up for `dim` features, before its first round."""
    model = prototype.clone()
    model._begin(dim)
    model.dim = dim
    return model

"""Bench: the model of a fleet, put to work for one key after another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence

import numpy as np

from undrift import _check
from undrift._typing import Vector
from undrift.errors import InputError, ModelFileError
from undrift.fleet.state import Form, KeyState
from undrift.learners import Learner


class Bench:
    """Makes models from states and states from models.

    undrift's own learners are parameters and arrays, so one object serves every key: its arrays are overwritten.
    """

    def __init__(self, prototype: Learner, features: Sequence[str]) -> None:
        self.prototype, self.dim = prototype, len(features)
        self.spec = prototype.snapshot()[0]
        text = json.dumps([self.spec, list(features)], sort_keys=True)
        self.fingerprint = hashlib.blake2b(text.encode(), digest_size=8).digest()
        begun = prototype.clone()
        begun._begin(self.dim)
        begun.dim = self.dim
        header, arrays = begun.snapshot()
        self.form = Form(self.fingerprint, arrays, self.dim)
        self._usual = {name: value for name, value in header.items() if name != "rounds"}
        self._lent: Learner | None = begun if type(prototype).__module__.startswith("undrift.") else None

    def model(self, state: KeyState) -> Learner:
        """Return the model of a state as an object of its own."""
        if not state.arrays:
            return self.prototype.clone()
        arrays = {name: np.array(array) for name, array in state.arrays.items()}
        try:
            return type(self.prototype)._from_snapshot({**self.spec, **state.header}, arrays)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise _unfit(error) from None

    def borrow(self, state: KeyState) -> Learner:
        """Return a model with this state, valid until the next call."""
        plain = {**self.spec, **state.header}
        rounds = plain.pop("rounds")
        if self._lent is None or (state.arrays and plain != self._usual):
            return self.model(state)
        try:
            self._lent.rounds = _check.integer(
                "Fleet", "rounds", rounds, 0
            )  # first: an ensemble gives it to its members
            self._lent._load_arrays(state.arrays or self.form.begun)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise _unfit(error) from None
        return self._lent

    def give_back(self, model: Learner, state: KeyState) -> None:
        """Put what the model is now into the state."""
        if model is self._lent and not model.rounds and not state.arrays:
            return  # it learned nothing: a key without rounds has no arrays
        header, state.arrays = model.snapshot()
        state.header = {name: value for name, value in header.items() if self.spec.get(name, ...) != value}


def _unfit(error: Exception) -> ModelFileError:
    """Return the error for a state whose numbers no model of this kind can have."""
    return ModelFileError(f"Fleet: the state of a key does not fit its model ({error}); it was edited")


def prototype_of(make_model: Learner | Callable[[], Learner]) -> Learner:
    """Return a fresh model: a clone of the learner given, or what the function makes."""
    model = make_model if isinstance(make_model, Learner) else make_model() if callable(make_model) else None
    if not isinstance(model, Learner):
        raise InputError(
            f"Fleet: make_model must be a learner or a function that returns one, got {make_model!r:.60}; "
            "derive your own from undrift.Learner"
        )
    if model.rounds:
        raise InputError("Fleet: make_model must give a fresh model, got one that has learned; pass clone() of it")
    return model.clone()


def losses(yhat: Vector, y: Vector, binary: bool) -> Vector:
    """Return the losses of rounds: half the squared error, or the log-loss."""
    if not binary:
        return np.asarray(0.5 * (yhat - y) ** 2)
    return np.logaddexp(0.0, np.where(y > 0.0, -yhat, yhat))

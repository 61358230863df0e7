"""Place: how a model's arrays lie in a slot of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.ensemble import Ensemble, LinearEnsemble, LogisticEnsemble
from undrift.kernels import layout
from undrift.learners import DiscountedAIOLI, DiscountedVAW, Learner
from undrift.learners.base import Arrays
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.online.classifiers import Classifiers
from undrift.online.many import Many
from undrift.online.regressors import Regressors
from undrift.store import Header

Integers = NDArray[np.int64]


def fits(model: Learner) -> bool:
    """Whether models of this kind can live in a table: those with compiled rounds, and online estimators."""
    if type(model) in (OnlineRegressor, OnlineClassifier):
        return not model.parameters["indicators"]
    return is_compiled(model)


def is_compiled(model: Learner) -> bool:
    """Whether rounds of many models are one compiled call: one learner or an ensemble of memories, all ours."""
    if type(model) not in (DiscountedVAW, DiscountedAIOLI, Ensemble, LinearEnsemble, LogisticEnsemble):
        return False
    begun = model.clone()
    begun._begin(max(1, model.least_dim))
    return getattr(begun, "_kernel", None) is not None


def place_of(begun: Learner) -> Place | Many:
    """Return how models of this kind lie in slots."""
    if isinstance(begun, OnlineRegressor):
        return Regressors(begun)
    return Classifiers(begun) if isinstance(begun, OnlineClassifier) else Place(begun)


class Place:
    """Where a slot keeps the arrays of a model, in the order of the kernel.

    The memories' state, `information`, has fewer lanes in a slot than in a model where the instruction set allows it:
    there a group of learners that only fills the lanes takes no room.
    """

    def __init__(self, begun: Learner) -> None:
        self.round = begun._kernel  # type: ignore[attr-defined]  # only models that have it come here
        self.size = self.round.slot()
        arrays = begun._arrays()
        by_end = {name.rsplit(".", 1)[-1]: name for name in arrays}
        members = len(begun._stability) if isinstance(begun, Ensemble) else 1
        self.memories = by_end["information"]
        self._begun = np.array(arrays[self.memories])  # one learner: a column; several: a stack
        stack = self._begun.shape
        if len(stack) == 3:
            stack = self.round.slot_shape()
        shapes: dict[str, tuple[int, ...]] = {"information": stack, "rate": (9,), "last": (1,)}
        shapes |= dict.fromkeys(("stability", "log_weights", "losses", "charged"), (members,))
        self.parts: dict[str, tuple[slice, tuple[int, ...]]] = {}
        at = 0
        for end, shape in shapes.items():
            size = int(np.prod(shape))
            if end in by_end:
                self.parts[by_end[end]] = slice(at, at + size), shape
            at += size
        self.blank = np.zeros(self.size)
        self.write(self.blank, arrays)

    def header(self, rounds: int, dim: int) -> Header:
        """Return what the header of a saved model has beyond its parameters."""
        return {"rounds": rounds, "dim": dim}

    def play_keys(
        self, states: Matrix, rounds: Integers, slots: Integers, Z: Matrix, y: Vector, yhat: Vector, threads: int = 1
    ) -> int:
        """Close rounds of the models in slots; rows are sorted by slot, then order. Return whether one was refused."""
        return int(self.round.play_keys(states, rounds, slots, Z, y, yhat, threads))

    def read(self, slot: Vector) -> Arrays:
        """Return the arrays of the model in a slot."""
        out = {name: slot[where].reshape(shape) for name, (where, shape) in self.parts.items()}
        if self._begun.ndim == 3:
            slim, out[self.memories] = out[self.memories], np.array(self._begun)
            for group, some in enumerate(slim):
                layout.neighbours(out[self.memories], group, slim.shape[2])[...] = some
        return out

    def write(self, slot: Vector, arrays: Arrays) -> None:
        """Put a model's arrays into a slot."""
        for name, (where, shape) in self.parts.items():
            if len(shape) == 3:
                groups = [layout.neighbours(arrays[name], group, shape[2]) for group in range(shape[0])]
                slot[where] = np.stack(groups).ravel()
            else:
                slot[where] = arrays[name].ravel()

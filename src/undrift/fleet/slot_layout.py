"""SlotLayout: where the arrays of a key's model lie in its slot, a row of a slot store."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Arrays, Matrix, Vector
from undrift.ensemble import Ensemble, LinearEnsemble, LogisticEnsemble
from undrift.fleet.model_pool import initial_model
from undrift.kernels import layout
from undrift.kernels.definitions import ENSEMBLE_SLOT, EstimatorNumber
from undrift.learners import DiscountedAIOLI, DiscountedVAW, Learner
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.online.estimator import OnlineEstimator
from undrift.online.plan import EstimatorPlan
from undrift.store import Header

Integers = NDArray[np.int64]


def fits_in_slots(model: Learner) -> bool:
    """Whether models of this kind can live in slots: those with compiled rounds, and online estimators."""
    if type(model) in (OnlineRegressor, OnlineClassifier):
        return not model.parameters["indicators"]
    return has_compiled_rounds(model)


def has_compiled_rounds(model: Learner) -> bool:
    """Whether rounds of many models are one compiled call: one learner or an ensemble of stacked members, all ours."""
    if type(model) not in (DiscountedVAW, DiscountedAIOLI, Ensemble, LinearEnsemble, LogisticEnsemble):
        return False
    return initial_model(model, max(1, model.least_dim))._kernel is not None


def slot_layout(initial: Learner) -> SlotLayout | EstimatorSlots:
    """Return how models of this kind lie in slots."""
    return EstimatorSlots(initial) if isinstance(initial, OnlineEstimator) else SlotLayout(initial)


class EstimatorSlots:
    """Slots with an online estimator each: a slot is its state vector."""

    def __init__(self, initial: OnlineEstimator) -> None:
        self.plan: EstimatorPlan = initial.plan
        self.blank = self.plan.blank()
        self.size = len(self.blank)
        self._rounds = self.plan.layout.starts["numbers"] + EstimatorNumber.ROUNDS

    def header(self, rounds: int, dim: int) -> Header:
        """Return what the header of a saved estimator has beyond its parameters."""
        return {"rounds": rounds, "dim": dim, "began": dim}

    def play_keys(
        self, states: Matrix, rounds: Integers, slots: Integers, Z: Matrix, y: Vector, yhat: Vector, threads: int = 1
    ) -> int:
        """Close rounds of the estimators in slots; rows are sorted by slot, then order. Return a refusal, or 0.

        `yhat` is NaN for rows before which no label of their key was known.
        """
        known = np.empty(len(y))
        refused = self.plan.kernel.play_keys(states, slots, Z, y, yhat, known, threads)
        rounds[slots] = states[slots, self._rounds].astype(np.int64)
        if not refused:
            yhat[known == 0.0] = np.nan
        return int(refused)

    def note_labels(self, states: Matrix, slots: Integers, y: Vector) -> None:
        """Keep in the states how the labels of two classes are called."""
        negative = self.plan.layout.starts["numbers"] + EstimatorNumber.NEGATIVE_LABEL
        states[slots[y == -1.0], negative] = -1.0

    def read(self, slot: Vector) -> Arrays:
        """Return the arrays of the estimator in a slot."""
        return self.plan.layout.arrays(slot)

    def write(self, slot: Vector, arrays: Arrays) -> None:
        """Put an estimator's arrays into a slot."""
        for name, part in self.plan.layout.arrays(slot).items():
            part[...] = arrays[name]


class SlotLayout:
    """Where a slot keeps the arrays of a model, in the order of the kernel.

    The members' state, `information`, may have fewer lanes (learners side by side in a vector register) in a slot than
    in a model: learners that only pad a group to the width of the register take no room in a slot.
    """

    def __init__(self, initial: Learner) -> None:
        assert initial._kernel is not None  # only models that have one come here
        self.round = initial._kernel
        self.size = self.round.slot_size()
        arrays = initial._arrays()
        by_last_name = {name.rsplit(".", 1)[-1]: name for name in arrays}
        members = len(initial._stability) if isinstance(initial, Ensemble) else 1
        self.information = by_last_name["information"]
        self._initial = np.array(arrays[self.information])  # one learner: a column; several: a stack
        stack = self._initial.shape
        if len(stack) == 3:
            stack = self.round.slot_shape()
        at = ENSEMBLE_SLOT.slices(information_size=int(np.prod(stack)), members=members)
        saved_as = {"mixer_state": "rate", "last_label": "last", "clipped_losses": "charged"}
        self.parts: dict[str, tuple[slice, tuple[int, ...]]] = {}
        for part, where in at.items():
            end = saved_as.get(part, part)
            if end in by_last_name:
                shape = stack if part == "information" else (where.stop - where.start,)
                self.parts[by_last_name[end]] = where, shape
        self.blank = np.zeros(self.size)
        self.write(self.blank, arrays)

    def header(self, rounds: int, dim: int) -> Header:
        """Return what the header of a saved model has beyond its parameters."""
        return {"rounds": rounds, "dim": dim}

    def play_keys(
        self, states: Matrix, rounds: Integers, slots: Integers, Z: Matrix, y: Vector, yhat: Vector, threads: int = 1
    ) -> int:
        """Close rounds of the models in slots; rows are sorted by slot, then order. Return whether one was refused.

        `yhat` is NaN for rows before which no label of their key was known.
        """
        first = np.concatenate(([True], slots[1:] != slots[:-1])) & (rounds[slots] == 0)
        refused = int(self.round.play_keys(states, rounds, slots, Z, y, yhat, threads))
        if not refused:
            yhat[first] = np.nan
        return refused

    def read(self, slot: Vector) -> Arrays:
        """Return the arrays of the model in a slot."""
        out = {name: slot[where].reshape(shape) for name, (where, shape) in self.parts.items()}
        if self._initial.ndim == 3:
            packed, out[self.information] = out[self.information], np.array(self._initial)
            for group, some in enumerate(packed):
                layout.lane_group(out[self.information], group, packed.shape[2])[...] = some
        return out

    def write(self, slot: Vector, arrays: Arrays) -> None:
        """Put a model's arrays into a slot."""
        for name, (where, shape) in self.parts.items():
            if len(shape) == 3:
                groups = [layout.lane_group(arrays[name], group, shape[2]) for group in range(shape[0])]
                slot[where] = np.stack(groups).ravel()
            else:
                slot[where] = arrays[name].ravel()

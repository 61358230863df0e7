"""Growth: the state and the records of an estimator when features are added that were 0 so far."""

from __future__ import annotations

import numpy as np

from undrift._typing import Vector
from undrift.kernels import layout
from undrift.kernels.definitions import RecordPart
from undrift.online.plan import EstimatorPlan

TINY = 1e-150


def grow_state(state: Vector, old: EstimatorPlan, new: EstimatorPlan, rounds: int) -> Vector:
    """Return the state with the features that the new plan has more, all of them 0 in every row so far.

    During the warm-up the stages learn the rows so far again, now with these features; afterwards a feature that was 0
    has left no trace but its ridge, so that the memories can be widened exactly.
    """
    grown = new.blank()
    for name, shape in old.layout.shapes.items():
        before, after = old.layout.view(state, name), new.layout.view(grown, name)
        if name.endswith(".information"):
            if name == "level 2.information":
                after[...] = before
            elif rounds >= old.warmup:
                stage = name.removesuffix(".information")
                strength = np.maximum(old.family_betas[stage] ** rounds, TINY)
                after[...] = layout.add_features(before, old.family_dims[stage], new.width - old.width, strength)
        elif shape == after.shape:
            after[...] = before
        else:
            after[..., : shape[-1]] = before
    new.layout.view(grown, "seen")[old.dim :] = 1.0
    new.layout.view(grown, "known")[:, old.width :] = 1.0 if rounds < old.warmup else 0.0
    if 0 < rounds < old.warmup:
        new.kernel.refit(grown)
    return grown


def widen_record(record: Vector, plan: EstimatorPlan) -> Vector:
    """Return a record of fewer features with zeros for those added since."""
    width = int(record[RecordPart.WIDTH])
    if width == plan.dim:
        return record
    head, row, holes, rest = np.split(record, np.cumsum([len(RecordPart), width, width]))
    more = np.zeros(plan.dim - width)
    wide = np.concatenate((head, row, more, holes, more, rest))
    wide[RecordPart.WIDTH] = plan.dim
    return wide

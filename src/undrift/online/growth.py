"""Growth: the state and the records of an estimator when features are added that were 0 so far."""

from __future__ import annotations

import numpy as np

from undrift._typing import Vector
from undrift.kernels import layout
from undrift.kernels.definitions import EstimatorNumber, LabelContext, RecordPart
from undrift.online.plan import EstimatorPlan

TINY = 1e-150


def grow_state(state: Vector, old: EstimatorPlan, new: EstimatorPlan, rounds: int) -> Vector:
    """Return the state with the features that the new plan has more, all of them 0 in every row so far.

    During the warm-up the stages learn the rows so far again, now with these features; afterwards a feature that was 0
    has left no trace but its ridge, so that the memories can be widened exactly.
    """
    grown = new.blank()
    for before, after in zip(old.arms, new.arms, strict=True):
        _grow_arm(state, grown, before, after, rounds)
    if 0 < rounds < old.warmup:
        new.kernel.refit(grown)
    return grown


def _grow_arm(state: Vector, grown: Vector, old: EstimatorPlan, new: EstimatorPlan, rounds: int) -> None:
    """Carry the parts of one arm over into the grown state."""
    kept = [old.candidates.index(name) for name in new.candidates]  # wide rows have fewer families
    for name in old.parts():
        if name not in new.parts():
            continue
        before, after = old.view(state, name), new.view(grown, name)
        shape = before.shape
        stage = name.rpartition(".")[0]  # of a stage's parts; names of families may have dots
        if name.endswith(".information"):
            if stage == "level 2":
                after[...] = before if rounds >= old.warmup else after
            elif rounds >= old.warmup:
                one, more = old.family_plans[stage], new.family_plans[stage].dim - old.family_plans[stage].dim
                strength = np.maximum(one.betas**rounds, TINY)
                after[...] = layout.add_features(before, one.dim, more, strength)
        elif stage == "last" and name != "last.mixer":
            after[...] = before[..., kept]
        elif name in ("errors", "family_losses"):
            after[...] = before[[old.families.index(family) for family in new.families]]
        elif name.endswith(".columns"):
            after[...] = before if shape == after.shape else after
        elif name == "means":
            after[:, : shape[1]] = before[: len(after)]
        elif shape == after.shape:
            after[...] = before
        elif stage == "spread":  # which sees no features at all where rows are wide
            kept_columns = tuple(slice(min(shape[0], len(after))) for _ in shape)
            after[kept_columns] = before[kept_columns]
        else:
            after[..., : shape[-1]] = before
    new.view(grown, "seen")[old.dim :] = 1.0
    new.view(grown, "mean_rows")[old.inputs :] = new.view(grown, "numbers")[EstimatorNumber.SERVED]
    new.view(grown, "known")[:, old.width :] = 1.0 if rounds < old.warmup else 0.0


def widen_record(record: Vector, old: EstimatorPlan, new: EstimatorPlan) -> Vector:
    """Return a record that was served by the old plan as the new one, with more features, has them.

    Features that were added are 0, and so are their differences. Answers of families that wider rows do not have, and
    running means that they leave out, are left out here too.
    """
    if old.dim == new.dim:
        return record
    head, row, holes, labels, errors, differences, spoke, rest = np.split(
        record,
        np.cumsum([
            len(RecordPart), old.dim, old.dim, len(LabelContext), len(old.families), len(old.spans) * old.inputs,
            len(old.given),
        ]),
    )  # fmt: skip
    more, wide = np.zeros(new.dim - old.dim), np.zeros((len(new.spans), new.inputs))
    wide[:, : old.inputs] = differences.reshape(len(old.spans), old.inputs)[: len(new.spans)]
    if old.robust is not None and new.robust is not None:
        rest, robust = np.split(rest, [len(rest) - old.robust.kernel.record_size])
        robust = widen_record(robust, old.robust, new.robust)
    else:
        robust = np.empty(0)
    stages = [*old.families, "level 2", "last"]  # answers of the last one: the candidates, which are those of `last`
    answers = dict(zip(stages, np.split(rest, np.cumsum([old.members(name) for name in stages])), strict=False))
    ends = rest[sum(old.members(name) for name in stages) :]
    kept = [old.families.index(name) for name in new.families]
    candidates = answers["last"][[old.candidates.index(name) for name in new.candidates]]
    members = [answers[name] for name in (*new.families, "level 2")]
    out = np.concatenate(
        (head, row, more, holes, more, labels, errors[kept], wide.ravel(), spoke, *members, candidates, ends, robust)
    )
    out[RecordPart.WIDTH] = new.dim
    return out

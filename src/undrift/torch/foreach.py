"""The step by torch's multi-tensor operations: few launches on any device, the same numbers as the loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from undrift.torch.rounds import Row
from undrift.torch.slots import Slot
from undrift.torch.sums import Sums, packed, squares

Tensors = list[torch.Tensor]
Table = list[tuple[torch.Tensor | float, ...]]


def batches(slots: Sequence[Slot], rows: Sequence[Row]) -> list[list[int]]:
    """Group slots that may share one call: same device, types and numbers (the step itself may differ)."""
    found: dict[object, list[int]] = {}
    for i, (slot, row) in enumerate(zip(slots, rows, strict=True)):
        key = (slot.p.device, slot.p.dtype, slot.g.dtype, slot.average is None, row._replace(step=0.0))
        found.setdefault(key, []).append(i)
    return list(found.values())


def widened(tensors: Tensors, like: Tensors) -> Tensors:
    """Return tensors in the type of their state; the same objects if they have it."""
    return [t if t.dtype == s.dtype else t.to(s.dtype) for t, s in zip(tensors, like, strict=True)]


def gradients(slots: Sequence[Slot], row: Row) -> Tensors:
    """Return the gradients of what is minimised; new tensors whenever they differ from the parameters' own."""
    ms = [slot.m for slot in slots]
    gs = widened([slot.g for slot in slots], ms)
    if row.sign < 0.0:
        gs = list(torch._foreach_neg(gs))
    if row.l2 != 0.0:
        gs = list(torch._foreach_add(gs, widened([slot.p for slot in slots], ms), alpha=row.l2))
    return gs


class Foreach:
    """Slots stepped together by torch's multi-tensor operations."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots

    def measure(self, rows: Sequence[Row], which: NDArray[np.int64], with_m: bool) -> Sums:
        """Return |g|^2 and, if asked, |m|^2 after this round for every slot; nothing is changed."""
        return packed(measure(self.slots, [rows[k] for k in which], with_m))

    def apply(self, rows: Sequence[Row], which: NDArray[np.int64], with_g: bool) -> Sums:
        """Make the step; return |m|^2, |x - average|^2 (before either moved) and, if asked, |g|^2 for every slot."""
        return packed(apply(self.slots, [rows[k] for k in which], with_g))


def measure(slots: Sequence[Slot], rows: Sequence[Row], with_m: bool) -> Table:
    """Return |g|^2 and, if asked, |m|^2 after this round for every slot; nothing is changed."""
    sums: Table = [(0.0, 0.0)] * len(slots)
    for batch in batches(slots, rows):
        some, row = [slots[i] for i in batch], rows[batch[0]]
        gs = gradients(some, row)
        g2 = squares(gs)
        ms = list(torch._foreach_lerp([slot.m for slot in some], gs, row.gap1)) if with_m else []
        m2 = squares(ms)
        for j, i in enumerate(batch):
            sums[i] = (g2[j], m2[j] if with_m else 0.0)
    return sums


def apply(slots: Sequence[Slot], rows: Sequence[Row], with_g: bool) -> Table:
    """Make the step; return |m|^2, |x - average|^2 (before either moved) and, if asked, |g|^2 for every slot."""
    sums: Table = [(0.0, 0.0, 0.0)] * len(slots)
    for batch in batches(slots, rows):
        some, row = [slots[i] for i in batch], rows[batch[0]]
        gs, ms = gradients(some, row), [slot.m for slot in some]
        ps = [slot.p for slot in some]
        xs = widened(ps, ms)
        distances: Tensors = []
        averages = [slot.average for slot in some if slot.average is not None and row.weight != 0.0]
        if averages:
            difference = torch._foreach_sub(xs, averages)
            distances = squares(list(difference))
            torch._foreach_add_(averages, difference, alpha=row.weight)
        torch._foreach_lerp_(ms, gs, row.gap1)
        steps = [-rows[i].step for i in batch]
        if some[0].v is None:
            moves = list(torch._foreach_mul(ms, steps))
        else:
            moves = quotients(some, gs, row)
            torch._foreach_mul_(moves, steps)
        if row.decay != 1.0:
            torch._foreach_add_(moves, xs, alpha=row.decay - 1.0)
        if ps[0].dtype == ms[0].dtype:
            torch._foreach_add_(ps, moves)
        else:
            torch._foreach_copy_(ps, list(torch._foreach_add(xs, moves)))
        m2, g2 = squares(ms), squares(gs) if with_g else [0.0] * len(batch)
        for j, i in enumerate(batch):
            sums[i] = (m2[j], distances[j] if averages else 0.0, g2[j])
    return sums


def quotients(slots: Sequence[Slot], gs: Tensors, row: Row) -> Tensors:
    """Advance the second moments; return m / (nu + sqrt(v)) clipped, coordinate by coordinate."""
    vs = [slot.v for slot in slots if slot.v is not None]
    torch._foreach_lerp_(vs, list(torch._foreach_mul(gs, gs)), row.gap2)
    roots = list(torch._foreach_mul(vs, row.v_scale)) if row.v_scale != 1.0 else vs
    roots = list(torch._foreach_sqrt(roots))
    torch._foreach_add_(roots, row.damping)
    if row.damping == 0.0:
        torch._foreach_add_(roots, [(root == 0).to(root.dtype) for root in roots])  # as in core.rate
    moves = list(torch._foreach_div([slot.m for slot in slots], roots))
    if row.m_scale != 1.0:
        torch._foreach_mul_(moves, row.m_scale)
    if row.clip != torch.inf:
        torch._foreach_clamp_max_(moves, row.clip)
        torch._foreach_clamp_min_(moves, -row.clip)
    return moves

"""The step as a loop over tensors, straight from `optim.core`: any device and type, and what the others must equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from undrift.optim import core
from undrift.torch.rounds import Row, Unit
from undrift.torch.slots import Slot
from undrift.torch.sums import Sums, packed, square


def gradient(slot: Slot, row: Row) -> torch.Tensor:
    """Return the gradient of what is minimised, in the type of the state; the parameter's own is left alone."""
    g = slot.g.to(slot.m.dtype)
    if row.sign < 0.0:
        g = -g
    return g + row.l2 * slot.p.to(slot.m.dtype) if row.l2 != 0.0 else g


class Plain:
    """Slots stepped one by one."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots

    def measure(self, rows: Sequence[Row], which: NDArray[np.int64], with_m: bool) -> Sums:
        """Return |g|^2 and, if asked, |m|^2 after this round for every slot; nothing is changed."""
        pairs: list[tuple[torch.Tensor, torch.Tensor | float]] = []
        for slot, k in zip(self.slots, which, strict=True):
            g = gradient(slot, rows[k])
            pairs.append((square(g), square(core.ema(slot.m, g, rows[k].gap1)) if with_m else 0.0))
        return packed(pairs)

    def apply(self, rows: Sequence[Row], which: NDArray[np.int64], with_g: bool) -> Sums:
        """Make the step; return |m|^2, |x - average|^2 (before either moved) and, if asked, |g|^2 for every slot."""
        return packed([step(slot, rows[k], with_g) for slot, k in zip(self.slots, which, strict=True)])


def step(slot: Slot, row: Row, with_g: bool) -> tuple[torch.Tensor | float, ...]:
    """Make the step of one slot; return its three sums."""
    g = gradient(slot, row)
    x = slot.p.to(slot.m.dtype)
    distance: torch.Tensor | float = 0.0
    if slot.average is not None and row.weight != 0.0:
        distance = square(x - slot.average)
        slot.average.copy_(core.ema(slot.average, x, row.weight))
    slot.m.copy_(core.ema(slot.m, g, row.gap1))
    if slot.v is None:
        delta = -row.step * slot.m
    else:
        slot.v.copy_(core.ema(slot.v, g * g, row.gap2))
        m = slot.m * row.m_scale
        rate = core.rate(slot.v * row.v_scale, 1.0, Unit(1.0, row.damping, 0.0))
        delta = row.step * core.leader(m, rate, m.abs(), None if row.clip == torch.inf else row.clip)
    slot.p.copy_(row.decay * x + delta)
    return square(slot.m), distance, square(g) if with_g else 0.0

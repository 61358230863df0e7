"""The step by our compiled CPU kernel: one pass to look, one to step, averaging and certificate included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from undrift import kernels
from undrift.torch.rounds import Row
from undrift.torch.slots import Slot
from undrift.torch.sums import Sums

KINDS = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2}
"""Types the kernel knows; bfloat16 parameters have single-precision state."""


def takes(slot: Slot) -> bool:
    """Say whether the kernel can step this slot: dense, contiguous, on the CPU, of a known type."""
    p, g = slot.p, slot.g
    if not (p.is_cpu and g.is_cpu and p.dtype in KINDS and g.dtype is p.dtype):
        return False
    whole = p.is_contiguous() and g.is_contiguous() and slot.m.is_contiguous()
    if whole and slot.v is not None:
        whole = slot.v.is_contiguous()
    if whole and slot.average is not None:
        whole = slot.average.is_contiguous()
    return whole


def _addresses(tensors: Sequence[torch.Tensor]) -> NDArray[np.uint64]:
    return np.fromiter(map(torch.Tensor.data_ptr, tensors), np.uint64, len(tensors))


class _Batch:
    """Slots of one type, and where their tensors are in memory."""

    def __init__(self, dtype: torch.dtype, members: list[int], slots: Sequence[Slot]) -> None:
        self.dtype, self.kind = dtype, KINDS[dtype]
        self.members = np.array(members, dtype=np.int64)
        self.slots = [slots[i] for i in members]
        self.params = [slot.p for slot in self.slots]
        self.state = [
            [slot.m for slot in self.slots],
            [slot.v for slot in self.slots if slot.v is not None],
            [slot.average for slot in self.slots if slot.average is not None],
        ]
        self.sizes = [p.numel() for p in self.params]
        self.size = np.array(self.sizes, dtype=np.int64)
        self.p, self.g = _addresses(self.params), _addresses([slot.g for slot in self.slots])
        none = np.zeros(len(members), dtype=np.uint64)
        self.m, self.v, self.average = (_addresses(tensors) if tensors else none for tensors in self.state)

    def renew(self) -> bool:
        """Take up new gradients; False if anything else has moved, or does not suit the kernel."""
        grads = [slot.g for slot in self.slots]
        if not all(g.dtype is self.dtype and g.is_cpu and g.is_contiguous() for g in grads):
            return False
        if not all(p.dtype is self.dtype and p.is_contiguous() for p in self.params):
            return False
        self.g = _addresses(grads)
        found = [_addresses(self.params), *map(_addresses, self.state)]
        known = (self.p, self.m, self.v, self.average)
        still = all(np.array_equal(a, b) for a, b in zip(found, known, strict=True) if len(a))
        return still and [p.numel() for p in self.params] == self.sizes


class Fused:
    """Slots stepped by the kernel."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots
        kinds: dict[torch.dtype, list[int]] = {}
        for i, slot in enumerate(slots):
            kinds.setdefault(slot.p.dtype, []).append(i)
        self.batches = [_Batch(dtype, members, slots) for dtype, members in kinds.items()]

    def renew(self) -> bool:
        """Take up the gradients of a new step; False if the slots must be shared out anew."""
        return all(batch.renew() for batch in self.batches)

    def measure(self, rows: Sequence[Row], which: NDArray[np.int64], with_m: bool) -> Sums:
        """Return |g|^2 and, if asked, |m|^2 after this round for every slot; nothing is changed."""
        table, sums, threads = np.array(rows, dtype=np.float64), np.empty((len(self.slots), 2)), torch.get_num_threads()
        for b in self.batches:
            out = np.empty((len(b.members), 2))
            kernels.adam_measure(b.kind, b.p, b.g, b.m, b.size, table, which[b.members], with_m, threads, out)
            sums[b.members] = out
        return sums

    def apply(self, rows: Sequence[Row], which: NDArray[np.int64], with_g: bool) -> Sums:
        """Make the step; return |m|^2, |x - average|^2 (before either moved) and |g|^2 for every slot."""
        table, sums, threads = np.array(rows, dtype=np.float64), np.empty((len(self.slots), 3)), torch.get_num_threads()
        for b in self.batches:
            out = np.empty((len(b.members), 3))
            kernels.adam_apply(b.kind, b.p, b.g, b.m, b.v, b.average, b.size, table, which[b.members], threads, out)
            sums[b.members] = out
            torch.autograd.graph.increment_version(b.params)  # as an operation of torch would
        return sums

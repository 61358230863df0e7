"""The step by our compiled CPU kernel: one pass to look, one to step, averaging and certificate included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from undrift import kernels
from undrift.torch.rounds import Row
from undrift.torch.slots import Slot, state_dtype
from undrift.torch.sums import KINDS, Sums, addresses

CODES = {torch.float32: (2, 32), torch.float64: (2, 64), torch.bfloat16: (4, 16)}
"""What DLPack calls them."""

QUICK = kernels.can_find_tensors(torch.Tensor)
"""Whether this torch offers its tensors' addresses in C; earlier ones are asked tensor by tensor."""


def takes(slot: Slot) -> bool:
    """Say whether the kernel can step this slot: dense, contiguous, on the CPU, of a known type, the state to match."""
    p, g, wide = slot.p, slot.g, state_dtype(slot.p)
    if not (p.is_cpu and p.dtype in KINDS and p.is_contiguous()):
        return False
    kept = [tensor for tensor in (slot.m, slot.v, slot.average) if tensor is not None]
    return _like(g, p, p.dtype) and all(_like(tensor, p, wide) for tensor in kept)


def _like(tensor: torch.Tensor, p: torch.Tensor, dtype: torch.dtype) -> bool:
    """Say whether a tensor lies in memory as a contiguous parameter does, in this type."""
    return tensor.is_cpu and tensor.dtype is dtype and tensor.shape == p.shape and tensor.is_contiguous()


class _Column:
    """Tensors of one type, one per slot, and where they are in memory."""

    def __init__(self, tensors: list[torch.Tensor], dtype: torch.dtype, size: NDArray[np.int64]) -> None:
        self.tensors, self.dtype, self.size = tensors, dtype, size
        self.address = addresses(tensors) if tensors else np.zeros(len(size), dtype=np.uint64)
        """0 where there is none."""

    def renew(self, tensors: list[torch.Tensor]) -> int:
        """Take up other tensors: 0 if the kernel cannot use one, 2 if all are where the last ones were, else 1."""
        if not tensors:
            return 2
        if QUICK:
            return kernels.find_tensors(torch.Tensor, tensors, *CODES[self.dtype], self.size, self.address)
        for tensor, size in zip(tensors, self.size.tolist(), strict=True):
            if tensor.dtype is not self.dtype or not tensor.is_cpu or tensor.layout is not torch.strided:
                return 0
            if not tensor.is_contiguous() or tensor.numel() != size:
                return 0
        last, self.address = self.address, addresses(tensors)
        return 2 if np.array_equal(last, self.address) else 1


class _Batch:
    """Slots of one type, and where their tensors are in memory."""

    def __init__(self, dtype: torch.dtype, members: list[int], slots: Sequence[Slot]) -> None:
        self.kind = KINDS[dtype]
        self.members = np.array(members, dtype=np.int64)
        self.slots = [slots[i] for i in members]
        self.size = np.array([slot.p.numel() for slot in self.slots], dtype=np.int64)
        wide = self.slots[0].m.dtype
        self.p = _Column([slot.p for slot in self.slots], dtype, self.size)
        self.g = _Column([slot.g for slot in self.slots], dtype, self.size)
        self.m = _Column([slot.m for slot in self.slots], wide, self.size)
        self.v = _Column([slot.v for slot in self.slots if slot.v is not None], wide, self.size)
        self.average = _Column([slot.average for slot in self.slots if slot.average is not None], wide, self.size)

    def renew(self) -> bool:
        """Take up new gradients; False if anything else has moved, or does not suit the kernel."""
        if not self.g.renew([slot.g for slot in self.slots]):
            return False
        return all(column.renew(column.tensors) == 2 for column in (self.p, self.m, self.v, self.average))


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
            where = b.p.address, b.g.address, b.m.address
            kernels.adam_measure(b.kind, *where, b.size, table, which[b.members], with_m, threads, out)
            sums[b.members] = out
        return sums

    def apply(self, rows: Sequence[Row] | NDArray[np.float64], which: NDArray[np.int64], with_g: bool) -> Sums:
        """Make the step; return |m|^2, |x - average|^2 (before either moved), |g|^2 and the next |x - average|^2."""
        table, sums, threads = np.array(rows, dtype=np.float64), np.empty((len(self.slots), 4)), torch.get_num_threads()
        for b in self.batches:
            out = np.empty((len(b.members), 4))
            where = b.p.address, b.g.address, b.m.address, b.v.address, b.average.address
            kernels.adam_apply(b.kind, *where, b.size, table, which[b.members], threads, out)
            sums[b.members] = out
            torch.autograd.graph.increment_version(b.p.tensors)  # as an operation of torch would
        return sums

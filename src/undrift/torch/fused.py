"""The step by our compiled CPU kernel: two passes over memory, averaging and certificate included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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


class _Batch(NamedTuple):
    kind: int
    members: NDArray[np.int64]
    p: NDArray[np.uint64]
    g: NDArray[np.uint64]
    m: NDArray[np.uint64]
    v: NDArray[np.uint64]
    average: NDArray[np.uint64]
    size: NDArray[np.int64]


def _addresses(tensors: Sequence[torch.Tensor]) -> NDArray[np.uint64]:
    return np.array([t.data_ptr() for t in tensors], dtype=np.uint64)


class Fused:
    """Slots stepped by the kernel; addresses are taken once per step."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots
        kinds: dict[torch.dtype, list[int]] = {}
        for i, slot in enumerate(slots):
            kinds.setdefault(slot.p.dtype, []).append(i)
        self.batches = [self._batch(dtype, members) for dtype, members in kinds.items()]

    def _batch(self, dtype: torch.dtype, members: list[int]) -> _Batch:
        some = [self.slots[i] for i in members]
        none = np.zeros(len(some), dtype=np.uint64)
        v = [slot.v for slot in some if slot.v is not None]
        average = [slot.average for slot in some if slot.average is not None]
        return _Batch(
            KINDS[dtype],
            np.array(members, dtype=np.int64),
            _addresses([slot.p for slot in some]),
            _addresses([slot.g for slot in some]),
            _addresses([slot.m for slot in some]),
            _addresses(v) if v else none,
            _addresses(average) if average else none,
            np.array([slot.p.numel() for slot in some], dtype=np.int64),
        )

    def measure(self, rows: Sequence[Row], which: NDArray[np.int64], with_m: bool) -> Sums:
        """Return |g|^2 and, if asked, |m|^2 after this round for every slot; nothing is changed."""
        table, sums, threads = np.array(rows, dtype=np.float64), np.empty((len(self.slots), 2)), torch.get_num_threads()
        for b in self.batches:
            out = np.empty((len(b.members), 2))
            kernels.adam_measure(b.kind, b.p, b.g, b.m, b.size, table, which[b.members], with_m, threads, out)
            sums[b.members] = out
        return sums

    def apply(self, rows: Sequence[Row], which: NDArray[np.int64]) -> Sums:
        """Make the step; return |m|^2 and |x - average|^2 (before either moved) for every slot."""
        table, sums, threads = np.array(rows, dtype=np.float64), np.empty((len(self.slots), 2)), torch.get_num_threads()
        for b in self.batches:
            out = np.empty((len(b.members), 2))
            kernels.adam_apply(b.kind, b.p, b.g, b.m, b.v, b.average, b.size, table, which[b.members], threads, out)
            sums[b.members] = out
        torch.autograd.graph.increment_version([slot.p for slot in self.slots])  # as an operation of torch would
        return sums

"""The step by our compiled CPU kernel: one pass to look, one to step, averaging and certificate included."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import numpy as np
import torch
from numpy.typing import NDArray

from undrift import kernels
from undrift.torch.scalars import Row
from undrift.torch.tensors import PLAIN, Slot, Sums

KINDS = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2}
"""Types the kernel knows; bfloat16 parameters have single-precision state."""
WIDE = {dtype: torch.float64 if dtype is torch.float64 else torch.float32 for dtype in KINDS}
"""The type of their state."""


_TYPE, _ON_CPU, _SHARDS = attrgetter("dtype"), attrgetter("is_cpu"), attrgetter("shards")


class KernelPart:
    """Slots of one group and type, stepped by the kernel if it `takes` them."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots, self.group = slots, slots[0].group
        self.ps, self.ms = [slot.p for slot in slots], [slot.m for slot in slots]
        self.gs = [slot.g for slot in slots]
        self.vs = [slot.v for slot in slots if slot.v is not None]
        self.averages = [slot.average for slot in slots if slot.average is not None]
        self.sizes = list(map(torch.Tensor.numel, self.ps))

    def takes(self) -> bool:
        """Say whether all tensors are dense, contiguous, on the CPU, of one known type, the state to match."""
        dtype = self.ps[0].dtype
        wide = WIDE.get(dtype)
        if wide is None or len(set(map(_SHARDS, self.slots))) > 1:
            return False
        narrow, state = (self.ps, self.gs), [column for column in (self.ms, self.vs, self.averages) if column]
        return all(self._lie_alike(column, dtype) for column in narrow) and all(
            self._lie_alike(column, wide) for column in state
        )

    def _lie_alike(self, tensors: list[torch.Tensor], dtype: torch.dtype) -> bool:
        """Say whether tensors lie in memory as contiguous parameters of these sizes do, in this type."""
        plain = set(map(type, tensors)) <= PLAIN and all(map(_ON_CPU, tensors)) and set(map(_TYPE, tensors)) == {dtype}
        return (
            plain
            and all(map(torch.Tensor.is_contiguous, tensors))
            and list(map(torch.Tensor.numel, tensors)) == self.sizes
        )

    def measure(self, row: Row, with_m: bool) -> Sums:
        """Return |g|^2 and, if asked, |m|^2 after this round for every slot; nothing is changed."""
        out, which = np.empty((len(self.slots), 2)), np.zeros(len(self.slots), dtype=np.int64)
        p, g, m = (self._addresses(column) for column in (self.ps, self.gs, self.ms))
        kind, size, threads = KINDS[self.ps[0].dtype], np.array(self.sizes), torch.get_num_threads()
        kernels.adam_measure(kind, p, g, m, size, np.array([row]), which, with_m, threads, out)
        return out

    def apply(self, row: Row, steps: Sequence[float] | None, with_g: bool) -> Sums:
        """Make the step, a scale for each slot if given; return |m|^2, |x - average|^2 before it, |g|^2 if asked."""
        count = len(self.slots)
        table, which, out = np.array([row]), np.zeros(count, dtype=np.int64), np.empty((count, 3))
        if steps is not None:
            table, which = np.repeat(table, count, axis=0), np.arange(count)
            table[:, Row._fields.index("step")] = steps
        columns = (self.ps, self.gs, self.ms, self.vs, self.averages)
        p, g, m, v, average = (self._addresses(column) for column in columns)
        kind, size, threads = KINDS[self.ps[0].dtype], np.array(self.sizes), torch.get_num_threads()
        kernels.adam_apply(kind, p, g, m, v, average, size, table, which, threads, out)
        torch.autograd.graph.increment_version(self.ps)  # as an operation of torch would
        return out if with_g else out[:, :2]

    def _addresses(self, tensors: list[torch.Tensor]) -> NDArray[np.uint64]:
        """Return where tensors are in memory; 0 where there are none."""
        if not tensors:
            return np.zeros(len(self.slots), dtype=np.uint64)
        return np.fromiter(map(torch.Tensor.data_ptr, tensors), np.uint64, len(tensors))

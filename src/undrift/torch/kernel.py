"""The step by our compiled CPU kernel: one pass to look, one to step, averaging and certificate included."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, is_
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from undrift import kernels
from undrift.torch.scalars import Row
from undrift.torch.tensors import PLAIN, Slots, Sums, Tensors

KINDS = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2}
"""Types the kernel knows; bfloat16 parameters have single-precision state."""
WIDE = {dtype: torch.float64 if dtype is torch.float64 else torch.float32 for dtype in KINDS}
"""The type of their state."""

_TYPE, _ON_CPU = attrgetter("dtype"), attrgetter("is_cpu")


class CheckedTensors(NamedTuple):
    """Parameters and state of some slots, found fit for the kernel.

    A thousand small tensors take longer to be asked what they are than to be stepped. So gradients, which are new, are
    asked in every step; the others when they are not the same tensors in the same places.
    """

    tensors: Tensors
    """All parameters, then all m, all v, all averages."""
    addresses: NDArray[np.uint64]
    sizes: list[int]
    dtype: torch.dtype

    def still_are(self, tensors: Tensors, sizes: list[int], dtype: torch.dtype) -> bool:
        """Say whether these are the tensors of before, where they were before."""
        alike = len(tensors) == len(self.tensors) and sizes == self.sizes and dtype == self.dtype
        return alike and all(map(is_, tensors, self.tensors)) and np.array_equal(_addresses(tensors), self.addresses)


class KernelPart:
    """Slots of one group and type, stepped by the kernel; made by `kernel_part`."""

    def __init__(self, slots: Slots, checked: CheckedTensors) -> None:
        self.slots, self.group, self.checked = slots, slots.group, checked
        found, count = checked.addresses, len(slots.p)
        self.p, self.m, self.g = found[:count], found[count : 2 * count], _addresses(slots.g)
        nowhere = np.zeros(count, dtype=np.uint64)
        self.v = found[2 * count : 3 * count] if slots.v else nowhere
        self.average = found[-count:] if slots.average else nowhere
        self.size, self.kind = np.array(slots.sizes), KINDS[checked.dtype]

    def measure(self, row: Row, with_m: bool) -> Sums:
        """Return |g|^2 and, if asked, |m|^2 after this round for every slot; nothing is changed."""
        count, threads = len(self.size), torch.get_num_threads()
        table, which, out = np.array([row]), np.zeros(count, dtype=np.int64), np.empty((count, 2))
        kernels.adam_measure(self.kind, self.p, self.g, self.m, self.size, table, which, with_m, threads, out)
        return out

    def apply(self, row: Row, steps: Sequence[float] | None, with_g: bool) -> Sums:
        """Make the step, a scale for each slot if given; return |m|^2, |x - average|^2 before it, |g|^2 if asked."""
        count, threads = len(self.size), torch.get_num_threads()
        table, which, out = np.array([row]), np.zeros(count, dtype=np.int64), np.empty((count, 3))
        if steps is not None:
            table, which = np.repeat(table, count, axis=0), np.arange(count)
            table[:, Row._fields.index("step")] = steps
        columns = (self.p, self.g, self.m, self.v, self.average)
        kernels.adam_apply(self.kind, *columns, self.size, table, which, threads, out)
        torch.autograd.graph.increment_version(self.slots.p)  # as an operation of torch would
        return out if with_g else out[:, :2]


def kernel_part(slots: Slots, known: CheckedTensors | None) -> KernelPart | None:
    """Return the part if all tensors are dense, contiguous, on the CPU, of one known type, the state to match."""
    dtype, sizes = slots.p[0].dtype, slots.sizes
    if slots.dtypes != {dtype} or dtype not in KINDS or len(set(slots.shards)) > 1:
        return None
    if not (_lie_alike(slots.g, dtype, sizes) and all(map(torch.Tensor.is_contiguous, slots.p))):
        return None
    tensors = slots.p + slots.m + slots.v + slots.average
    if known is None or not known.still_are(tensors, sizes, dtype):
        state = [column for column in (slots.m, slots.v, slots.average) if column]
        if not (_lie_alike(slots.p, dtype, sizes) and all(_lie_alike(column, WIDE[dtype], sizes) for column in state)):
            return None
        known = CheckedTensors(tensors, _addresses(tensors), sizes, dtype)
    return KernelPart(slots, known)


def _lie_alike(tensors: Tensors, dtype: torch.dtype, sizes: list[int]) -> bool:
    """Say whether tensors lie in memory as contiguous parameters of these sizes do, in this type."""
    plain = set(map(type, tensors)) <= PLAIN and all(map(_ON_CPU, tensors)) and set(map(_TYPE, tensors)) == {dtype}
    return plain and all(map(torch.Tensor.is_contiguous, tensors)) and list(map(torch.Tensor.numel, tensors)) == sizes


def _addresses(tensors: Tensors) -> NDArray[np.uint64]:
    """Return where tensors are in memory."""
    return np.fromiter(map(torch.Tensor.data_ptr, tensors), np.uint64, len(tensors))

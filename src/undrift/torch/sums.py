"""Sums over tensors, over shards and over ranks: what one norm over all parameters needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from undrift import kernels
from undrift.errors import InputError
from undrift.torch.rounds import Row
from undrift.torch.slots import Slot

Sums = Any
"""A row of sums per slot: a float64 array on the host, or a tensor on an accelerator that nobody has read yet."""


KINDS = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2}
"""Types the kernel knows; bfloat16 parameters have single-precision state."""

_AS_THEY_ARE = np.eye(1, len(Row._fields))  # a row with sign 1, which says of a gradient: do nothing to it


def addresses(tensors: Sequence[torch.Tensor]) -> NDArray[np.uint64]:
    """Return where tensors are in memory."""
    found = np.fromiter(map(torch.Tensor.data_ptr, tensors), np.uint64, len(tensors))
    if not found.all():
        for tensor, address in zip(tensors, found, strict=True):
            if not address and tensor.numel():
                kind = type(tensor).__name__
                raise InputError(f"undrift.torch: a tensor of type {kind} has no memory of its own; unwrap it first")
    return found


def squares(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the sum of squares of each tensor, all of them on one device, in double precision where it has that."""
    if not tensors:
        return []
    if tensors[0].is_cpu:
        return list(torch.from_numpy(_on_the_cpu([t.contiguous() for t in tensors])))
    wide = tensors[0].dtype if tensors[0].device.type == "mps" else torch.float64
    norms = torch._foreach_norm(list(tensors), 2, dtype=wide)
    return list(torch._foreach_mul(norms, norms))


def square(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of squares of one tensor."""
    return squares([x])[0]


def _on_the_cpu(tensors: list[torch.Tensor]) -> NDArray[np.float64]:
    """Sum squares by the compiled kernel; types it does not know are widened first."""
    found = np.empty(len(tensors))
    kinds = np.array([KINDS.get(t.dtype, 1) for t in tensors])
    for kind in np.unique(kinds):
        members = np.flatnonzero(kinds == kind)
        mine = [tensors[i] if tensors[i].dtype in KINDS else tensors[i].to(torch.float64) for i in members]
        where, size = addresses(mine), np.array([t.numel() for t in mine], dtype=np.int64)
        which, out = np.zeros(len(mine), dtype=np.int64), np.empty((len(mine), 2))
        threads = torch.get_num_threads()
        kernels.adam_measure(int(kind), where, where, where, size, _AS_THEY_ARE, which, False, threads, out)
        found[members] = out[:, 0]
    return found


def packed(rows: Sequence[Sequence[torch.Tensor | float]]) -> Sums:
    """Turn rows of numbers or 0-d tensors into sums; those on an accelerator stay there."""
    flat = [x for row in rows for x in row]
    tensors = [x for x in flat if isinstance(x, torch.Tensor)]
    if not tensors:
        return np.array(flat, dtype=np.float64).reshape(len(rows), -1)
    device = next((x.device for x in tensors if x.device.type != "cpu"), tensors[0].device)
    stacked = torch.stack([torch.as_tensor(x, dtype=tensors[0].dtype, device=device) for x in flat]).reshape(
        len(rows), -1
    )
    return stacked.numpy() if device.type == "cpu" else stacked


def reduced(slots: Sequence[Slot], sums: Sums) -> Sums:
    """Add up the parts of sharded parameters over the ranks that hold them; one call per way of sharding."""
    ways: dict[tuple[Any, ...], list[int]] = {}
    for i, slot in enumerate(slots):
        if slot.shards:
            ways.setdefault(slot.shards, []).append(i)
    for groups, members in ways.items():
        part = torch.as_tensor(sums[members], device=slots[members[0]].p.device).clone()
        for group in groups:
            torch.distributed.all_reduce(part, group=group)
        sums[members] = part.numpy() if isinstance(sums, np.ndarray) else part
    return sums


def over_ranks(values: Sequence[float], process_group: Any, device: torch.device) -> list[float]:
    """Add up numbers over a process group: for parameters that are flat shards without saying so."""
    whole = torch.tensor(list(values), dtype=torch.float64, device=device)
    torch.distributed.all_reduce(whole, group=process_group)
    total: list[float] = whole.tolist()
    return total


def numbers(sums: Sums) -> NDArray[np.float64]:
    """Read sums from their device."""
    return sums if isinstance(sums, np.ndarray) else sums.cpu().numpy().astype(np.float64)


def per_group(sums: Sums, column: int, groups: NDArray[np.int64], count: int) -> list[Any]:
    """Add up a column within each parameter group; on an accelerator the results stay there."""
    if isinstance(sums, np.ndarray):
        totals: list[float] = np.bincount(groups, weights=sums[:, column], minlength=count).tolist()
        return totals
    owner = torch.as_tensor(groups, device=sums.device)
    return [torch.where(owner == i, sums[:, column], 0.0).sum() for i in range(count)]

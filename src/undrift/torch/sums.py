"""Sums over tensors, over shards and over ranks: what one norm over all parameters needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from undrift.torch.slots import Slot

Sums = Any
"""A row of sums per slot: a float64 array on the host, or a tensor on an accelerator that nobody has read yet."""


AT_ONCE = 1 << 16
"""Numbers widened to double precision at a time on the CPU: they stay in its cache."""


def square(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of squares, in double precision where the device has it."""
    if x.is_cpu:
        flat = x.reshape(-1)
        parts = (flat[i : i + AT_ONCE].to(torch.float64) for i in range(0, flat.numel(), AT_ONCE))
        return sum((torch.dot(part, part) for part in parts), torch.zeros((), dtype=torch.float64))
    wide = x.dtype if x.device.type == "mps" else torch.float64
    norm: torch.Tensor = torch.linalg.vector_norm(x, dtype=wide)
    return norm * norm


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

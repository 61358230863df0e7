"""Sums over tensors, over shards and over ranks: what one norm over all parameters needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from undrift.torch.plain import Sums
from undrift.torch.slots import Slot


def reduced(slots: Sequence[Slot], sums: Sums) -> Sums:
    """Add up the parts of sharded parameters over the ranks that hold them; one call per way of sharding."""
    ways: dict[tuple[Any, ...], list[int]] = {}
    for i, slot in enumerate(slots):
        if slot.shards:
            ways.setdefault(slot.shards, []).append(i)
    out = list(sums)
    for groups, members in ways.items():
        device = slots[members[0]].p.device
        flat = [torch.as_tensor(x, dtype=torch.float64, device=device) for i in members for x in sums[i]]
        packed = torch.stack(flat)
        for group in groups:
            torch.distributed.all_reduce(packed, group=group)
        for j, i in enumerate(members):
            out[i] = (packed[2 * j], packed[2 * j + 1])
    return out


def over_ranks(values: Sequence[float], process_group: Any, device: torch.device) -> list[float]:
    """Add up numbers over a process group: for parameters that are flat shards without saying so."""
    packed = torch.tensor(list(values), dtype=torch.float64, device=device)
    torch.distributed.all_reduce(packed, group=process_group)
    total: list[float] = packed.tolist()
    return total


def numbers(sums: Sums) -> list[tuple[float, float]]:
    """Read sums from their device, in one transfer per device."""
    flat = [x for pair in sums for x in pair]
    devices: dict[torch.device, list[int]] = {}
    for i, x in enumerate(flat):
        if isinstance(x, torch.Tensor):
            devices.setdefault(x.device, []).append(i)
    for some in devices.values():
        values = torch.stack([flat[i] for i in some]).tolist()  # type: ignore[misc]  # all of them are tensors
        for i, value in zip(some, values, strict=True):
            flat[i] = value
    return [(float(flat[i]), float(flat[i + 1])) for i in range(0, len(flat), 2)]


def on_host(sums: Sums) -> bool:
    """Say whether reading the sums waits for no accelerator."""
    return all(not isinstance(x, torch.Tensor) or x.device.type == "cpu" for pair in sums for x in pair)

"""What a step works on: the parameters that have a gradient, with their state, as plain local tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from undrift.errors import InputError
from undrift.torch.rounds import Group

HALVES = (torch.bfloat16, torch.float16)


class Slot(NamedTuple):
    """One parameter of this step; complex tensors appear as pairs of reals, sharded ones as their local part."""

    group: int
    """Index of its parameter group."""
    state: dict[str, Any]
    p: torch.Tensor
    g: torch.Tensor
    m: torch.Tensor
    v: torch.Tensor | None
    """Second moment per coordinate; None in the other norm scopes."""
    average: torch.Tensor | None
    numel: int
    """Real coordinates of the whole parameter, over all shards."""
    shards: tuple[Any, ...]
    """Process groups over which the parameter is sharded."""


def state_dtype(p: torch.Tensor) -> torch.dtype:
    """Return the type of a parameter's moments and average: its own, but single precision for half precision."""
    return torch.float32 if p.dtype in HALVES else p.dtype


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's part on this rank: itself unless it is distributed."""
    part = getattr(tensor, "_local_tensor", None)
    tensor = tensor if part is None else part
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def shards_of(p: torch.Tensor) -> tuple[Any, ...]:
    """Return the process groups a distributed parameter is split over; replicas are counted once."""
    if getattr(p, "_local_tensor", None) is None:
        return ()
    mesh, placements = p.device_mesh, p.placements  # type: ignore[attr-defined]  # a DTensor
    if any(place.is_partial() for place in placements):
        raise InputError("undrift.torch: a parameter with partial placements cannot be stepped; redistribute it")
    return tuple(mesh.get_group(i) for i, place in enumerate(placements) if place.is_shard())


def begin(state: dict[str, Any], p: torch.Tensor, group: Group) -> None:
    """Fill an empty state: m = 0, v = 0, average = x, the state after any number of zero gradients."""
    dtype = state_dtype(p)
    state["m"] = torch.zeros_like(p, dtype=dtype, memory_format=torch.preserve_format)
    if group["norm"] == "coord":
        state["v"] = torch.zeros_like(state["m"])
    elif group["norm"] == "tensor":
        state["v"] = 0.0
    if group["average"]:
        state["average"] = p.detach().to(dtype, copy=True)


def collect(who: str, groups: Iterable[Group], states: Any) -> list[Slot]:
    """Return a slot for every parameter with a gradient; nothing is changed if one of them cannot be used."""
    groups = list(groups)
    for group in groups:
        for p in group["params"]:
            if p.grad is not None and p.grad.layout != torch.strided:
                raise InputError(f"{who} does not support sparse gradients, please consider SparseAdam instead")
    slots = []
    for index, group in enumerate(groups):
        coord, averaged = group["norm"] == "coord", group["average"]
        for p in group["params"]:
            g = p.grad
            if g is None:
                continue
            state = states[p]
            if "m" not in state:
                begin(state, p, group)
            m = state["m"]
            shards: tuple[Any, ...] = ()
            if type(p) is not torch.nn.Parameter or p.is_complex():
                shards = shards_of(p)
                if shards and g.placements != p.placements:
                    g = g.redistribute(p.device_mesh, p.placements)
                slot = Slot(
                    index,
                    state,
                    local(p),
                    local(g),
                    local(m),
                    local(state["v"]) if coord else None,
                    local(state["average"]) if averaged else None,
                    p.numel() * (2 if p.is_complex() else 1),
                    shards,
                )
            else:
                slot = Slot(
                    index,
                    state,
                    p,
                    g,
                    m,
                    state["v"] if coord else None,
                    state["average"] if averaged else None,
                    p.numel(),
                    shards,
                )
            slots.append(slot)
    return slots

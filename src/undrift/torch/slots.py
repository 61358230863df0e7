"""What a step works on: the parameters that have a gradient, with their state, as plain local tensors."""

from __future__ import annotations

from operator import is_
from typing import Any

import numpy as np
import torch

from undrift.errors import InputError
from undrift.torch.rounds import Group

State = dict[str, Any]  # what torch keeps per parameter

HALVES = (torch.bfloat16, torch.float16)


class Slot:
    """One parameter of this step; complex tensors appear as pairs of reals, sharded ones as their local part."""

    __slots__ = ("average", "g", "group", "m", "numel", "p", "shards", "state", "v")

    def __init__(
        self, index: int, group: Group, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any]
    ) -> None:
        if "m" not in state:
            begin(state, param, group)
        self.group = index
        self.state = state
        self.shards = shards_of(param)
        """Process groups over which the parameter is sharded."""
        if self.shards and grad.placements != param.placements:  # type: ignore[attr-defined]  # DTensors
            grad = grad.redistribute(param.device_mesh, param.placements)  # type: ignore[attr-defined]
        self.p, self.g, self.m = local(param), local(grad), local(state["m"])
        self.v = local(state["v"]) if group["norm"] == "coord" else None
        """Second moment per coordinate; None in the other norm scopes."""
        self.average = local(state["average"]) if group["average"] else None
        self.numel = param.numel() * (2 if param.is_complex() else 1)
        """Real coordinates of the whole parameter, over all shards."""


class Slots:
    """The slots of a step. Between steps little changes but the gradients, so they are kept while that is so."""

    def __init__(self) -> None:
        self.found: list[Slot] = []
        self.groups = np.zeros(0, dtype=np.int64)
        """Index of each slot's parameter group."""
        self.sharded = False
        self._params: list[torch.Tensor] = []
        self._kept: list[list[Any]] = []

    def collect(self, who: str, groups: list[Group], states: Any) -> list[Slot]:
        """Return a slot for every parameter with a gradient; nothing is changed if one of them cannot be used."""
        pairs = [(i, p, p.grad) for i, group in enumerate(groups) for p in group["params"]]
        pairs = [entry for entry in pairs if entry[2] is not None]
        for _, _, g in pairs:
            if g.layout is not torch.strided:
                raise InputError(f"{who} does not support sparse gradients, please consider SparseAdam instead")
        if self._still([p for _, p, _ in pairs], states):
            for slot, (_, _, g) in zip(self.found, pairs, strict=True):
                slot.g = g
            return self.found
        self.found = [Slot(i, groups[i], p, g, states[p]) for i, p, g in pairs]
        self.groups = np.array([slot.group for slot in self.found], dtype=np.int64)
        self.sharded = any(slot.shards for slot in self.found)
        self._params = [p for _, p, _ in pairs]
        self._kept = [list(states.values()), *self._tensors()]
        return self.found

    def _tensors(self) -> list[list[Any]]:
        names = ("m", "average") if not self.found or self.found[0].v is None else ("m", "v", "average")
        return [[slot.state.get(name) for slot in self.found] for name in names]

    def _still(self, params: list[torch.Tensor], states: Any) -> bool:
        """Say whether the slots of the last step are this one's: same plain parameters, same state objects."""
        if not self._kept or len(params) != len(self.found) or not all(map(is_, params, self._params)):
            return False
        if any(slot.p is not p for slot, p in zip(self.found, params, strict=True)):  # local parts, views: build anew
            return False
        now = [list(states.values()), *self._tensors()]
        return all(len(a) == len(b) and all(map(is_, a, b)) for a, b in zip(now, self._kept, strict=True))


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

"""What a step works on: the parameters that have a gradient, with their state, as plain local tensors."""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter, is_
from typing import Any

import numpy as np
import torch

from undrift import kernels
from undrift.errors import InputError
from undrift.torch.rounds import Group

State = dict[str, Any]  # what torch keeps per parameter

_LAYOUT = attrgetter("layout")
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
            grad = grad.redistribute(param.device_mesh, param.placements)  # type: ignore[attr-defined]  # DTensor has both
        if grad.is_complex():
            grad = grad.resolve_conj()
        self.p, self.g, self.m = local(param), local(grad).resolve_neg(), local(state["m"])
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
        self.sizes = np.zeros(0)
        """Real coordinates of each slot."""
        self.numel = 0
        """Real coordinates of all slots."""
        self.sharded = False
        self.as_they_are = True
        """Whether the slots hold the parameters themselves, not local parts or views of them."""
        self.settled = False
        """Whether they are exactly the parameters with state, none of it new."""
        self.lasting = False
        """Whether the last step had these very slots."""
        self._single: list[Slot] = []
        """Slots of one number: the only contiguous gradients that torch may leave negated in memory."""
        self._params: list[torch.Tensor] = []
        self._sizes: list[int] = []
        self._every: list[State] = []
        self._states: list[State] = []
        self._tensors: dict[str, list[Any]] = {}

    def collect(self, who: str, groups: list[Group], states: Any) -> list[Slot]:
        """Return a slot for every parameter with a gradient; nothing is changed if one of them cannot be used."""
        params = [p for group in groups for p in group["params"]]
        grads = [p.grad for p in params]
        if any(map(is_, grads, repeat(None))):
            params = [p for p, g in zip(params, grads, strict=True) if g is not None]
            grads = [g for g in grads if g is not None]
        if not set(map(_LAYOUT, grads)) <= {torch.strided}:
            raise InputError(f"{who} does not support sparse gradients, please consider SparseAdam instead")
        sizes = [len(group["params"]) for group in groups]
        self.lasting = sizes == self._sizes and self._still(params, states)
        self.settled = len(params) == len(states)
        if self.lasting:
            for slot, g in zip(self.found, grads, strict=True):
                slot.g = g
            for slot in self._single:
                slot.g = slot.g.resolve_neg()
            return self.found
        self.settled = self.settled and all("m" in states.get(p, ()) for p in params)
        owners = [i for i, group in enumerate(groups) for p in group["params"] if p.grad is not None]
        self.found = [Slot(i, groups[i], p, g, states[p]) for i, p, g in zip(owners, params, grads, strict=True)]
        self.groups = np.array(owners, dtype=np.int64)
        self.numel = sum(slot.numel for slot in self.found)
        self._single = [slot for slot in self.found if slot.numel == 1]
        self.sizes = np.array([slot.numel for slot in self.found], dtype=np.float64)
        self.sharded = any(slot.shards for slot in self.found)
        self.as_they_are = all(slot.p is p for slot, p in zip(self.found, params, strict=True))
        # local parts and views of complex numbers are made anew each time
        self._params, self._sizes = params, sizes if self.as_they_are else []
        self._every, self._states = list(states.values()), [slot.state for slot in self.found]
        names = [name for name in ("m", "v", "average") if self.found and getattr(self.found[0], name) is not None]
        self._tensors = {name: [state.get(name) for state in self._states] for name in names}
        return self.found

    def _still(self, params: list[torch.Tensor], states: Any) -> bool:
        """Say whether the slots of the last step are this one's: same parameters, same state objects."""
        if len(params) != len(self._params) or not all(map(is_, params, self._params)):
            return False
        if len(states) != len(self._every) or not all(map(is_, states.values(), self._every)):
            return False
        return all(kernels.all_hold(self._states, name, tensors) for name, tensors in self._tensors.items())


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
    state["m"] = room(p, "m").zero_()
    if group["norm"] == "coord":
        state["v"] = room(p, "v").zero_()
    elif group["norm"] == "tensor":
        state["v"] = 0.0
    if group["average"]:
        state["average"] = room(p, "average").copy_(p.detach())


PAGE, LARGE = 4096, 1 << 20
"""Bytes of a page of memory, and of a tensor for which it is worth while to choose its place."""

PLACES = {"m": 1088, "v": 2112, "average": 3136}
"""Where in a page a large tensor of the state starts. The system puts all large tensors, parameters and gradients among
them, at the same place of their page; streams in step then compete for the same few lines of the first cache."""


def room(p: torch.Tensor, name: str) -> torch.Tensor:
    """Return a tensor for part of a parameter's state, its numbers undefined; if large, well placed in large pages."""
    dtype = state_dtype(p)
    size = p.numel() * dtype.itemsize
    if size < LARGE or not p.is_cpu or not p.is_contiguous() or getattr(p, "_local_tensor", None) is not None:
        return torch.empty_like(p, dtype=dtype, memory_format=torch.preserve_format, requires_grad=False)
    whole = torch.empty(size + PAGE, dtype=torch.uint8)
    kernels.large_pages(whole.data_ptr(), whole.nbytes)
    start = (PLACES[name] - whole.data_ptr()) % PAGE
    return whole[start : start + size].view(dtype).view(p.shape)

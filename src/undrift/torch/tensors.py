"""The tensors of the state: begun, checked when loaded, and collected for a step as plain local tensors."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from undrift.errors import InputError
from undrift.torch.scalars import SCALARS, Group

State = dict[str, Any]  # what torch keeps per parameter
Tensors = list[torch.Tensor]
Sums = Any
"""A row of sums per slot: a float64 array on the host, or a tensor on an accelerator that nobody has read yet."""

WIDE = ("m", "v", "average")
"""Names of the tensors kept per parameter in `state_dtype`. While the average is in place, x is kept as it is."""
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
HALVES = (torch.bfloat16, torch.float16)


class Slots:
    """Parameters of one group with their gradients and state: lists in one order.

    Complex tensors appear as pairs of reals, sharded ones as their local part.
    """

    def __init__(self, index: int, group: Group, params: Tensors, grads: Tensors, states: list[State]) -> None:
        averages, coord = group["average"], group["norm"] == "coord"
        for p, state in zip(params, states, strict=True):
            if "m" not in state or (averages and "average" not in state):
                begin(state, p, group)
        self.group, self.states = index, states
        self.p, self.g, self.m = params, grads, [state["m"] for state in states]
        self.v: Tensors = [state["v"] for state in states] if coord else []
        """Second moments per coordinate; none in the other norm scopes."""
        self.average: Tensors = [state["average"] for state in states] if averages else []
        self.shards: list[tuple[Any, ...]] = []
        """Process groups over which each parameter is sharded; empty if none is."""
        self.sizes = self.numel = list(map(torch.Tensor.numel, params))
        """Numbers in each tensor here, and real coordinates of the whole parameter over all shards."""
        self.dtypes = {p.dtype for p in params}
        if not set(map(type, params)) <= PLAIN or any(dtype.is_complex for dtype in self.dtypes):
            self._unwrap()
        elif 1 in self.sizes:  # the only contiguous gradients that torch may leave negated in memory
            self.g = [g.resolve_neg() for g in grads]

    def _unwrap(self) -> None:
        """Take the local parts of distributed tensors, and complex numbers as pairs."""
        self.shards = [shards_of(p) for p in self.p]
        self.numel = [p.numel() * (2 if p.is_complex() else 1) for p in self.p]
        self.g = [_local_gradient(*pair) for pair in zip(self.p, self.g, self.shards, strict=True)]
        self.p, self.m, self.v, self.average = (
            [local(tensor) for tensor in column] for column in (self.p, self.m, self.v, self.average)
        )
        self.sizes, self.dtypes = [p.numel() for p in self.p], {p.dtype for p in self.p}

    def pick(self, chosen: Sequence[int]) -> Slots:
        """Return some of them."""
        some = copy.copy(self)
        for name, column in vars(self).items():
            if isinstance(column, list):
                setattr(some, name, [column[i] for i in chosen] if column else [])
        some.dtypes = {p.dtype for p in some.p}
        return some


def collect(who: str, groups: Sequence[Group], states: Any) -> list[Slots]:
    """Return the parameters with a gradient, by group; nothing is changed if one of them cannot be used."""
    found = []
    for index, group in enumerate(groups):
        grads = [p.grad for p in group["params"]]
        params = [p for p, g in zip(group["params"], grads, strict=True) if g is not None]
        grads = [g for g in grads if g is not None]
        if {g.layout for g in grads} - {torch.strided}:
            raise InputError(f"{who} does not support sparse gradients, please consider SparseAdam instead")
        if params:
            found.append((index, group, params, grads))
    return [Slots(*one, [states[p] for p in one[2]]) for one in found]


def begin(state: State, p: torch.Tensor, group: Group) -> None:
    """Fill what an optimizer state lacks: m = 0, v = 0, average = x, as after any number of zero gradients."""
    if "m" not in state:
        state["m"] = torch.zeros_like(p, dtype=state_dtype(p), memory_format=torch.preserve_format)
        if group["norm"] == "coord":
            state["v"] = torch.zeros_like(p, dtype=state_dtype(p), memory_format=torch.preserve_format)
        elif group["norm"] == "tensor":
            state["v"] = 0.0
    if group["average"] and "average" not in state:
        state["average"] = torch.empty_like(p, dtype=state_dtype(p), memory_format=torch.preserve_format)
        state["average"].copy_(p.detach())


def state_dtype(p: torch.Tensor) -> torch.dtype:
    """Return the type of a parameter's moments and average: its own, but single precision for half precision."""
    return torch.float32 if p.dtype in HALVES else p.dtype


def check_loaded(who: str, groups: Sequence[Group], state_dict: State) -> None:
    """Refuse a checkpoint of another class or of other shapes; torch itself checks the number of parameters."""
    for group in state_dict["param_groups"]:
        found = group.get("algorithm", "another optimizer")
        if found != who:
            raise InputError(f"{who}: loaded state dict is of {found}; load it into the class that saved it")
        missing = [name for name in SCALARS if name not in group]
        if missing:
            raise InputError(f"{who}: loaded state dict lacks {', '.join(missing)} in a parameter group")
    for p, saved in _pairs(groups, state_dict):
        for name in (*WIDE, "x"):
            value = saved.get(name)
            if isinstance(value, torch.Tensor) and value.shape != p.shape:
                raise InputError(
                    f"{who}: loaded state dict has {name} of shape {tuple(value.shape)} for a parameter of shape "
                    f"{tuple(p.shape)}; the model must be the one that was saved"
                )


def restore_types(groups: Sequence[Group], states: Any, state_dict: State) -> None:
    """Undo torch's cast of loaded tensors to the parameter's type, which rounds the state of half types."""
    for p, saved in _pairs(groups, state_dict):
        if state_dtype(p) != p.dtype:
            for name in WIDE:
                if isinstance(saved.get(name), torch.Tensor):
                    states[p][name] = saved[name].detach().to(p.device, state_dtype(p), copy=True)


def _pairs(groups: Sequence[Group], state_dict: State) -> list[tuple[torch.Tensor, State]]:
    """Return every parameter with what a checkpoint has for it."""
    ours = [p for group in groups for p in group["params"]]
    theirs = [index for group in state_dict["param_groups"] for index in group["params"]]
    return [(p, state_dict["state"].get(index, {})) for p, index in zip(ours, theirs, strict=False)]


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's part on this rank: itself unless it is distributed."""
    part = getattr(tensor, "_local_tensor", None)
    tensor = tensor if part is None else part
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _local_gradient(p: torch.Tensor, grad: torch.Tensor, shards: tuple[Any, ...]) -> torch.Tensor:
    """Return the part of a gradient that belongs to the parameter's part on this rank."""
    if shards and grad.placements != p.placements:  # type: ignore[attr-defined]  # DTensors
        grad = grad.redistribute(p.device_mesh, p.placements)  # type: ignore[attr-defined]  # DTensor has both
    return local(grad.resolve_conj() if grad.is_complex() else grad).resolve_neg()


def shards_of(p: torch.Tensor) -> tuple[Any, ...]:
    """Return the process groups a distributed parameter is split over; replicas are counted once."""
    if getattr(p, "_local_tensor", None) is None:
        return ()
    mesh, placements = p.device_mesh, p.placements  # type: ignore[attr-defined]  # a DTensor
    if any(place.is_partial() for place in placements):
        raise InputError("undrift.torch: a parameter with partial placements cannot be stepped; redistribute it")
    return tuple(mesh.get_group(i) for i, place in enumerate(placements) if place.is_shard())


def over_shards(slots: Slots, sums: Sums) -> Sums:
    """Add up the parts of parameters that are all sharded in one way, over the ranks that hold them."""
    for group in slots.shards[0] if slots.shards else ():
        whole = torch.as_tensor(sums, device=slots.p[0].device).contiguous()
        torch.distributed.all_reduce(whole, group=group)
        sums = whole.numpy() if isinstance(sums, np.ndarray) else whole
    return sums


def numbers(sums: Sums) -> NDArray[np.float64]:
    """Read sums from their device."""
    if isinstance(sums, np.ndarray):
        return sums
    if type(sums) is not torch.Tensor:  # a wrapper: it may be read number by number
        return np.array([[float(x) for x in row] for row in sums])
    return sums.detach().cpu().numpy().astype(np.float64)

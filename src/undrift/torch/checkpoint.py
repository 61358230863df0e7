"""Checkpoints: refuse those of something else before anything changes, and keep the types they were saved with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from undrift.errors import InputError
from undrift.torch.rounds import SCALARS
from undrift.torch.slots import room, state_dtype

if TYPE_CHECKING:
    from undrift.torch.base import DiscountedAdam

TENSORS = ("m", "v", "average")
"""Names of the tensors kept per parameter."""


def check(optimizer: DiscountedAdam, state_dict: dict[str, Any]) -> None:
    """Refuse a checkpoint of another class or of other shapes; torch itself checks the number of parameters."""
    who = optimizer.NAME
    groups = state_dict["param_groups"]
    for group in groups:
        found = group.get("algorithm", "another optimizer")
        if found != who:
            raise InputError(f"{who}: loaded state dict is of {found}; load it into the class that saved it")
        missing = [name for name in SCALARS if name not in group]
        if missing:
            raise InputError(f"{who}: loaded state dict lacks {', '.join(missing)} in a parameter group")
    ours = [p for group in optimizer.param_groups for p in group["params"]]
    theirs = [index for group in groups for index in group["params"]]
    for p, index in zip(ours, theirs, strict=False):
        for name in TENSORS:
            value = state_dict["state"].get(index, {}).get(name)
            if isinstance(value, torch.Tensor) and value.shape != p.shape:
                raise InputError(
                    f"{who}: loaded state dict has {name} of shape {tuple(value.shape)} for a parameter of shape "
                    f"{tuple(p.shape)}; the model must be the one that was saved"
                )


def settle(optimizer: DiscountedAdam, state_dict: dict[str, Any]) -> None:
    """Give what was loaded its own memory, and undo torch's cast to the parameter's type, which rounds half types."""
    ours = [p for group in optimizer.param_groups for p in group["params"]]
    theirs = [index for group in state_dict["param_groups"] for index in group["params"]]
    for p, index in zip(ours, theirs, strict=True):
        saved = state_dict["state"].get(index, {})
        for name in TENSORS:
            value = saved.get(name)
            if type(value) is torch.Tensor and getattr(p, "_local_tensor", None) is None:
                optimizer.state[p][name] = room(p, name).copy_(value)
            elif isinstance(value, torch.Tensor) and state_dtype(p) != p.dtype:  # distributed
                optimizer.state[p][name] = value.detach().to(p.device, state_dtype(p), copy=True)

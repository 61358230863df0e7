"""Options of the optimizers, checked at the door with the sentences torch users know."""

from __future__ import annotations

import math
from typing import Any

import torch

from undrift import _check
from undrift.errors import InputError
from undrift.optim.core import NORMS
from undrift.torch.scalars import Group

SHARED = ("norm", "random_scaling", "seed", "average", "nonfinite", "algorithm", "c", "noise")
"""Options that belong to the whole optimizer."""


def check(who: str, group: Group) -> None:
    """Refuse options that cannot be used; `group` is complete."""
    lr = group["lr"]
    if isinstance(lr, torch.Tensor) and lr.numel() != 1:
        raise InputError(f"{who}: Tensor lr must be 1-element")
    words = {"learning rate": lr, "epsilon value": group["eps"], "weight_decay value": group["weight_decay"]}
    for name, value in words.items():
        if not 0.0 <= _number(who, name, value) < math.inf:
            raise InputError(f"{who}: Invalid {name}: {value}; it must be >= 0")
    if not isinstance(group["betas"], (tuple, list)) or len(group["betas"]) != 2:
        raise InputError(f"{who}: betas must be a pair (beta1, beta2), got {group['betas']!r}")
    for index, beta in enumerate(group["betas"]):
        if not 0.0 <= _number(who, f"beta parameter at index {index}", beta) < 1.0:
            raise InputError(f"{who}: Invalid beta parameter at index {index}: {beta}; it must be in [0, 1)")
    for name, allowed in (("clip", "(0, inf)"), ("mu", "[0, inf)"), ("c", "(0, inf)"), ("noise", "[0, inf)")):
        if group[name] is not None:
            _check.interval(who, name, group[name], allowed)
    horizon = group["average_horizon"]
    if isinstance(horizon, str):
        _check.choice(who, "average_horizon", horizon, ("growing",))
    elif horizon is not None:
        _check.interval(who, "average_horizon", horizon, "[1, inf)")
    if group["bias_correction"] not in (False, True, "v"):
        raise InputError(f"{who}: bias_correction must be False, 'v' or True, got {group['bias_correction']!r}")
    _check.choice(who, "norm", group["norm"], tuple(NORMS))
    if group["random_scaling"] is not None:
        _check.choice(who, "random_scaling", group["random_scaling"], ("exp",))
    _check.choice(who, "nonfinite", group["nonfinite"], ("skip", "raise", "ignore"))
    _check.integer(who, "seed", group["seed"], 0, 2**64 - 1)
    if group["fused"] and group["foreach"]:
        raise InputError(f"{who}: `fused` and `foreach` cannot be `True` together.")


def check_shared(who: str, defaults: Group, group: Group) -> None:
    """Refuse a group that differs where the whole optimizer must agree."""
    for name in SHARED:
        if name in group and group[name] != defaults[name]:
            raise InputError(
                f"{who}: {name} is one setting for all groups, here {defaults[name]!r}, got {group[name]!r}"
            )


def refuse_unsupported(who: str, chosen: Group) -> None:
    """Say plainly what is not there; what was not asked for is taken out."""
    for name, why in (("capturable", "reads its norms on the host"), ("differentiable", "changes its state in place")):
        if chosen.pop(name):
            raise InputError(f"{who}: {name}=True is not supported; the step {why}")


def _number(who: str, name: str, value: Any) -> float:
    if isinstance(value, (bool, str, bytes)) or value is None:
        raise InputError(f"{who}: Invalid {name}: {value!r}; it must be a number")
    return float(value)

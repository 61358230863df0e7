"""The scalars of one round: which numbers each tensor's loop needs, from `optim.core` and a parameter group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from undrift.optim import core

Group = dict[str, Any]  # what torch calls a param group: options and scalars by name
Number = Any  # a float, or a 0-d tensor that has not been read yet
Scalars = Any  # a float, or an array with one per tensor

SCALARS = (
    "t", "v", "warmth", "warmth2", "average_warmth", "spread", "m_square",
    "skipped", "clipped", "g_square", "g_largest", "gradient_sum", "spread_sum", "noise_sum",
)  # fmt: skip
"""State kept as plain numbers in every group: there alone it survives every kind of checkpoint unchanged.

The first line is the recursion, the second the record of it: steps skipped, share of norms clipped, the last and the
largest |g|^2, and the sums over rounds of the three parts of the certificate (the same in every group).
"""

PENDING = ("ahead", "ahead_square")
"""More plain numbers in every group, 0 unless `torch.ahead` is at work: the weight with which averages have taken in
the weights that the last step made (-1: never do), and the squared distance between the two before."""


class Unit(NamedTuple):
    """What `core.rate` reads, in units of gamma, so that a learning rate of 0 needs no division."""

    gamma: float
    nu: float
    mu: Scalars


class Row(NamedTuple):
    """The numbers one tensor's loop needs; the kernels take them as a row of float64 in this order."""

    sign: float
    """-1 where the objective is maximised, else 1."""
    l2: float
    """Weight decay that enters the gradient."""
    gap1: float
    gap2: float
    damping: float
    """nu + gamma mu (1 - beta1^t): what is added to the root of the second moment."""
    clip: float
    """Largest length in units of gamma; infinite without clipping."""
    step: float
    """x moves by -step m, or by -step times the clipped quotient with norm scope "coord"."""
    weight: float
    """Weight of x in the average; 0 where the average has it already."""
    decay: float
    """Factor on x from decoupled weight decay."""
    m_scale: float
    v_scale: float
    """Bias corrections; 1 without."""
    ahead: float
    """Weight of the moved x in the average, which then has it one round ahead; else 0. For the kernel alone."""


def gaps(group: Group) -> tuple[float, float]:
    """Return (1 - beta1, 1 - beta2): as given in theory units while the betas still say the same, else from them."""
    exact = group["gaps"] or (math.nan, math.nan)
    one, two = (gap if 1.0 - gap == beta else 1.0 - beta for gap, beta in zip(exact, group["betas"], strict=True))
    return float(one), float(two)


def average_gap(group: Group) -> float:
    """Return 1 - beta of the averaged weights: that of m unless another one was asked for."""
    return gaps(group)[0] if group["ema_beta"] is None else 1.0 - float(group["ema_beta"])


class Opening:
    """Scalars of a group's coming round that do not depend on gradients."""

    def __init__(self, group: Group, dim: int) -> None:
        self.group = group
        self.gap1, self.gap2 = gaps(group)
        self.t = group["t"] + 1
        self.warmth = core.ema(group["warmth"], 1.0, self.gap1)
        self.warmth2 = core.ema(group["warmth2"], 1.0, self.gap2)
        gap = average_gap(group)
        self.average_warmth = core.ema(group["average_warmth"], 1.0, gap)
        self.weight = core.averaging_weight(self.average_warmth, gap) if group["average"] else 1.0
        self.next_weight = core.averaging_weight(core.ema(self.average_warmth, 1.0, gap), gap)
        self.ahead = 0.0
        """Weight of the x that this round makes, if the average is to take that in too."""
        self.square: float | None = None
        """|x - average|^2 if the average has taken in x already; `weight` is 0 then."""
        self.scale = 1.0  # s of round t + 1, whose move this step makes
        if group["random_scaling"] == "exp":
            self.scale = core.exponential(core.bits(group["seed"], self.t + 1)[0])
        self.lr = float(group["lr"])
        self.dim = dim
        self.clip = math.inf if group["clip"] is None else float(group["clip"])
        corrected = group["bias_correction"]
        self.m_scale = 1.0 / self.warmth if corrected else 1.0
        self.v_scale = 1.0 / self.warmth2 if corrected else 1.0
        decoupled = group["decoupled_weight_decay"]
        self.l2 = 0.0 if decoupled else float(group["weight_decay"])
        self.decay = 1.0 - self.lr * float(group["weight_decay"]) if decoupled else 1.0
        self.sign = -1.0 if group["maximize"] else 1.0

    def gamma(self) -> float:
        """Step scale: `lr` is the root mean square change per coordinate in every norm scope.

        With norm "tensor" it is that of a tensor with one coordinate; times the root of its size for others.
        """
        return self.lr * math.sqrt(self.dim) if self.group["norm"] == "all" else self.lr

    def rate(self, v: Scalars, gamma: Scalars) -> Scalars:
        """Return the step multiplier in units of gamma."""
        unit = Unit(1.0, float(self.group["eps"]), gamma * self.group["mu"])
        return core.rate(v * self.v_scale, self.warmth, unit) * self.m_scale

    def row(self, gamma: float, multiplier: float = 1.0) -> Row:
        """Return the numbers of one tensor's loop, its step being `multiplier` (in units of gamma) times -m."""
        damping = self.group["eps"] + gamma * self.group["mu"] * self.warmth
        return Row(
            self.sign,
            self.l2,
            self.gap1,
            self.gap2,
            damping,
            self.clip,
            gamma * self.scale * multiplier,
            self.weight,
            self.decay,
            self.m_scale,
            self.v_scale,
            self.ahead,
        )

    def rows(self, gamma: NDArray[np.float64], multiplier: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows of many tensors, which differ in step scale and multiplier."""
        table = np.tile(np.array(self.row(1.0)), (len(gamma), 1))
        table[:, Row._fields.index("damping")] = self.group["eps"] + gamma * self.group["mu"] * self.warmth
        table[:, Row._fields.index("step")] = gamma * self.scale * multiplier
        return table

    def close(self, v: float, m_square: Number, square: Number, next_square: float) -> None:
        """Write the round into the group; `square` is the squared distance of x from the average before it moved."""
        group = self.group
        group["t"], group["v"] = self.t, v
        group["warmth"], group["warmth2"], group["average_warmth"] = self.warmth, self.warmth2, self.average_warmth
        group["m_square"] = m_square
        if group["average"]:
            weight = self.weight if self.square is None else group["ahead"]
            group["spread"] = core.spread_after(group["spread"], weight, square if self.square is None else self.square)
        if self.square is not None or self.ahead > 0.0:
            group["ahead"], group["ahead_square"] = self.ahead, next_square


def reach(openings: Sequence[Opening], squares: Sequence[float]) -> float:
    """Bound the length of the coming move in units of gamma, one norm over all groups, by |m'| <= beta |m| + gap |g|.

    `squares` are |g|^2 per group. Below the clip, |m'| itself need not be known. The bound needs |m| of the last round,
    infinite if it is still on an accelerator.
    """
    total, parts = sum(squares), [0.0]
    for opening, square in zip(openings, squares, strict=True):
        group = opening.group
        if isinstance(group["m_square"], torch.Tensor):
            return math.inf
        length = (1.0 - opening.gap1) * math.sqrt(group["m_square"]) + opening.gap1 * math.sqrt(square)
        parts.append(opening.rate(core.ema(group["v"], total, opening.gap2), opening.gamma()) * length)
    return math.hypot(*parts)


def record(groups: Sequence[Group], g_square: Number, clipped: float) -> None:
    """Add a closed round to the record that `certificate` and `diagnostics` read; same numbers in every group."""
    first = groups[0]
    gap1, warmth = gaps(first)[0], first["warmth"]
    length = sum(group["m_square"] for group in groups) ** 0.5
    after = {
        "g_square": g_square,
        "g_largest": largest(first["g_largest"], g_square),
        "clipped": first["clipped"] + clipped,
        "gradient_sum": first["gradient_sum"] + core.stationarity(length, warmth, 0.0, 0.0),
        "spread_sum": first["spread_sum"] + sum(group["spread"] for group in groups),
        "noise_sum": first["noise_sum"] + core.noise_slack(1.0, warmth, gap1),
    }
    for group in groups:
        group.update(after)


def largest(old: Number, new: Number) -> Number:
    """Return the larger number; on an accelerator without reading either."""
    if not isinstance(new, torch.Tensor):
        return max(float(old), new)
    return torch.fmax(torch.as_tensor(old, dtype=new.dtype, device=new.device), new)


def inherit(group: Group, first: Group) -> None:
    """Give a group added late the scalars of one whose gradients were zero so far; its tensors start like that too."""
    for name in ("t", "v", "seed", *SCALARS[7:]):
        group[name] = first[name]
    gap1, gap2 = gaps(group)
    for name, gap in (("warmth", gap1), ("warmth2", gap2), ("average_warmth", average_gap(group))):
        group[name] = -math.expm1(first["t"] * math.log1p(-gap))

"""The scalars of one round: which numbers the loops over tensors need, from `optim.core` and a parameter group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from undrift.optim import core

Group = dict[str, Any]  # what torch calls a param group: options and scalars by name
Number = Any  # a float, an array with one per tensor, or a 0-d tensor on an accelerator that nobody has read

SCALARS = (
    "t", "v", "warmth", "warmth2", "average_warmth", "spread", "m_square", "g_mean",
    "skipped", "clipped", "g_square", "g_largest", "gradient_sum", "spread_sum", "noise_sum",
)  # fmt: skip
"""State kept as plain numbers in every group: there alone it survives every kind of checkpoint unchanged.

The first line is the recursion (`g_mean` is |g|^2 averaged like m), the second the record of it: steps skipped, share
of norms clipped, the last and the largest |g|^2, and the sums over rounds of the three parts of the certificate.
`g_mean` and the second line are the same in every group. On an accelerator those that depend on gradients may be
tensors until somebody reads them.
"""

RECORD = ("g_mean", "g_square", "g_largest", "clipped", "gradient_sum", "spread_sum", "noise_sum")
READ = ("v", "spread", "m_square", *RECORD)
"""Scalars that may still be on an accelerator."""


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
    step: Number
    """x moves by -step m, or by -step times the clipped quotient with norm scope "coord"."""
    weight: float
    """Weight of x in the average."""
    decay: float
    """Factor on x from decoupled weight decay."""
    m_scale: float
    v_scale: float
    """Bias corrections; 1 without."""


def gaps(group: Group) -> tuple[float, float]:
    """Return (1 - beta1, 1 - beta2): as given in theory units while the betas still say the same, else from them."""
    exact = group["gaps"] or (math.nan, math.nan)
    one, two = (gap if 1.0 - gap == beta else 1.0 - beta for gap, beta in zip(exact, group["betas"], strict=True))
    return float(one), float(two)


def horizon_gap(group: Group) -> float:
    """Return 1 - beta of averaged weights with a fixed horizon: that of m unless another one was asked for."""
    horizon = group["average_horizon"]
    return gaps(group)[0] if horizon is None else 1.0 / float(horizon)


class GroupRound:
    """The scalars of a group's coming round."""

    def __init__(self, group: Group, dim: int) -> None:
        self.group = group
        self.gap1, self.gap2 = gaps(group)
        self.t = group["t"] + 1
        self.warmth = core.ema(group["warmth"], 1.0, self.gap1)
        self.warmth2 = core.ema(group["warmth2"], 1.0, self.gap2)
        if group["average_horizon"] == "growing":
            self.average_warmth, self.weight = 1.0, core.growing_weight(self.t)
        else:
            gap = horizon_gap(group)
            self.average_warmth = core.ema(group["average_warmth"], 1.0, gap)
            self.weight = core.averaging_weight(self.average_warmth, gap)
        self.scale = 1.0  # s of round t + 1, whose move this step makes
        if group["random_scaling"] == "exp":
            self.scale = core.exponential(core.bits(group["seed"], self.t + 1)[0])
        self.lr = float(group["lr"])
        self.clip = math.inf if group["clip"] is None else float(group["clip"])
        self.gamma = self.lr * math.sqrt(dim) if group["norm"] == "all" else self.lr
        """Step scale: `lr` is the root mean square change per coordinate in every norm scope.

        With norm "tensor" it is that of a tensor with one coordinate; times the root of its size for others.
        """
        corrected = group["bias_correction"]
        self.v: Number = group["v"]
        """Second moment after the round, where all parameters share one."""
        self.m_scale = 1.0 / self.warmth if corrected is True else 1.0
        self.v_scale = 1.0 / self.warmth2 if corrected else 1.0

    def rate(self, v: Number, gamma: Number) -> Number:
        """Return the step multiplier in units of gamma."""
        unit = core.Unit(1.0, float(self.group["eps"]), gamma * self.group["mu"])
        return core.rate(v * self.v_scale, self.warmth, unit) * self.m_scale

    def row(self, multiplier: Number = 1.0) -> Row:
        """Return the numbers of the group's loops, a step being `multiplier` (in units of gamma) times -m."""
        group = self.group
        decay, decoupled = float(group["weight_decay"]), group["decoupled_weight_decay"]
        return Row(
            sign=-1.0 if group["maximize"] else 1.0,
            l2=0.0 if decoupled else decay,
            gap1=self.gap1,
            gap2=self.gap2,
            damping=group["eps"] + self.gamma * group["mu"] * self.warmth,
            clip=self.clip,
            step=self.gamma * self.scale * multiplier,
            weight=self.weight,
            decay=1.0 - self.lr * decay if decoupled else 1.0,
            m_scale=self.m_scale,
            v_scale=self.v_scale,
        )

    def close(self) -> None:
        """Write what does not depend on gradients into the group, and the second moment that all parameters share."""
        group = self.group
        group["t"], group["v"] = self.t, self.v
        group["warmth"], group["warmth2"], group["average_warmth"] = self.warmth, self.warmth2, self.average_warmth


class Entry(NamedTuple):
    """What a closed round adds to the record."""

    values: list[Number]
    """|m|^2 of every group, |x - average|^2 of every group before either moved, |g|^2 over all, share clipped."""
    weights: list[float]
    """Weight of x in the average of every group."""
    warmth: float
    gap1: float
    """1 - beta1^t and 1 - beta1 of the first group."""


def record(groups: Sequence[Group], entry: Entry) -> None:
    """Add a closed round to what `certificate` and `diagnostics` read; a group added since has no part in it."""
    count = len(entry.weights)
    m_squares, distances, (g_square, clipped) = entry.values[:count], entry.values[count:-2], entry.values[-2:]
    for group, m_square, distance, weight in zip(groups, m_squares, distances, entry.weights, strict=False):
        group["m_square"] = m_square
        if group["average"]:
            group["spread"] = core.spread_after(group["spread"], weight, distance)
    first = groups[0]
    length = sum(m_squares[1:], m_squares[0]) ** 0.5
    spread = sum((group["spread"] for group in groups[1:]), first["spread"])
    after = {
        "g_mean": core.ema(first["g_mean"], g_square, entry.gap1),
        "g_square": g_square,
        "g_largest": first["g_largest"] + (g_square > first["g_largest"]) * (g_square - first["g_largest"]),
        "clipped": first["clipped"] + clipped,
        "gradient_sum": first["gradient_sum"] + core.stationarity(length, entry.warmth, 0.0, 0.0),
        "spread_sum": first["spread_sum"] + spread,
        "noise_sum": first["noise_sum"] + core.noise_slack(1.0, entry.warmth, entry.gap1),
    }
    for group in groups:
        group.update(after)


def read_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries with plain numbers, all of them read from their device at once."""
    waiting = [x.double() for entry in entries for x in entry.values if isinstance(x, torch.Tensor)]
    found = iter(torch.stack(waiting).cpu().tolist() if waiting else ())
    return [
        entry._replace(values=[next(found) if isinstance(x, torch.Tensor) else x for x in entry.values])
        for entry in entries
    ]


def inherit(group: Group, first: Group) -> None:
    """Give a group added late the scalars of one whose gradients were zero so far; its tensors start like that too."""
    for name in ("t", "v", "seed", "skipped", *RECORD):
        group[name] = first[name]
    gap1, gap2 = gaps(group)
    average = 1.0 if group["average_horizon"] == "growing" else horizon_gap(group)
    for name, gap in (("warmth", gap1), ("warmth2", gap2), ("average_warmth", average)):
        group[name] = 1.0 if gap == 1.0 else -math.expm1(first["t"] * math.log1p(-gap))

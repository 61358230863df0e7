"""What both optimizers share: options, the two phases of a step, and scalars that survive every checkpoint."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.optimizer import Optimizer, ParamsT

from undrift import _check
from undrift.errors import InputError, UndriftWarning
from undrift.optim import core
from undrift.optim.core import NORMS
from undrift.torch.averaging import Averaging
from undrift.torch.foreach import ForeachPart
from undrift.torch.kernel import CheckedTensors, KernelPart, kernel_part
from undrift.torch.reading import Reading
from undrift.torch.scalars import READ, SCALARS, Entry, Group, GroupRound, Number, inherit, read_entries, record
from undrift.torch.tensors import Slots, Sums, check_loaded, collect, numbers, over_shards, restore_types

Norm = Literal["all", "tensor", "coord"]
Part = KernelPart | ForeachPart
_PENDING = 256
"""Rounds whose sums may wait on an accelerator before they are read, all at once."""
SHARED = ("norm", "random_scaling", "seed", "average", "nonfinite", "algorithm", "c", "noise")
"""Options that belong to the whole optimizer."""


class DiscountedAdam(Averaging, Reading, Optimizer):
    """Adam as discounted follow-the-regularised-leader; see `ClippedAdam` and `ClipFreeAdam`."""

    NAME: ClassVar[str] = "DiscountedAdam"

    def __init__(self, params: ParamsT, chosen: Group, process_group: Any = None) -> None:
        refuse_unsupported(self.NAME, chosen)
        defaults: Group = {
            **chosen,
            "algorithm": self.NAME,
            "gaps": None,
            "differentiable": False,
            **{name: 0 if name in ("t", "skipped") else 0.0 for name in SCALARS},  # plain numbers
        }
        check_options(self.NAME, defaults)
        self.process_group = process_group
        self._pending: list[Entry] = []
        self._checked: dict[int, CheckedTensors] = {}
        if process_group is not None and defaults["norm"] == "tensor":
            raise InputError(f"{self.NAME}: norm='tensor' has no meaning for flat shards (process_group)")
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("process_group", None)
        self._pending, self._checked = [], {}
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def __getstate__(self) -> dict[str, Any]:
        self._read_pending()
        return super().__getstate__()

    def __repr__(self) -> str:
        lines = []
        for group in self.param_groups:
            told = {name: group[name] for name in ("lr", "betas", "norm", "average_horizon") if group[name] is not None}
            text = ", ".join(f"{name}={value!r}" for name, value in told.items())
            lines.append(f"{text}, {len(group['params'])} tensors, {group['t']} rounds")
        return f"{self.NAME}({'; '.join(lines)})"

    def add_param_group(self, param_group: Group) -> None:
        """Add a group; it starts as if it had been there from the first round with zero gradients."""
        check_options(self.NAME, {**self.defaults, **param_group})
        check_shared(self.NAME, self.param_groups[0] if self.param_groups else self.defaults, param_group)
        super().add_param_group(param_group)
        if len(self.param_groups) > 1 and self.param_groups[0]["t"] > 0:
            self._read_pending()
            inherit(self.param_groups[-1], self.param_groups[0])

    def state_dict(self) -> dict[str, Any]:
        """Return the state as torch does; while the averaged weights are in place it holds the training weights too."""
        self._read_pending()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned, options included; half-precision parameters keep single-precision state.

        If it was saved with the averaged weights in place, the model must have been saved with them too.
        """
        seen: list[dict[str, Any]] = []

        def last(_: Optimizer, final: dict[str, Any]) -> None:  # after the user's own hooks
            check_loaded(self.NAME, self.param_groups, final)
            seen.append(final)

        handle = self.register_load_state_dict_pre_hook(last)
        wanted = self.param_groups[0]["average"]
        try:
            super().load_state_dict(state_dict)
        finally:
            handle.remove()
        self._pending, self._checked = [], {}
        restore_types(self.param_groups, self.state, seen[0])
        if wanted and not self.param_groups[0]["average"]:
            warnings.warn(
                f"{self.NAME}: the loaded run keeps no averages (average=False), and what is loaded counts; "
                "to average from here on, set `average` to True in every param group",
                UndriftWarning,
                stacklevel=2,
            )

    def _read_pending(self) -> None:
        """Make plain numbers of all scalars that are still on an accelerator."""
        entries = read_entries(self._pending)
        self._pending = []
        for entry in entries:
            record(self.param_groups, entry)
        for group in self.param_groups:
            for name in READ:
                group[name] = float(group[name])

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Close one round: average x, take in its gradient, move x. `closure` is called first if given."""
        self._refuse_while_averaged("step")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
            self._refuse_while_averaged("step")  # the closure may have put them there
        slots = collect(self.NAME, self.param_groups, self.state)
        if slots or self.process_group is not None:
            self._round(slots)
        return loss

    def _round(self, slots: list[Slots]) -> None:
        first = self.param_groups[0]
        norm, nonfinite = first["norm"], first["nonfinite"]
        parts = self._share_out(slots)
        dim = round(self._over_ranks([sum(sum(some.numel) for some in slots)])[0])
        rounds = [GroupRound(group, dim) for group in self.param_groups]
        looks = nonfinite != "ignore" and not any(part.slots.p[0].is_meta for part in parts)  # those have no numbers
        measured: list[Sums] = []
        if looks or norm != "coord":
            with_m = norm != "coord" and first["clip"] is not None
            measured = _alike([part.measure(rounds[part.group].row(), with_m) for part in parts], parts)
            if looks or norm == "tensor" or self.process_group is not None:
                measured = [numbers(sums) for sums in measured]
            if looks and not self._usable(parts, measured):
                return
        multipliers, clipped = [1.0] * len(rounds), 0.0
        steps: list[list[float] | None] = [None] * len(parts)
        if norm == "all":
            multipliers, clipped = self._one_norm(parts, rounds, measured)
        elif norm == "tensor":
            steps, clipped = _norm_per_tensor(parts, rounds, measured)
        rows = [one.row(multiplier) for one, multiplier in zip(rounds, multipliers, strict=True)]
        applied = [part.apply(rows[part.group], s, not measured) for part, s in zip(parts, steps, strict=True)]
        totals = _totals(parts, _alike(applied, parts), len(rounds))
        looked = _totals(parts, measured, len(rounds))
        g_squares = [row[0] for row in looked] if measured else [row[2] for row in totals]
        self._close(rounds, totals, g_squares, clipped)

    def _close(self, rounds: list[GroupRound], applied: list[Any], g_squares: list[Number], clipped: Number) -> None:
        """Write the round's scalars into the groups; what is on an accelerator stays there until it is read."""
        if self.process_group is not None:
            flat = self._over_ranks([float(x) for row in applied for x in row[:2]] + [float(x) for x in g_squares])
            applied = [flat[2 * i : 2 * i + 2] for i in range(len(rounds))]
            g_squares = flat[2 * len(rounds) :]
        values = [row[i] for i in (0, 1) for row in applied]
        values += [sum(g_squares[1:], g_squares[0]), clipped]
        entry = Entry(values, [one.weight for one in rounds], rounds[0].warmth, rounds[0].gap1)
        for one in rounds:
            one.close()
        if any(isinstance(x, torch.Tensor) for x in values) and not torch.compiler.is_compiling():
            self._pending.append(entry)
            if len(self._pending) >= _PENDING:
                self._read_pending()
            return
        if self._pending:
            self._read_pending()
        record(self.param_groups, entry)

    def _usable(self, parts: Sequence[Part], measured: Sequence[NDArray[np.float64]]) -> bool:
        """Decide on a step whose gradients may be unusable; all ranks decide alike."""
        usable = True
        for part, sums in zip(parts, measured, strict=True):
            limit = float(torch.finfo(part.slots.m[0].dtype).max) if part.slots.v else math.inf
            usable = usable and bool((sums[:, 0] < limit).all())  # false for NaN
        if self._over_ranks([float(not usable)])[0] == 0.0:
            return True
        text = f"{self.NAME}: a gradient is not finite or too large to be squared; nothing was advanced"
        if self.param_groups[0]["nonfinite"] == "raise":
            raise InputError(f"{text}; find its origin, or skip such steps with nonfinite='skip'")
        for group in self.param_groups:
            group["skipped"] += 1
        warnings.warn(f"{text} and the step is skipped", UndriftWarning, stacklevel=_level_of_caller())
        return False

    def _one_norm(
        self, parts: Sequence[Part], rounds: list[GroupRound], measured: list[Sums]
    ) -> tuple[list[Number], Number]:
        """Advance the second moment that all groups share; return their multipliers and whether it was clipped."""
        totals = _totals(parts, measured, len(rounds))
        if self.process_group is not None:
            flat = self._over_ranks([float(x) for row in totals for x in (*row, 0.0)[:2]])
            totals = [flat[i : i + 2] for i in range(0, len(flat), 2)]
        square = sum((row[0] for row in totals[1:]), totals[0][0])
        rates = []
        for one in rounds:
            one.v = core.ema(one.group["v"], square, one.gap2)
            rates.append(one.rate(one.v, one.gamma))
        if rounds[0].clip == math.inf:
            return rates, 0.0
        pieces = [rate**2 * row[1] for rate, row in zip(rates, totals, strict=True)]
        length = sum(pieces[1:], pieces[0]) ** 0.5
        pairs = zip(rates, rounds, strict=True)
        return [rate * core.shrink(length, one.clip) for rate, one in pairs], (length > rounds[0].clip) * 1.0

    def _share_out(self, collected: Sequence[Slots]) -> list[Part]:
        """Put slots that step alike together: our kernel on the CPU, torch's operations for all else."""
        found: list[Part] = []
        for slots in collected:
            group = self.param_groups[slots.group]
            allowed = group["foreach"] is None and group["fused"] is not False and not torch.compiler.is_compiling()
            if allowed and (part := kernel_part(slots, self._checked.get(slots.group))):
                self._checked[slots.group] = part.checked
                found.append(part)
                continue
            alike: dict[Any, list[int]] = {}
            for i, (p, g, m) in enumerate(zip(slots.p, slots.g, slots.m, strict=True)):
                by_kernel = allowed and kernel_part(slots.pick([i]), None) is not None
                alone = i if group["foreach"] is False else None
                key = (by_kernel, p.device, p.dtype, g.dtype, m.dtype, *slots.shards[i : i + 1], alone)
                alike.setdefault(key, []).append(i)
            some = map(slots.pick, alike.values())
            found += [(kernel_part(one, None) if allowed else None) or ForeachPart(one) for one in some]
        return found

    def _over_ranks(self, values: list[float]) -> list[float]:
        """Add up numbers over the process group: for parameters that are shards without saying so."""
        if self.process_group is None:
            return values
        devices = (p.device for group in self.param_groups for p in group["params"])
        whole = torch.tensor(values, dtype=torch.float64, device=next(devices, torch.device("cpu")))
        torch.distributed.all_reduce(whole, group=self.process_group)
        total: list[float] = whole.tolist()
        return total


def _alike(found: list[Sums], parts: Sequence[Part]) -> list[Sums]:
    """Add up over shards; sums that are not all on one device are read, so that they can be added."""
    found = [over_shards(part.slots, sums) for part, sums in zip(parts, found, strict=True)]
    places = {sums.device if isinstance(sums, torch.Tensor) else None for sums in found}
    return found if len(places) < 2 else [numbers(sums) for sums in found]


def _totals(parts: Sequence[Part], found: Sequence[Sums], count: int) -> list[Any]:
    """Add up the rows of sums of every parameter group; floats on the host, zeros for a group without gradients."""
    totals: list[Any] = [None] * count
    for part, sums in zip(parts, found, strict=False):  # nothing was found where nobody looked
        i = part.group
        row = sums.sum(0)
        totals[i] = row if totals[i] is None else totals[i] + row
    nothing = [0.0] * 3  # as many as the sums of a slot, at most
    return [nothing if row is None else row.tolist() if isinstance(row, np.ndarray) else row for row in totals]


def _norm_per_tensor(
    parts: Sequence[Part], rounds: list[GroupRound], measured: Sequence[NDArray[np.float64]]
) -> tuple[list[list[float] | None], float]:
    """Advance the second moment of every slot; return the scales of their steps and the share that was clipped."""
    scales: list[list[float] | None] = []
    clipped = count = 0
    for part, sums in zip(parts, measured, strict=True):
        one = rounds[part.group]
        gamma = one.gamma * np.sqrt(part.slots.numel)
        v = core.ema(np.array([state["v"] for state in part.slots.states]), sums[:, 0], one.gap2)
        rate = one.rate(v, gamma)
        clip = None if one.clip == math.inf else one.clip
        length = 0.0 if clip is None else np.sqrt(sums[:, 1])
        clipped += 0 if clip is None else int((rate * length > clip).sum())
        count += len(v)
        for state, moment in zip(part.slots.states, v.tolist(), strict=True):
            state["v"] = moment
        scales.append((gamma * one.scale * core.multiplier(rate, length, clip)).tolist())
    return scales, clipped / max(count, 1)


def _level_of_caller() -> int:
    """Return the stack level, for a warning, of the line that called `step`: torch's wrappers differ by version."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("torch", "undrift"):
        frame, level = frame.f_back, level + 1
    return level


def check_options(who: str, group: Group) -> None:
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

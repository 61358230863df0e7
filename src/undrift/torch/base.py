"""What both optimizers share: options, the two phases of a step, and scalars that survive every checkpoint."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.optimizer import Optimizer, ParamsT

from undrift.errors import InputError, UndriftWarning
from undrift.optim import core
from undrift.torch import ahead, checkpoint, options, paths
from undrift.torch.averaging import Averaging
from undrift.torch.reading import Reading
from undrift.torch.rounds import PENDING, SCALARS, Group, Number, Opening, Row, inherit, reach, record
from undrift.torch.slots import Slot, Slots
from undrift.torch.sums import Sums, numbers, over_ranks, per_group, reduced

Norm = Literal["all", "tensor", "coord"]
_SINGLE = float(torch.finfo(torch.float32).max)


class DiscountedAdam(Averaging, Reading, Optimizer):
    """Adam as discounted follow-the-regularised-leader; see `ClippedAdam` and `ClipFreeAdam`."""

    NAME: ClassVar[str] = "DiscountedAdam"

    def __init__(self, params: ParamsT, chosen: Group, process_group: Any = None) -> None:
        options.refuse_unsupported(self.NAME, chosen.pop("capturable"), chosen.pop("differentiable"))
        defaults: Group = {
            **chosen,
            "algorithm": self.NAME,
            "gaps": None,
            "differentiable": False,
            **{name: 0 if name in ("t", "skipped") else 0.0 for name in (*SCALARS, *PENDING)},  # plain numbers
        }
        options.check(self.NAME, defaults)
        self.process_group = process_group
        if process_group is not None and defaults["norm"] == "tensor":
            raise InputError(f"{self.NAME}: norm='tensor' has no meaning for flat shards (process_group)")
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("process_group", None)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group; it starts as if it had been there from the first round with zero gradients."""
        options.check(self.NAME, {**self.defaults, **param_group})
        options.check_shared(self.NAME, self.defaults, param_group)
        super().add_param_group(param_group)
        if len(self.param_groups) > 1 and self.param_groups[0]["t"] > 0:
            inherit(self.param_groups[-1], self.param_groups[0])

    def state_dict(self) -> dict[str, Any]:
        """Return the state as torch does; refused while the averaged weights are in place."""
        self._refuse_while_averaged("state_dict")
        self._heed_changes()
        for group in self.param_groups:  # numbers that were still on an accelerator
            for name in ("spread", "m_square", "g_square", "g_largest", "gradient_sum", "spread_sum"):
                group[name] = float(group[name])
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned; state of half-precision parameters stays in single precision."""
        self._refuse_while_averaged("load_state_dict")
        seen: list[dict[str, Any]] = []

        def last(_: Optimizer, final: dict[str, Any]) -> None:  # after the user's own hooks
            checkpoint.check(self, final)
            seen.append(final)

        handle = self.register_load_state_dict_pre_hook(last)
        try:
            super().load_state_dict(state_dict)
        finally:
            handle.remove()
        checkpoint.settle(self, seen[0])
        self._forget_versions()

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
        self._advance()
        return loss

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # torch does not type it
    def _advance(self) -> None:
        """Run the step; not traced by `torch.compile`, which would compile anew for every change of a scalar."""
        self._heed_changes()
        slots = self._slots.collect(self.NAME, self.param_groups, self.state)
        if slots or self.process_group is not None:
            self._round(slots)

    @property
    def _slots(self) -> Slots:
        """The slots of the last step; not part of the state."""
        kept: Slots | None = self.__dict__.get("_kept_slots")
        if kept is None:
            kept = self.__dict__["_kept_slots"] = Slots()
        return kept

    def _plan(self, slots: list[Slot]) -> paths.Plan:
        """The plan of the last step if it still serves, else a new one; not part of the state."""
        kept: paths.Plan | None = self.__dict__.get("_kept_plan")
        if kept is None or not kept.serves(self.param_groups, slots):
            kept = self.__dict__["_kept_plan"] = paths.Plan(self.param_groups, slots)
        return kept

    def _round(self, slots: list[Slot]) -> None:
        norm = self.param_groups[0]["norm"]
        dim = self._slots.numel
        if self.process_group is not None:
            dim = round(over_ranks([dim], self.process_group, self._device())[0])
        openings = [Opening(group, dim) for group in self.param_groups]
        plan = self._plan(slots)
        repair = ahead.open_rounds(openings, self._slots, plan.by_kernel and self.process_group is None)
        which = self._slots.groups
        rows = [opening.row(opening.gamma()) for opening in openings]
        measured = np.zeros((0, 2))
        total = math.nan
        trusting = norm == "coord" and self.defaults["nonfinite"] == "ignore"  # then one pass is enough
        if not trusting:
            measured = self._measure(plan, rows, openings)
            if not self._usable(measured[:, 0], slots, norm):
                return
            total = self._summed(measured[:, 0])
        second = [float(group["v"]) for group in self.param_groups]
        table: list[Row] | NDArray[np.float64] = rows
        moments: list[float] = []
        clipped = 0.0
        if norm == "all":
            second, table, clipped = self._one_norm(total, openings, measured)
        elif norm == "tensor":
            which = np.arange(len(slots))
            moments, table, clipped = _norm_per_tensor(self._slots, openings, measured)
        if repair is not None:
            repair(self.param_groups, self.state, self._untouched)
        sums = plan.apply(table, which, trusting)
        sums = reduced(slots, sums) if self._slots.sharded else sums
        for slot, moment in zip(slots, moments, strict=False):
            slot.state["v"] = moment
        self._close(openings, second, sums)
        self._watch()
        record(self.param_groups, self._seen(sums) if trusting else total, clipped)

    def _measure(self, plan: paths.Plan, rows: list[Row], openings: list[Opening]) -> NDArray[np.float64]:
        """First phase: |g|^2 of every slot, and |m|^2 after the round where clipping may depend on it."""
        norm = self.param_groups[0]["norm"]
        clip = min(opening.clip for opening in openings)
        with_m = clip != math.inf and norm != "coord"
        alone = self.process_group is None and not self._slots.sharded and self._slots.lasting
        hopeful = with_m and norm == "all" and alone
        if hopeful:  # judging by the last gradient: will the clip be out of reach?
            last = float(self.param_groups[0]["g_square"])
            hopeful = reach(openings, [last] * len(openings)) < 0.9 * clip
        measured = self._look(plan, rows, with_m and not hopeful)
        if hopeful:
            squares = per_group(measured, 0, self._slots.groups, len(openings))
            if not reach(openings, squares) < 0.999 * clip:  # a margin for rounding
                measured = self._look(plan, rows, with_m)
        return measured

    def _look(self, plan: paths.Plan, rows: list[Row], with_m: bool) -> NDArray[np.float64]:
        found = plan.measure(rows, self._slots.groups, with_m)
        return numbers(reduced(self._slots.found, found) if self._slots.sharded else found)

    def _seen(self, sums: Sums) -> Number:
        """|g|^2 over all parameters from the step itself; on an accelerator it stays there."""
        if self.process_group is None and isinstance(sums, torch.Tensor):
            return sums[:, 2].sum()
        return self._summed(numbers(sums)[:, 2])

    def _summed(self, values: NDArray[np.float64]) -> float:
        total = float(values.sum())
        if self.process_group is not None:
            total = over_ranks([total], self.process_group, self._device())[0]
        return total

    def _usable(self, squares: NDArray[np.float64], slots: list[Slot], norm: str) -> bool:
        """Decide on a step whose gradients may be unusable; all ranks decide alike."""
        usable = bool(np.isfinite(squares).all())
        if usable and norm == "coord" and not (squares < _SINGLE).all():
            limits = np.array([torch.finfo(slot.m.dtype).max for slot in slots])
            usable = bool((squares < limits).all())
        if self.process_group is not None:
            usable = over_ranks([float(not usable)], self.process_group, self._device())[0] == 0.0
        if usable or self.defaults["nonfinite"] == "ignore":
            return True
        text = f"{self.NAME}: a gradient is not finite or too large to be squared; nothing was advanced"
        if self.defaults["nonfinite"] == "raise":
            raise InputError(f"{text}; find its origin, or skip such steps with nonfinite='skip'")
        for group in self.param_groups:
            group["skipped"] += 1
        warnings.warn(f"{text} and the step is skipped", UndriftWarning, stacklevel=_level_of_caller())
        return False

    def _one_norm(
        self, total: float, openings: list[Opening], measured: NDArray[np.float64]
    ) -> tuple[list[float], list[Row], float]:
        """Second moments and rows of the groups when one norm covers all of them, and whether it was clipped."""
        lengths = per_group(measured, 1, self._slots.groups, len(openings))
        if self.process_group is not None:
            lengths = over_ranks(lengths, self.process_group, self._device())
        second = [core.ema(opening.group["v"], total, opening.gap2) for opening in openings]
        gammas = [opening.gamma() for opening in openings]
        rates = [opening.rate(v, gamma) for opening, v, gamma in zip(openings, second, gammas, strict=True)]
        length = math.hypot(*(rate * math.sqrt(m2) for rate, m2 in zip(rates, lengths, strict=True)))
        rows = []
        for opening, gamma, rate in zip(openings, gammas, rates, strict=True):
            factor = 1.0 if opening.clip == math.inf else core.shrink(length, opening.clip)
            rows.append(opening.row(gamma, rate * factor))
        return second, rows, float(length > openings[0].clip)

    def _close(self, openings: list[Opening], second: list[float], sums: Any) -> None:
        """Write the round's scalars into the groups; on an accelerator the last two stay there until read."""
        groups, count = self._slots.groups, len(openings)
        lengths, away = (per_group(sums, column, groups, count) for column in (0, 1))
        coming = [0.0] * count
        if openings[0].ahead > 0.0:
            coming = per_group(sums, 3, groups, count)
        totals = [list(pair) for pair in zip(lengths, away, strict=True)]
        if self.process_group is not None:
            flat = over_ranks([float(x) for pair in totals for x in pair], self.process_group, self._device())
            totals = [flat[i : i + 2] for i in range(0, len(flat), 2)]
        for opening, v, (m2, distance), following in zip(openings, second, totals, coming, strict=True):
            opening.close(v, m2, distance, following)

    def _watch(self) -> None:
        """Note what the weights are now if averages may run ahead of them."""
        if self._slots.numel >= ahead.WORTH_IT and self.param_groups[0]["ahead"] >= 0.0:
            self._remember_versions()
        else:
            self._forget_versions()

    def _device(self) -> torch.device:
        for group in self.param_groups:
            for p in group["params"]:
                device: torch.device = p.device
                return device
        return torch.device("cpu")


def _level_of_caller() -> int:
    """Return the stack level, for a warning, of the line that called `step`: torch's wrappers differ by version."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("torch", "undrift"):
        frame, level = frame.f_back, level + 1
    return level


def _norm_per_tensor(
    slots: Slots, openings: list[Opening], measured: NDArray[np.float64]
) -> tuple[list[float], NDArray[np.float64], float]:
    """Second moment and row of every slot when each tensor has a norm of its own, and the share that was clipped."""
    moments = np.array([slot.state["v"] for slot in slots.found])
    rows = np.empty((len(moments), len(Row._fields)))
    clipped = 0
    for i, opening in enumerate(openings):
        mine = slots.groups == i
        gamma = opening.gamma() * np.sqrt(slots.sizes[mine])
        v = core.ema(moments[mine], measured[mine, 0], opening.gap2)
        rate, length = opening.rate(v, gamma), np.sqrt(measured[mine, 1])
        clipped += int((rate * length > opening.clip).sum())
        moments[mine] = v
        clip = None if opening.clip == math.inf else opening.clip
        rows[mine] = opening.rows(gamma, core.multiplier(rate, length, clip))
    return moments.tolist(), rows, clipped / len(moments)

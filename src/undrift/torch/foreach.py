"""The step by torch's multi-tensor operations: few launches on any device, the same numbers as the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from undrift.torch.scalars import Row
from undrift.torch.tensors import Slots, Sums, Tensors, numbers


def widen(tensors: Tensors, like: Tensors) -> Tensors:
    """Return tensors in the type of their state; the same objects if they have it."""
    return [t if t.dtype == s.dtype else t.to(s.dtype) for t, s in zip(tensors, like, strict=True)]


def squares(*lists: Tensors) -> torch.Tensor:
    """Return the sum of squares of every tensor, a column for each list; in double precision if the device has it."""
    every = [tensor for tensors in lists for tensor in tensors]
    wide = every[0].dtype if every[0].device.type == "mps" else torch.float64
    norms = torch.stack(list(torch._foreach_norm(every, 2, dtype=wide)))
    return (norms * norms).view(len(lists), -1).t()


class ForeachPart:
    """Slots of one group, device and type, stepped together; wrapped tensors and those being traced are welcome."""

    def __init__(self, slots: Slots) -> None:
        self.slots, self.group = slots, slots.group

    def gradients(self, row: Row) -> Tensors:
        """Return the gradients of what is minimised; new tensors whenever they differ from the parameters' own."""
        gs = widen(self.slots.g, self.slots.m)
        if row.sign < 0.0:
            gs = list(torch._foreach_neg(gs))
        if row.l2 != 0.0:
            gs = list(torch._foreach_add(gs, widen(self.slots.p, self.slots.m), alpha=row.l2))
        return gs

    def measure(self, row: Row, with_m: bool) -> Sums:
        """Return |g|^2 and, if asked, |m|^2 after this round for every slot; nothing is changed."""
        gs = self.gradients(row)
        if with_m:
            return self._host(squares(gs, list(torch._foreach_lerp(self.slots.m, gs, row.gap1))))
        return self._host(squares(gs))

    def apply(self, row: Row, steps: Sequence[float] | None, with_g: bool) -> Sums:
        """Make the step, a scale for each slot if given; return |m|^2, |x - average|^2 before it (or 0), |g|^2."""
        gs, ms, averages = self.gradients(row), self.slots.m, self.slots.average
        xs = widen(self.slots.p, ms)
        away = list(torch._foreach_sub(xs, averages)) if averages else []
        if averages:
            torch._foreach_add_(averages, away, alpha=row.weight)
        torch._foreach_lerp_(ms, gs, row.gap1)
        sums = squares(ms, *([away] if averages else []), *([gs] if with_g else []))
        if row.decay != 1.0:
            torch._foreach_mul_(xs, row.decay)
        if not self.slots.v:
            moves: Any = row.step if steps is None else list(steps)
            torch._foreach_sub_(xs, list(torch._foreach_mul(ms, moves)))
        else:
            roots, factor = self._roots(gs, row)
            torch._foreach_addcdiv_(xs, ms, roots, value=-row.step * factor)
        if xs[0] is not self.slots.p[0]:
            torch._foreach_copy_(self.slots.p, xs)
        if not averages:
            sums = torch.cat([sums[:, :1], torch.zeros_like(sums[:, :1]), sums[:, 1:]], dim=1)
        return self._host(sums)

    def _roots(self, gs: Tensors, row: Row) -> tuple[Tensors, float]:
        """Advance the second moments; return roots and a factor such that the clipped quotient is factor m / root.

        A quotient of length at most `clip` is one whose root is at least factor |m| / clip.
        """
        vs = self.slots.v
        torch._foreach_mul_(vs, 1.0 - row.gap2)
        torch._foreach_addcmul_(vs, gs, gs, value=row.gap2)
        scale = row.v_scale**0.5
        factor = row.m_scale / scale
        roots = list(torch._foreach_sqrt(vs))
        if row.damping != 0.0:
            torch._foreach_add_(roots, row.damping / scale)
        if row.clip != math.inf:
            sizes = list(torch._foreach_abs(self.slots.m))
            if factor != row.clip:
                torch._foreach_mul_(sizes, factor / row.clip)
            torch._foreach_maximum_(roots, sizes)
        if row.damping == 0.0:
            torch._foreach_add_(roots, [(root == 0).to(root.dtype) for root in roots])  # as in core.rate
        return roots, factor

    def _host(self, sums: torch.Tensor) -> Sums:
        """Return sums that are on the host already as an array; elsewhere, or while tracing, nobody reads them."""
        return numbers(sums) if sums.is_cpu and not torch.compiler.is_compiling() else sums

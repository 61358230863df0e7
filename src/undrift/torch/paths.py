"""Which loop steps which tensor: our compiled kernel on the CPU, multi-tensor operations elsewhere, or a plain loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from undrift.torch import foreach, fused, plain
from undrift.torch.rounds import Group, Row
from undrift.torch.slots import Slot
from undrift.torch.sums import Sums


class Loop(Protocol):
    """A way to run the two phases of a step on some slots; `which` says which row belongs to each of them."""

    def measure(self, rows: Sequence[Row], which: NDArray[np.int64], with_m: bool) -> Sums:
        """Return |g|^2 and, if asked, |m|^2 after this round for every slot; change nothing."""

    def apply(self, rows: Any, which: NDArray[np.int64], with_g: bool) -> Sums:
        """Make the step; return |m|^2, |x - average|^2 (before either moved) and, if asked, |g|^2 for every slot.

        The kernel alone returns a fourth number, the |x - average|^2 of the next round where averages run ahead.
        """


class Plan:
    """The slots of a step, shared out among loops."""

    def __init__(self, groups: Sequence[Group], slots: Sequence[Slot]) -> None:
        self.slots = slots
        self.options = [(group["foreach"], group["fused"]) for group in groups]
        chosen: dict[type, list[int]] = {}
        for i, slot in enumerate(slots):
            chosen.setdefault(_loop(groups[slot.group], slot), []).append(i)
        self.parts: list[tuple[Loop, NDArray[np.int64]]] = []
        for kind, members in chosen.items():
            self.parts.append((kind([slots[i] for i in members]), np.array(members, dtype=np.int64)))
        self.by_kernel = set(chosen) == {fused.Fused}
        """Whether the kernel steps all of them."""

    def serves(self, groups: Sequence[Group], slots: Sequence[Slot]) -> bool:
        """Say whether this plan does for a new step: the same slots, all of them the kernel's, nothing moved."""
        if slots is not self.slots or self.options != [(group["foreach"], group["fused"]) for group in groups]:
            return False
        return all(isinstance(loop, fused.Fused) and loop.renew() for loop, _ in self.parts)

    def measure(self, rows: Sequence[Row], which: NDArray[np.int64], with_m: bool) -> Sums:
        """Run the first phase: sums of every slot."""
        return self._merged([loop.measure(rows, which[members], with_m) for loop, members in self.parts])

    def apply(self, rows: Sequence[Row] | NDArray[np.float64], which: NDArray[np.int64], with_g: bool) -> Sums:
        """Run the second phase: make the step. The kernel takes rows of an array as they are."""
        if isinstance(rows, np.ndarray) and not self.by_kernel:
            rows = [Row(*row) for row in rows.tolist()]
        return self._merged([loop.apply(rows, which[members], with_g) for loop, members in self.parts])

    def _merged(self, found: list[Sums]) -> Sums:
        if len(found) == 1:
            return found[0]
        on_host = all(isinstance(part, np.ndarray) for part in found)
        width = min((part.shape[1] for part in found), default=3)
        shape = (sum(len(part) for part in found), width)
        if on_host:
            out: Sums = np.empty(shape)
        else:
            device = next(part.device for part in found if isinstance(part, torch.Tensor))
            out = torch.empty(shape, dtype=torch.float64, device=device)
        for part, (_, members) in zip(found, self.parts, strict=True):
            same = part[:, :width]
            out[members] = same if on_host else torch.as_tensor(same, device=out.device, dtype=out.dtype)
        return out


def _loop(group: Group, slot: Slot) -> type:
    if group["foreach"] is None and group["fused"] is not False and fused.takes(slot):
        return fused.Fused
    return plain.Plain if group["foreach"] is False else foreach.Foreach

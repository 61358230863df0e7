"""Which loop steps which tensor: our compiled kernel on the CPU, multi-tensor operations elsewhere, or a plain loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from undrift.torch import foreach, fused, plain
from undrift.torch.plain import Sums
from undrift.torch.rounds import Group, Row
from undrift.torch.slots import Slot


class Path(Protocol):
    """A way to run the two phases of a step."""

    def measure(self, slots: Sequence[Slot], rows: Sequence[Row], with_m: bool) -> Sums:
        """Return sums; change nothing."""

    def apply(self, slots: Sequence[Slot], rows: Sequence[Row]) -> Sums:
        """Make the step; return sums."""


Plan = list[tuple[Path, list[int]]]


def plan(groups: Sequence[Group], slots: Sequence[Slot]) -> Plan:
    """Share the slots out among the paths."""
    chosen: dict[int, tuple[Path, list[int]]] = {}
    for i, slot in enumerate(slots):
        group = groups[slot.group]
        path: Path
        if group["foreach"] is None and group["fused"] is not False and fused.takes(slot):
            path = fused
        else:
            path = plain if group["foreach"] is False else foreach
        chosen.setdefault(id(path), (path, []))[1].append(i)
    return list(chosen.values())


def measure(plan: Plan, slots: Sequence[Slot], rows: Sequence[Row], which: Sequence[int], with_m: bool) -> Sums:
    """Run the first phase: sums of every slot."""
    sums: Sums = [(0.0, 0.0)] * len(slots)
    for path, members in plan:
        found = path.measure([slots[i] for i in members], [rows[which[i]] for i in members], with_m)
        for i, pair in zip(members, found, strict=True):
            sums[i] = pair
    return sums


def apply(plan: Plan, slots: Sequence[Slot], rows: Sequence[Row], which: Sequence[int]) -> Sums:
    """Run the second phase: make the step."""
    sums: Sums = [(0.0, 0.0)] * len(slots)
    for path, members in plan:
        found = path.apply([slots[i] for i in members], [rows[which[i]] for i in members])
        for i, pair in zip(members, found, strict=True):
            sums[i] = pair
    return sums

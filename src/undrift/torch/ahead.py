"""Averages that are touched in every second step only: the kernel adds two rounds at once, the second one ahead.

The step of round t reads x_t, which the average of that round takes in, and writes x_{t+1}, which the average of the
next one will. Memory is what a large step waits for, so the kernel adds both while it has them, and the next step
leaves the average alone. In between a group is "ahead": `state["average"]` is that of round t + 1, bit for bit what the
next step would have made of it, and that of round t is worked out when somebody asks. Where others change the weights
between steps too, averages do not run ahead: x_{t+1} is not what the next round will find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from undrift.torch.rounds import Group, Opening
from undrift.torch.slots import Slots, local

WORTH_IT = 1 << 20
"""Coordinates; fewer stay in the caches."""

Repair = Callable[[Sequence[Group], Any, Callable[[torch.Tensor], bool]], None]
"""`take_back` or `stop`."""

HEAVIEST = 2.0 / 3.0
"""Weight of x_{t+1} up to which it can be taken out of the average again without losing digits."""


def is_ahead(group: Group) -> bool:
    """Say whether the averages of a group have taken in the weights that its last step made."""
    return bool(group["ahead"] > 0.0)


def open_rounds(openings: Sequence[Opening], slots: Slots, by_kernel: bool) -> Repair | None:
    """Decide what the coming round does to the averages; return what must be done to them first, if anything.

    The decision depends on nothing but what checkpoints hold, so that a resumed run takes the same ones.
    """
    waiting = [opening for opening in openings if is_ahead(opening.group)]
    if waiting:
        if any(opening.weight != opening.group["ahead"] for opening in waiting):
            return stop  # weights of the average that change from round to round, as beta1 under some schedulers
        if not slots.settled:
            return take_back
        for opening in waiting:
            opening.square, opening.weight = opening.group["ahead_square"], 0.0
        return None
    eligible = by_kernel and slots.settled and slots.as_they_are and slots.numel >= WORTH_IT
    if eligible and openings[0].t % 2 == 0 and all(_lets(opening) for opening in openings):
        for opening in openings:
            opening.ahead = opening.next_weight
    return None


def _lets(opening: Opening) -> bool:
    group = opening.group
    return bool(group["average"]) and group["ahead"] == 0.0 and 0.0 < opening.next_weight <= HEAVIEST


def taken_back(average: torch.Tensor, x: torch.Tensor, weight: float) -> torch.Tensor:
    """Return the average before it took in x with this weight."""
    return average - (weight / (1.0 - weight)) * (x.to(average.dtype) - average)


def take_back(groups: Sequence[Group], states: Any, untouched: Callable[[torch.Tensor], bool]) -> None:
    """Bring averages that are ahead back to the last finished round: something about the coming one has changed.

    Where the weights have been changed by hand since, they stay ahead: what they took in is gone.
    """
    for group in groups:
        if not is_ahead(group):
            continue
        for p in group["params"]:
            state = states.get(p, {})
            if "average" in state and untouched(p):
                average = local(state["average"])
                average.copy_(taken_back(average, local(p.detach()), group["ahead"]))
        group["ahead"] = group["ahead_square"] = 0.0


def stop(groups: Sequence[Group], states: Any, untouched: Callable[[torch.Tensor], bool]) -> None:
    """Have averages never run ahead again."""
    take_back(groups, states, untouched)
    for group in groups:
        group["ahead"] = -1.0

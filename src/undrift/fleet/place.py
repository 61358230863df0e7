"""Place: how a model's arrays lie in a slot of a table."""

from __future__ import annotations

import numpy as np

from undrift._typing import Vector
from undrift.ensemble import Ensemble
from undrift.kernels import layout
from undrift.learners import Learner
from undrift.learners.base import Arrays


class Place:
    """Where a slot keeps the arrays of a model, in the order of the kernel.

    The memories' state, `information`, has fewer lanes in a slot than in a model where the instruction set allows it:
    there a group of learners that only fills the lanes takes no room.
    """

    def __init__(self, begun: Learner) -> None:
        self.round = begun._round  # type: ignore[attr-defined]  # only models that have it come here
        self.size = self.round.slot()
        arrays = begun._arrays()
        by_end = {name.rsplit(".", 1)[-1]: name for name in arrays}
        members = len(begun._stability) if isinstance(begun, Ensemble) else 1
        self.memories = by_end["information"]
        self._begun = np.array(arrays[self.memories])  # one learner: a column; several: a stack
        stack = self._begun.shape
        if len(stack) == 3:
            stack = self.round.slot_shape()
        shapes: dict[str, tuple[int, ...]] = {"information": stack, "rate": (9,), "last": (1,)}
        shapes |= dict.fromkeys(("stability", "log_weights", "losses", "charged"), (members,))
        self.parts: dict[str, tuple[slice, tuple[int, ...]]] = {}
        at = 0
        for end, shape in shapes.items():
            size = int(np.prod(shape))
            if end in by_end:
                self.parts[by_end[end]] = slice(at, at + size), shape
            at += size
        self.blank = np.zeros(self.size)
        self.write(self.blank, arrays)

    def read(self, slot: Vector) -> Arrays:
        """Return the arrays of the model in a slot."""
        out = {name: slot[where].reshape(shape) for name, (where, shape) in self.parts.items()}
        if self._begun.ndim == 3:
            slim, out[self.memories] = out[self.memories], np.array(self._begun)
            for group, some in enumerate(slim):
                layout.neighbours(out[self.memories], group, slim.shape[2])[...] = some
        return out

    def write(self, slot: Vector, arrays: Arrays) -> None:
        """Put a model's arrays into a slot."""
        for name, (where, shape) in self.parts.items():
            if len(shape) == 3:
                groups = [layout.neighbours(arrays[name], group, shape[2]) for group in range(shape[0])]
                slot[where] = np.stack(groups).ravel()
            else:
                slot[where] = arrays[name].ravel()

"""KeyRecord: how one key of a service does, beside the naive guesses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from undrift.run.service.recent import Round

SPAN = 100
"""Figures are means over about so many last rounds."""
LEAST_JUDGED = 20
"""Rounds before a key is held against others: in fewer it is chance."""


class KeyRecord:
    """Figures of one key: squared errors or log-losses, beside those of the last label, or of how often each came."""

    __slots__ = ("error", "inside", "is_new", "judged", "last", "naive", "rounds", "saved_at", "waiting")

    def __init__(self) -> None:
        self.rounds = self.judged = self.saved_at = 0
        self.is_new = False  # whether the fleet did not have it
        self.error = self.naive = self.inside = 0.0
        self.last: dict[str, float] | float | None = None  # the last label; of classes how often each came lately
        self.waiting = 0  # rows that wait for their label

    def add_label(self, one: Round | None, label: float | str, task: str) -> None:
        """Take a label in, beside what was served."""
        self.rounds += 1
        if task == "regression":
            assert isinstance(label, float)
            assert not isinstance(self.last, dict)
            error = None if one is None else (one.y - one.yhat) ** 2
            naive = None if self.last is None else (label - self.last) ** 2
            self.last = label
        else:
            came = self.last if isinstance(self.last, dict) else {}
            name = str(label)
            naive = -math.log((came.get(name, 0.0) + 1.0) / (sum(came.values()) + len(came) + 1.0)) if came else None
            error = None if one is None else one.loss
            if one is not None and task == "classification":
                error = float(np.logaddexp(0.0, (1.0 - 2.0 * one.y) * one.yhat))
            self.last = {text: (1.0 - 1.0 / SPAN) * often for text, often in came.items()}
            self.last[name] = self.last.get(name, 0.0) + 1.0
        if one is None or not one.known or naive is None or error is None:
            return
        self.judged += 1
        part = 1.0 / min(self.judged, SPAN)
        self.error += part * (error - self.error)
        self.naive += part * (naive - self.naive)
        if one.lower is not None and one.upper is not None:
            self.inside += part * ((one.lower <= one.y <= one.upper) - self.inside)

    @property
    def badness(self) -> float:
        """How large its error is beside that of the naive guess: above 1 the naive guess did better lately."""
        if self.judged < LEAST_JUDGED or not self.naive > 0.0:
            return 0.0
        ratio = self.error / self.naive
        return ratio if math.isfinite(ratio) else 0.0

    def state(self, saved_at: int) -> list[Any]:
        """Return it as JSON values, to be saved when the journal has come to `saved_at`."""
        figures = [self.error.hex(), self.naive.hex(), self.inside, self.last]
        return [saved_at, self.is_new, self.rounds, self.judged, self.waiting, figures]

    def resume(self, state: Sequence[Any]) -> None:
        """Go on where `state` left off."""
        self.saved_at, self.is_new, self.rounds, self.judged, self.waiting, figures = state
        error, naive, self.inside, self.last = figures
        self.error, self.naive = float.fromhex(error), float.fromhex(naive)

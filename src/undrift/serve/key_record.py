"""KeyRecord: what is in memory of every key, however many there are: its figures and its watch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from undrift.events.event import EventKind
from undrift.events.key_watch import KeyWatch

SPAN = 100
"""Figures are means over about so many last rounds."""
LEAST_JUDGED = 20
"""Rounds before a key is held against others: in fewer it is chance."""


class KeyRecord:
    """Figures of one key. Errors are squared, or log-losses; the naive guess is the last label, or the base rate."""

    __slots__ = ("error", "inside", "is_new", "judged", "last", "naive", "rounds", "saved_at", "waiting", "watch")

    def __init__(self, *, level: float, binary: bool) -> None:
        self.rounds = self.judged = self.saved_at = 0
        self.is_new = False  # whether the fleet did not have it
        self.error = self.naive = self.inside = 0.0
        self.last: float | None = None  # the last label; for two classes how often it was 1
        self.watch = KeyWatch(level=level, binary=binary)
        self.waiting = 0  # rows that wait for their label

    def add_round(
        self, y: float, shown: float, lower: float | None, upper: float | None, *, binary: bool, known: bool
    ) -> Iterator[tuple[EventKind, str]]:
        """Take a label in; yield what changed."""
        self.rounds += 1
        if known and self.last is not None:
            self.judged += 1
            part = 1.0 / min(self.judged, SPAN)
            error, naive = ((_log_loss(y, p) if binary else (y - p) ** 2) for p in (shown, self.last))
            self.error += part * (error - self.error)
            self.naive += part * (naive - self.naive)
            if lower is not None and upper is not None:
                self.inside += part * ((lower <= y <= upper) - self.inside)
            yield from self.watch.add(y, shown, lower, upper)
        if binary:
            before = 0.5 if self.last is None else self.last
            self.last = before + (y - before) / min(self.rounds + 1, SPAN)
        else:
            self.last = y

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
        return [saved_at, self.is_new, self.rounds, self.judged, self.waiting, figures, self.watch.state()]

    def resume(self, state: Sequence[Any]) -> None:
        """Go on where `state` left off."""
        self.saved_at, self.is_new, self.rounds, self.judged, self.waiting, figures, watch = state
        error, naive, self.inside, self.last = figures
        self.error, self.naive = float.fromhex(error), float.fromhex(naive)
        self.watch.resume(watch)


def _log_loss(y: float, p: float) -> float:
    return -math.log(max(p if y > 0.0 else 1.0 - p, 1e-9))

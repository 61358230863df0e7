"""Which features never have a value, never move, or are copies of another one, batch by batch."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.run.prepare.problems import DataProblems


class ColumnStatistics:
    """The smallest and the largest value of each column so far, and a digest of all its values."""

    def __init__(self, width: int) -> None:
        self.low, self.high = np.full(width, math.inf), np.full(width, -math.inf)
        self.digests = [""] * width

    def add(self, Z: Matrix) -> None:
        """Take some rows in."""
        if not len(Z):
            return
        with np.errstate(invalid="ignore"):
            np.fmin(self.low, np.fmin.reduce(Z, axis=0), out=self.low)
            np.fmax(self.high, np.fmax.reduce(Z, axis=0), out=self.high)
        for j, column in enumerate(np.ascontiguousarray(Z.T) + 0.0):  # + 0.0: -0 and 0 are the same value
            self.digests[j] = hashlib.blake2b(self.digests[j].encode() + column.tobytes(), digest_size=16).hexdigest()

    def add_problems(self, problems: DataProblems, names: Sequence[str], rows: int) -> None:
        """State what is wrong with whole columns after so many rows."""
        first: dict[str, str] = {}
        for name, low, high, digest in zip(names, self.low, self.high, self.digests, strict=False):
            if low > high:
                problems.add_column("all missing", name, rows, "it never had a value")
            elif low == high:
                problems.add_column("dead column", name, rows, f"it is {low:g} in every row")
            elif digest in first:
                problems.add_column("duplicate column", name, rows, f"the same numbers as '{first[digest]}'")
            first.setdefault(digest, name)

    def resume(self, digests: Sequence[str], arrays: Mapping[str, Any]) -> None:
        """Go on from these digests, and the arrays "low" and "high"."""
        self.digests = list(digests)
        self.low, self.high = arrays["low"].copy(), arrays["high"].copy()

    def arrays(self) -> dict[str, Vector]:
        """Return the extremes by name."""
        return {"low": self.low, "high": self.high}

"""Problems of the data, counted by kind and column: bad cells with their first lines, and columns that never move."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.stream.cells import Lines

KEPT_LINES = 5
"""Lines kept of each problem."""

NOTES = {
    "missing": "filled with the last value seen",
    "infinite": "infinite, or too large to hold; treated as missing",
    "too large": "larger than 1e75, the most a learner takes; treated as missing, so write the column in larger units",
    "unlabelled": "predicted, but there was no label to learn from",
    "skipped": "rows with a missing value were left out, as asked",
    "time goes back": "rows are taken in the order they stand in",
}


class DataProblems:
    """What was wrong with the data so far, by kind and column."""

    def __init__(self, entries: Iterable[Mapping[str, Any]] = ()) -> None:
        self._found: dict[tuple[str, str | None], dict[str, Any]] = {
            (one["kind"], one["column"]): {**one, "lines": list(one["lines"])} for one in entries
        }

    def add(self, kind: str, column: str | None, lines: Lines) -> None:
        """Count cells of a kind, on these lines."""
        if not len(lines):
            return
        one = self._entry(kind, column, NOTES.get(kind, ""))
        one["count"] += len(lines)
        one["lines"] += [int(line) for line in lines[: max(0, KEPT_LINES - len(one["lines"]))]]

    def add_column(self, kind: str, column: str, count: int, note: str) -> None:
        """State something about a whole column."""
        self._entry(kind, column, note)["count"] = count

    def _entry(self, kind: str, column: str | None, note: str) -> dict[str, Any]:
        fresh: dict[str, Any] = {"kind": kind, "column": column, "count": 0, "lines": [], "note": note}
        return self._found.setdefault((kind, column), fresh)

    def entries(self) -> list[Mapping[str, Any]]:
        """Return the problems in order of appearance."""
        return [{**one, "lines": list(one["lines"])} for one in self._found.values()]


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

    def copy(self) -> ColumnStatistics:
        """Return the same statistics, which go on on their own."""
        return self.rearrange(range(len(self.digests)))

    def rearrange(self, places: Iterable[int]) -> ColumnStatistics:
        """Return the statistics of columns in another order, -1 for one that is new."""
        at = np.array([*places], dtype=np.int64)
        twin = ColumnStatistics(len(at))
        old = at >= 0
        twin.low[old], twin.high[old] = self.low[at[old]], self.high[at[old]]
        twin.digests = [
            self.digests[k] if k >= 0 else fresh for k, fresh in zip(at.tolist(), twin.digests, strict=True)
        ]
        return twin

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

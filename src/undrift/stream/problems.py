"""Problems of the data, counted by kind and column: bad cells with their first lines, and columns that never move."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


_MIXING, _HALF = np.uint64(0xBF58476D1CE4E5B9), np.uint64(32)
"""An odd number that bits are multiplied by, one of the generator SplitMix64, and how far they are shifted then."""
_BASE = 0x9E3779B97F4A7C15
"""Where the polynomials of digests are evaluated."""


@lru_cache(maxsize=8)
def _powers(count: int) -> NDArray[np.uint64]:
    """Return the powers of the base modulo 2^64, from 0 to `count`; not to be changed, as callers share them."""
    powers = np.full(count + 1, _BASE, np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    powers.flags.writeable = False
    return powers


class DataProblems:
    """What was wrong with the data so far, by kind and column."""

    def __init__(self, entries: Iterable[Mapping[str, Any]] = ()) -> None:
        self._found: dict[tuple[str, str | None], dict[str, Any]] = {
            (one["kind"], one["column"]): {**one, "lines": list(one["lines"])} for one in entries
        }

    def copy(self) -> DataProblems:
        """Return the same problems, which are counted on their own; entries are replaced, so they are shared."""
        twin = DataProblems()
        twin._found = dict(self._found)
        return twin

    def add(self, kind: str, column: str | None, lines: Lines) -> None:
        """Count cells of a kind, on these lines."""
        if not len(lines):
            return
        one = self._entry(kind, column, NOTES.get(kind, ""))
        first = [int(line) for line in lines[: max(0, KEPT_LINES - len(one["lines"]))]]
        self._found[kind, column] = {**one, "count": one["count"] + len(lines), "lines": one["lines"] + first}

    def add_column(self, kind: str, column: str, count: int, note: str) -> None:
        """State something about a whole column."""
        self._found[kind, column] = {**self._entry(kind, column, note), "count": count}

    def _entry(self, kind: str, column: str | None, note: str) -> dict[str, Any]:
        fresh: dict[str, Any] = {"kind": kind, "column": column, "count": 0, "lines": [], "note": note}
        return self._found.get((kind, column), fresh)

    def entries(self) -> list[Mapping[str, Any]]:
        """Return the problems in order of their first lines, those of whole columns last, however rows are cut."""
        found = sorted(self._found.values(), key=lambda entry: entry["lines"][0] if entry["lines"] else math.inf)
        return [{**entry, "lines": list(entry["lines"])} for entry in found]


class ColumnStatistics:
    """The smallest and the largest value of each column so far, and a digest of all its values.

    All of it depends on the rows alone, however they are cut into blocks. The digest is the polynomial with the mixed
    bits of the values as coefficients, the last one's lowest, at an odd number modulo 2^64.
    """

    def __init__(self, width: int) -> None:
        self.low, self.high = np.full(width, math.inf), np.full(width, -math.inf)
        self._digests = np.zeros(width, np.uint64)

    def add(self, Z: Matrix) -> None:
        """Take some rows in."""
        if not len(Z):
            return
        with np.errstate(invalid="ignore"):
            self.low = np.fmin(self.low, np.fmin.reduce(Z, axis=0))
            self.high = np.fmax(self.high, np.fmax.reduce(Z, axis=0))
        plain = np.add(Z, 0.0, order="C")  # -0 and 0 are the same value
        holes = np.isnan(plain)
        if np.count_nonzero(holes):
            plain[holes] = math.nan  # whose bits are not always the same
        bits, powers = plain.view(np.uint64), _powers(len(Z))
        bits *= _MIXING  # so that values which differ in their first bits alone differ in all of them
        bits ^= bits >> _HALF
        bits *= powers[-2::-1, None]
        self._digests = self._digests * powers[-1] + np.add.reduce(bits, axis=0)

    @property
    def digests(self) -> list[str]:
        """The digests as texts."""
        return [f"{digest:016x}" for digest in self._digests.tolist()]

    def copy(self) -> ColumnStatistics:
        """Return the same statistics, which go on on their own; arrays are replaced when they change."""
        twin = object.__new__(ColumnStatistics)
        vars(twin).update(vars(self))
        return twin

    def rearrange(self, places: Iterable[int]) -> ColumnStatistics:
        """Return the statistics of columns in another order, -1 for one that is new."""
        at = np.array([*places], dtype=np.int64)
        twin = ColumnStatistics(len(at))
        old = at >= 0
        twin.low[old], twin.high[old] = self.low[at[old]], self.high[at[old]]
        twin._digests[old] = self._digests[at[old]]
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
        self._digests = np.array([int(f"0{digest}", 16) % 2**64 for digest in digests], np.uint64)
        self.low, self.high = arrays["low"].copy(), arrays["high"].copy()

    def arrays(self) -> dict[str, Vector]:
        """Return the extremes by name."""
        return {"low": self.low, "high": self.high}

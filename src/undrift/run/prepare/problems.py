"""Problems of the data: counted by kind and column, with the first few lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from undrift.run.read.rows import Lines

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

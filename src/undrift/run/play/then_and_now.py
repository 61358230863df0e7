"""Then and now: the first and the last rows of a run, kept so that a report can say how the features moved."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from undrift._typing import Matrix, Vector

MOST_ROWS, MOST_CELLS = 1000, 100_000
"""Rows kept at either end: so many, and fewer where rows are wide."""


class ThenAndNow:
    """The first and the last rows; what they hold depends on the rows alone, however they are cut into batches."""

    def __init__(self) -> None:
        self.then: Matrix = np.empty((0, 0))
        self.now: Matrix = np.empty((0, 0))

    def add(self, Z: Matrix) -> None:
        """Take in rows; a feature that came later is missing before."""
        most = max(1, min(MOST_ROWS, MOST_CELLS // max(1, Z.shape[1])))
        then, now = _widen(self.then, Z.shape[1]), _widen(self.now, Z.shape[1])
        self.then = np.concatenate([then, Z[: max(0, most - len(then))]])[:most]
        self.now = np.concatenate([now, Z[-most:]])[-most:]

    def arrays(self) -> dict[str, Vector]:
        """Return what the next row depends on."""
        return {"then": self.then, "now": self.now}

    def resume(self, arrays: Mapping[str, Vector]) -> None:
        """Go on where `arrays` left off; runs of earlier versions have none, and begin here."""
        self.then, self.now = arrays.get("then", self.then), arrays.get("now", self.now)


def _widen(rows: Matrix, width: int) -> Matrix:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=np.nan)

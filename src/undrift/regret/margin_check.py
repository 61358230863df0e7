"""Whether a promise covers a comparator on every row it has to."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from undrift._typing import Matrix, Rounds, Vector
from undrift.errors import ConditionError
from undrift.regret._input import moves

GROUP, PARTS, FEW = 4096, 8, 16
"""Comparators in a row that are looked at together; into how many groups they are split; how few are not."""


def check_margins(Z: Matrix, u: Matrix, limit: float, starts: Rounds | None = None) -> None:
    """Refuse comparators with |u_t.z_s| > limit for some s <= t: the surrogate losses do not cover them.

    Neighbouring comparators are near each other, so many of them are first ruled out together, by their mean and their
    distance from it; what that leaves open is asked again of fewer comparators, on the rows where it was open. After
    each fresh start, at the rounds `starts`, the rows before it no longer matter.
    """
    length = np.linalg.norm(Z, axis=1)
    ends = np.append(moves(u), len(u) - 1) if len(u) else np.zeros(0, dtype=np.int64)
    begins = [0, len(u)] if starts is None else [0, *starts[starts > 0].tolist(), len(u)]
    for a, b in pairwise(begins):
        some = np.unique(np.append(ends[(ends >= a) & (ends < b)], b - 1)) if b > a else ends[:0]
        for k in range(0, len(some), GROUP):
            _look(Z, u, length, some[k : k + GROUP], np.arange(a, b), limit)


def _look(Z: Matrix, u: Matrix, length: Vector, some: Rounds, rows: Rounds, limit: float) -> None:
    """Look at comparators of the rounds `some` on some of the rows."""
    points, most = u[some], limit * (1.0 + 1e-12)
    mean = points.mean(axis=0)
    far = float(np.linalg.norm(points - mean, axis=1).max()) * (1.0 + 1e-9)
    rows = rows[: np.searchsorted(rows, some[-1], side="right")]
    rows = rows[np.abs(Z[rows] @ mean) + far * length[rows] > most * (1.0 - 1e-9)]
    if not len(rows):
        return
    if len(some) > FEW:
        for part in np.array_split(some, PARTS):
            _look(Z, u, length, part, rows, limit)
        return
    seen = np.abs(points @ Z[rows].T)
    seen[rows[None, :] > some[:, None]] = 0.0
    if seen.max() > most:
        i, s = divmod(int(np.argmax(seen)), len(rows))
        raise ConditionError(
            f"certify: the promise covers comparators with |u.z| <= BR = {limit:g}, the one of round {some[i]} has "
            f"{seen[i, s]:g} on row {rows[s]}; bound the comparator (margin={limit:g}) or give the learner a larger "
            "bound"
        )

"""Whether a promise covers a comparator on every row it has to."""

from __future__ import annotations

import numpy as np

from undrift._typing import Matrix
from undrift.errors import ConditionError
from undrift.regret._input import moves

GROUP = 64
"""Comparators in a row that are looked at together first."""


def covered(Z: Matrix, u: Matrix, limit: float) -> None:
    """Refuse comparators with |u_t.z_s| > limit for some s <= t: the surrogate losses do not cover them.

    Neighbouring comparators are near each other, so a few of them are first ruled out together, by their mean and
    their distance from it: rows on which that does not decide are few.
    """
    if not len(Z):
        return
    most = limit * (1.0 + 1e-12)
    length = np.linalg.norm(Z, axis=1)
    ends = np.append(moves(u), len(u) - 1)
    for k in range(0, len(ends), GROUP):
        some = ends[k : k + GROUP]
        points, until = u[some], int(some[-1]) + 1
        mean = points.mean(axis=0)
        far = float(np.linalg.norm(points - mean, axis=1).max()) * (1.0 + 1e-9)
        doubtful = np.flatnonzero(np.abs(Z[:until] @ mean) + far * length[:until] > most * (1.0 - 1e-9))
        if not len(doubtful):
            continue
        seen = np.abs(points @ Z[doubtful].T)
        seen[doubtful[None, :] > some[:, None]] = 0.0
        if seen.max() > most:
            i, s = divmod(int(np.argmax(seen)), len(doubtful))
            raise ConditionError(
                f"certify: the promise covers comparators with |u.z| <= BR = {limit:g}, the one of round {some[i]} has "
                f"{seen[i, s]:g} on row {doubtful[s]}; bound the comparator (margin={limit:g}) or give the learner a "
                "larger bound"
            )

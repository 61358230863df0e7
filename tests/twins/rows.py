"""NumPy twin of the row kernels: what happens to features and labels before a learner sees them, round by round."""

from __future__ import annotations

import math

from undrift._typing import Matrix, Vector

CREEP, LEAP = 1.05, 2.0
"""A limit widens by the first factor at a lone outlier, by the second at each one that follows without a pause."""
WIDEST = 1e60
"""... and the limit of a feature never beyond this, so that products of two scaled numbers stay ordinary."""
NEVER = -2.0
"""The round of the last outlier, before there was one."""


def fill_rows(value: Vector, seen: Vector, missing: Vector, Z: Matrix, out: Matrix) -> None:
    """Copy rows, each hole (NaN) filled with the last value before it; a feature never seen stays NaN.

    `value` holds the last value of each feature with `seen` = 1; `missing` counts holes.
    """
    for t in range(len(Z)):
        for j in range(Z.shape[1]):
            if not math.isnan(Z[t, j]):
                value[j], seen[j] = Z[t, j], 1.0
            else:
                missing[j] += 1.0
            out[t, j] = value[j] if seen[j] else math.nan


def scale_rows(
    center: Vector, scale: Vector, limit: Vector, exceeded: Vector, first: int, Z: Matrix, out: Matrix
) -> None:
    """Centre, scale and clip rows after `first` rounds; NaN becomes 0.

    A feature with scale 0 sleeps until it leaves its centre, and that step becomes its scale. One beyond its limit
    widens the limit, by LEAP if the round before (`exceeded`) was beyond it too, else by CREEP, and is cut there.
    """
    for t in range(len(Z)):
        for j in range(Z.shape[1]):
            away = 0.0 if math.isnan(Z[t, j]) else float(Z[t, j] - center[j])
            if scale[j] == 0.0:
                scale[j] = abs(away)
            x = away / float(scale[j]) if scale[j] > 0.0 else away
            if abs(x) > limit[j]:
                limit[j] = min(limit[j] * (LEAP if exceeded[j] == first + t - 1 else CREEP), WIDEST)
                x = math.copysign(min(abs(x), limit[j]), x)
                exceeded[j] = first + t
            out[t, j] = x

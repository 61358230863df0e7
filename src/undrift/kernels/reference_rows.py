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

LAST, BOUND, CUT = range(3)
"""Places in the state of `despike_labels`: last label not cut, bound on a jump (0: none yet), round of the last cut."""


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

    A feature with scale 0 sleeps until it leaves its centre, and that step becomes its scale. One beyond its limit is
    cut there, and the limit widens: by LEAP if the round before (`exceeded`) was beyond it too, else by CREEP.
    """
    for t in range(len(Z)):
        for j in range(Z.shape[1]):
            away = 0.0 if math.isnan(Z[t, j]) else float(Z[t, j] - center[j])
            if scale[j] == 0.0:
                scale[j] = abs(away)
            x = away / float(scale[j]) if scale[j] > 0.0 else away
            if abs(x) > limit[j]:
                x = math.copysign(limit[j], x)
                limit[j] = min(limit[j] * (LEAP if exceeded[j] == first + t - 1 else CREEP), WIDEST)
                exceeded[j] = first + t
            out[t, j] = x


def despike_labels(state: Vector, factor: float, first: int, y: Vector, out: Vector) -> None:
    """Copy labels after `first` rounds, jumps cut at the bound, which widens as limits do in `scale_rows`.

    Jumps are counted from the last label that was not cut. While the bound is 0, the first jump sets it, to `factor`
    times its size.
    """
    for t in range(len(y)):
        jump, bound = float(y[t] - state[LAST]), float(state[BOUND])
        out[t] = y[t]
        if abs(jump) > bound:
            if bound == 0.0:
                state[BOUND] = factor * abs(jump)
            else:
                out[t] = state[LAST] + math.copysign(bound, jump)
                state[BOUND] = bound * (LEAP if state[CUT] == first + t - 1 else CREEP)
                state[CUT] = first + t
                continue  # the way back from a spike is not a jump
        state[LAST] = y[t]


def hinted_answers(m: Matrix, h: Matrix, hint: Vector, scale: float, out: Matrix) -> None:
    """Fill the first columns of `out` with (`scale` m + h hint) / (1 + h), a second half, if there is one, with m.

    m is the leader's prediction of each memory, h its leverage, both (rounds, memories).
    """
    memories = m.shape[1]
    out[:, :memories] = (m * scale + h * hint[:, None]) / (1.0 + h)
    if out.shape[1] == 2 * memories:
        out[:, memories:] = m

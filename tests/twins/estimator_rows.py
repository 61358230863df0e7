"""NumPy twin of what an online estimator does with rows and labels first: holes, scaling, and labels that are spikes.

Every function works on its own part of the state vector, given as a view. Sums are taken in the order of the rows, as
the compiled loops take them, so that these parts have equal bits.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from tests.twins.constants import CREEP, JUMP_FACTOR, JUMP_ROUNDS, LEAP, MOST_CUTS, WIDEST_LIMIT
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import CLIP, NEVER, ROUNDING, WILD, Despiker


class ColumnScaling(NamedTuple):
    """What is known of every column, as views of a state."""

    center: Vector
    """What is taken off a value."""
    scale: Vector
    """What the difference is divided by; 0 as long as the column has been constant."""
    limit: Vector
    """Where the quotient is clipped."""
    exceeded: Vector
    """The serial number of the last row beyond the limit."""


def fill_holes(z: Vector, value: Vector, seen: Vector) -> tuple[Vector, Vector]:
    """Return the row with each hole (NaN) filled by the last value seen, and a mask of the holes.

    A feature that was never seen stays NaN.
    """
    holes = np.isnan(z)
    return np.where(holes, np.where(seen != 0.0, value, np.nan), z), holes.astype(np.float64)


def remember_values(z: Vector, value: Vector, seen: Vector, missing: Vector) -> None:
    """Keep the values of a row that has really come, and count its holes."""
    there = ~np.isnan(z)
    value[there], seen[there] = z[there], 1.0
    missing[~there] += 1.0


def add_indicators(filled: Vector, holes: Vector, indicators: bool) -> Vector:
    """Return (filled_1, hole_1, filled_2, hole_2, ...), or the filled row alone if there are no indicators."""
    return np.column_stack([filled, holes]).ravel() if indicators else filled.copy()


def scale_row(s: ColumnScaling, z: Vector, serial: float, commit: bool) -> Vector:
    """Return x_j = (z_j - center_j) / scale_j of the row with this serial number, clipped to +-limit_j; 0 for NaN.

    A column that has been constant takes its first step away from the centre as its scale, so that x_j = +-1. Where
    |x_j| exceeds the limit, the limit widens before it clips: by the factor LEAP if the row before exceeded it too,
    else by CREEP, so that a lone outlier changes little and a new level is believed after a few rows. With `commit` the
    row has really come, and scales and limits are kept; without it nothing changes.
    """
    now = s if commit else ColumnScaling(*(column.copy() for column in s))
    for j in range(len(z)):
        away = _distance(now, z, j)
        if now.scale[j] == 0.0:
            now.scale[j] = abs(away)
        if now.scale[j] > 0.0 and abs(divide(away, now.scale[j])) > now.limit[j]:
            factor = LEAP if now.exceeded[j] == serial - 1.0 else CREEP
            now.limit[j], now.exceeded[j] = min(now.limit[j] * factor, WIDEST_LIMIT), serial
    return rescale_row(now, z)


def rescale_row(s: ColumnScaling, z: Vector) -> Vector:
    """Return a row that came earlier, scaled and clipped by what is known now; nothing changes."""
    x = np.zeros(len(z))
    for j in range(len(z)):
        away = _distance(s, z, j)
        unit = s.scale[j] if s.scale[j] > 0.0 else abs(away)
        if unit > 0.0:
            x[j] = min(max(divide(away, unit), -s.limit[j]), s.limit[j])
    return x


def fit_scaling(s: ColumnScaling, rows: Matrix, known: Matrix) -> None:
    """Take every column's centre and scale from the mean and the standard deviation of its entries with known = 1.

    A deviation of at most ROUNDING times the largest entry is the rounding of a constant: the centre is then the first
    entry itself, and the scale 0. Clip limits start again.
    """
    for j in range(len(s.center)):
        z = rows[known[:, j] != 0.0, j].tolist()
        center = add_up(z) / max(len(z), 1)
        deviation = math.sqrt(add_up([(one - center) * (one - center) for one in z]) / max(len(z), 1))
        constant = deviation <= ROUNDING * max(map(abs, z), default=0.0)
        s.center[j], s.scale[j] = (z[0] if z else 0.0, 0.0) if constant else (center, deviation)
    s.limit[...], s.exceeded[...] = CLIP, NEVER


def despike(state: Vector, y: float) -> float:
    """Return the label as learners should see it, and update the numbers of `Despiker`.

    With `jump` the way from the last label that was not cut, J the running mean of |jump| and c the length of the
    present series of cut labels, a label counts in full if |jump| <= JUMP_FACTOR J 2^c, and is cut there otherwise. So
    a lone bad label teaches little, a new level is believed within a few rounds, and the bound comes back when the
    series is over. In the mean a jump counts at most WILD J:

        J <- J + (min(|jump|, WILD J) - J) / JUMP_ROUNDS
    """
    last, mean, cuts = (float(state[at]) for at in (Despiker.LAST, Despiker.MEAN_JUMP, Despiker.CUTS))
    jump = y - last
    if mean == 0.0:  # labels were constant so far: nothing says how far they jump
        state[Despiker.MEAN_JUMP], state[Despiker.LAST] = abs(jump), y
        return y
    bound = JUMP_FACTOR * mean * 2.0**cuts
    state[Despiker.MEAN_JUMP] += (min(abs(jump), WILD * mean) - mean) / JUMP_ROUNDS
    if abs(jump) > bound:
        state[Despiker.CUTS] = min(cuts + 1.0, MOST_CUTS)
        return last + math.copysign(bound, jump)
    state[Despiker.CUTS], state[Despiker.LAST] = max(cuts - 1.0, 0.0), y
    return y


def fit_despiker(state: Vector, y: Vector) -> Vector:
    """Take the numbers of `Despiker` from labels, and return these labels as learners should see them."""
    state[Despiker.LAST], state[Despiker.MEAN_JUMP], state[Despiker.CUTS] = median(y), usual_jump(y), 0.0
    return np.array([despike(state, label) for label in y.tolist()])


def usual_jump(y: Vector) -> float:
    """Return the mean |jump| of a series, where a jump counts at most their 90% quantile and WILD times their median.

    A spike among the labels then widens nothing, even if there are so few jumps that the quantile is one of its own.
    The median is the lower one of the two in the middle.
    """
    jumps = sorted(abs(float(b - a)) for a, b in itertools.pairwise(y))
    if not jumps:
        return 0.0
    at = 0.9 * (len(jumps) - 1)
    below, above = int(at), min(int(at) + 1, len(jumps) - 1)
    most = jumps[below] + (jumps[above] - jumps[below]) * (at - below)
    middle = jumps[(len(jumps) - 1) // 2]
    if middle > 0.0:
        most = min(most, WILD * middle)
    return add_up([min(jump, most) for jump in jumps]) / len(jumps)


def median(y: Vector) -> float:
    """Return the label in the middle, or the point between the two in the middle."""
    ordered = sorted(y.tolist())
    low, high = ordered[(len(y) - 1) // 2], ordered[len(y) // 2]
    return float(low + (high - low) / 2.0)


def spread(y: Vector) -> float:
    """Return the standard deviation of labels, or 0 where it is at most ROUNDING times the largest label."""
    mean = 0.0
    for t, label in enumerate(y.tolist()):
        mean += (label - mean) / (t + 1)
    deviation = math.sqrt(add_up([(label - mean) * (label - mean) for label in y.tolist()]) / len(y))
    return deviation if deviation > ROUNDING * float(np.max(np.abs(y))) else 0.0


def add_up(numbers: list[float]) -> float:
    """Return the sum, added one by one in order: `sum` and `np.sum` may round differently."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def _distance(s: ColumnScaling, z: Vector, j: int) -> float:
    return 0.0 if math.isnan(z[j]) else float(z[j] - s.center[j])


def divide(a: float, b: float) -> float:
    """Return a / b, which may be infinite where a column's scale is tiny: limits cut infinities as well."""
    with np.errstate(over="ignore"):
        return float(np.float64(a) / np.float64(b))

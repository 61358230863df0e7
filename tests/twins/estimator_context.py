"""NumPy twin of what an online estimator knows of a row besides its features: running means, last labels, expansions.

Sums are taken in the order of the rows, as the compiled loops take them, so that these numbers have equal bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tests.twins.constants import LEAST_RESIDUAL, LONG_LABEL_SPAN, MOST_SCALES, SCREENED_RESIDUAL, SHORT_LABEL_SPAN
from tests.twins.estimator_rows import ColumnScaling, add_up, divide
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import CLIP, ExpandedColumn
from undrift.kernels.definitions import LabelContext as L


class ScaledRow(NamedTuple):
    """A row as the families see it."""

    x: Vector
    """The scaled features."""
    labels: Vector
    """The last labels in label scales; see `label_columns`."""
    differences: Vector
    """Every feature minus its running means, in its scale: (spans, features) in one vector."""
    given: Vector
    """Answers made elsewhere, in label units or as log-odds; NaN where there is none."""
    weight: float = 1.0
    """How often the memories count the row."""
    elapsed: float = 1.0
    """The time since the row before."""


class FeatureMeans(NamedTuple):
    """The running means of the features, as views of a state."""

    spans: Vector
    """Over about how many rows each mean is taken."""
    means: Matrix
    """(spans, features), in the units of the rows."""
    rows: Vector
    """How many rows each feature was seen in."""


def take_differences(m: FeatureMeans, s: ColumnScaling, z: Vector, commit: bool) -> Matrix:
    """Return z_j - mean_kj for every span k, in the units of the rows; 0 where z_j was never seen.

    With `commit` the row has really come and moves the means, n_k being the span and t_j the rows so far:

        mean_kj <- mean_kj + clip(z_j - mean_kj, CLIP scale_j) max(1 / n_k, 1 / (t_j + 1))

    The first value is the mean of itself. An outlier moves a mean by no more than an ordinary number could.
    """
    out = np.zeros(m.means.shape)
    for j in range(len(m.rows)):
        if math.isnan(z[j]):
            continue
        first, bound = m.rows[j] == 0.0, CLIP * s.scale[j]
        for k, span in enumerate(m.spans):
            away = 0.0 if first else float(z[j] - m.means[k, j])
            out[k, j] = away
            if commit:
                step = max(1.0 / span, 1.0 / (m.rows[j] + 1.0))
                m.means[k, j] = z[j] if first else m.means[k, j] + min(max(away, -bound), bound) * step
        if commit:
            m.rows[j] += 1.0
    return out


def scale_differences(s: ColumnScaling, z: Vector, differences: Matrix) -> Vector:
    """Return differences in the scale that each feature of the row z has now, clipped to +-CLIP."""
    out = np.zeros(differences.shape)
    for j in range(differences.shape[1]):
        away = 0.0 if math.isnan(z[j]) else float(z[j] - s.center[j])
        unit = float(s.scale[j]) if s.scale[j] > 0.0 else abs(away)
        for k in range(len(differences)):
            if unit > 0.0:
                out[k, j] = min(max(divide(differences[k, j], unit), -CLIP), CLIP)
    return out.ravel()


def advance_labels(labels: Vector, y: float, newest: bool, count: float) -> None:
    """Take a label into the numbers of `LabelContext`; it is the `count`-th to be settled.

    The means follow the order of settling; the last label is that of the newest row, and so is the one before it.
    """
    if newest:
        labels[L.BEFORE] = y if count == 1.0 else labels[L.LAST]
        labels[L.LAST] = y
    for mean, span in ((L.SHORT_MEAN, SHORT_LABEL_SPAN), (L.LONG_MEAN, LONG_LABEL_SPAN)):
        labels[mean] += (y - labels[mean]) * max(1.0 / span, 1.0 / count)


def label_columns(labels: Vector, center: float, scale: float) -> Vector:
    """Return the last label minus `center`, and the other numbers of `LabelContext` minus the last label, in scales."""
    last = float(labels[L.LAST])
    away = [min(max((float(one) - last) / scale, -CLIP), CLIP) for one in labels[L.BEFORE :]]
    return np.array([min(max((last - center) / scale, -MOST_SCALES), MOST_SCALES), *away])


def expand(inputs: Vector, columns: Matrix) -> Vector:
    """Return the inputs, clipped to +-CLIP, and after them the columns that `ExpandedColumn` describes."""
    v, out = np.clip(inputs, -CLIP, CLIP), np.zeros(len(columns))
    for k, (first, second, knot) in enumerate(columns):
        if 0.0 <= first < len(v):
            one = v[int(first)]
            out[k] = one * v[int(second)] if 0.0 <= second < len(v) else max(0.0, one - knot)
    return np.concatenate([v, out])


def choose_columns(
    inputs: Matrix, residuals: Vector, order: Vector, knots: int, screened: int, count: int, scale: float
) -> Matrix:
    """Return `count` columns for inputs of which these rows were seen, NaN if not; see `ExpandedColumn`.

    Hinges come first, at most half of the columns: `knots` of each input at evenly spaced quantiles, none where it had
    at most two values or a hinge would be the input itself or 0, and none of the last input, a label: labels of the
    other sign must give predictions of the other sign. The other columns are products of pairs of inputs that moved.
    The first `screened` of them are those that go best with `residuals`, what linear memories left over, by

        (sum_t p_t r_t)^2 / sum_t p_t^2,   p the product minus its mean, r clipped to SCREENED_RESIDUAL mean |r|.

    The rest takes the pairs at distance 1, 2, ... in the cyclic `order`, so that inputs are used about equally often.
    """
    v = np.clip(inputs, -CLIP, CLIP)
    ordered = [sorted(value for value in column if not math.isnan(value)) for column in v.T.tolist()]
    live = [int(j) for j in order if ordered[int(j)] and ordered[int(j)][0] < ordered[int(j)][-1]]
    v = np.where(np.isnan(v), 0.0, v)
    out = np.full((count, len(ExpandedColumn)), -1.0)
    out[:, ExpandedColumn.KNOT] = 0.0
    filled = 0
    for q in range(1, knots + 1):
        for j in live:
            values = ordered[j]
            knot = values[q * len(values) // (knots + 1)]
            before = values[(q - 1) * len(values) // (knots + 1)] if q > 1 else values[0]
            many = any(values[0] < value < values[-1] for value in values)
            if many and j + 1 < len(ordered) and before < knot < values[-1] and filled < count // 2:
                out[filled] = j, -1.0, knot
                filled += 1
    pairs = [(live[a], live[(a + step) % len(live)]) for step in range(1, len(live)) for a in range(len(live))]
    pairs = list(dict.fromkeys((min(pair), max(pair)) for pair in pairs))
    left_over = _screen(residuals, scale)
    fits = [_fit(v, pair, left_over) for pair in pairs] if screened else [0.0] * len(pairs)
    best = sorted(range(len(pairs)), key=lambda k: -fits[k])[:screened]
    chosen = [*(pairs[k] for k in best), *(pair for k, pair in enumerate(pairs) if k not in best)][: count - filled]
    for k, (i, j) in enumerate(chosen):
        out[filled + k] = i, j, 0.0
    return out


def _screen(residuals: Vector, scale: float) -> list[float]:
    """Return residuals cut to SCREENED_RESIDUAL times their mean size, zeros where they are but rounding."""
    mean = add_up(np.abs(residuals).tolist()) / len(residuals)
    bound = SCREENED_RESIDUAL * mean if mean > LEAST_RESIDUAL * scale else 0.0
    return [min(max(one, -bound), bound) for one in residuals.tolist()]


def _fit(v: Matrix, pair: tuple[int, int], residuals: list[float]) -> float:
    """Return how much of the residuals' squares a product accounts for."""
    p = (v[:, pair[0]] * v[:, pair[1]]).tolist()
    mean = add_up(p) / len(p)
    square = add_up([(one - mean) * (one - mean) for one in p])
    together = add_up([(one - mean) * r for one, r in zip(p, residuals, strict=True)])
    return together * together / square if square > 0.0 else 0.0

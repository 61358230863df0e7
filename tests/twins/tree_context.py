"""NumPy twin of rows in context, as forests inside of an online estimator see them: slow and plain."""

from __future__ import annotations

import math

from tests.twins.estimator_context import advance_labels
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import LabelContext


def tree_rows(state: Vector, spans: Vector, Z: Matrix, y: Vector, X: Matrix, commit: bool) -> None:
    """Fill `X` with the rows `Z` in context, each as it is when it is served; with `commit` they have really come.

    A row of X holds the numbers of `LabelContext`, NaN before the first label, then every feature as it came. Each of
    the first features is followed by its distance from its running means over `spans` rows: 0 in the first row that has
    it, NaN where it is missing. `state` is the label context, the count of labels, and for each of these features its
    rows and its means:

        mean_k <- mean_k + (z - mean_k) max(1 / spans_k, 1 / rows)

    With `commit`, the label of a row, if it is not NaN, is known when the next one is served. Without it, all rows are
    served from the same state, which stays as it is.
    """
    head = len(LabelContext)
    features = state[head + 1 :].reshape(-1, 1 + len(spans))
    for t, z in enumerate(Z.tolist()):
        row = state[:head].tolist() if state[head] > 0.0 else [math.nan] * head
        for j, one in enumerate(z):
            row.append(one)
            if j >= len(features):
                continue
            seen, means = float(features[j, 0]), features[j, 1:]
            first, missing = seen == 0.0, math.isnan(one)
            for k, span in enumerate(spans.tolist()):
                away = 0.0 if first and not missing else one - float(means[k])
                row.append(away)
                if commit and not missing:
                    means[k] = one if first else float(means[k]) + away * max(1.0 / span, 1.0 / (seen + 1.0))
            if commit and not missing:
                features[j, 0] += 1.0
        X[t] = row
        if commit and not math.isnan(y[t]):
            settle_tree_label(state, float(y[t]), True)


def settle_tree_label(state: Vector, y: float, newest: bool) -> None:
    """Take a label into the context; it is the last label if it is that of the newest row."""
    state[len(LabelContext)] += 1.0
    advance_labels(state[: len(LabelContext)], y, newest, float(state[len(LabelContext)]))

"""Explanation: one prediction, and what each column adds beside its usual value."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undrift._internal.rows import Table
from undrift.stream.answers import Answers
from undrift.stream.features import Features, Rows
from undrift.stream.model import StreamModel


class Contribution(NamedTuple):
    """What one column adds to a prediction."""

    column: str
    """The column, the cycle of the calendar, or the earlier label."""
    adds: float
    """How much more the prediction is than with the usual value of this column, all else the same."""


class Explanation(NamedTuple):
    """One prediction beside what is usual."""

    prediction: float
    """The prediction; of classes the log-odds of `label` against all others."""
    usual: float
    """The same for a row with the usual value in every column: their means over the last rows."""
    contributions: list[Contribution]
    """What each column adds, the largest first."""
    label: str | None = None
    """The likeliest label; None for numbers."""

    @property
    def together(self) -> float:
        """What the columns add only together: the prediction less the usual one and all contributions."""
        return self.prediction - self.usual - sum(part.adds for part in self.contributions)


def explain_row(model: StreamModel, features: Features, row: Rows, answers: Answers) -> Explanation:
    """Explain the prediction of one row, which is in `answers`.

    A column's features take their usual values together, all else stays, and the prediction is made again. A column of
    predictions made elsewhere abstains instead.
    """
    groups, names = features.groups, features.names
    label, usual = answers.labels[0] if answers.classes is not None else None, features.usual_values()
    variants = np.repeat(row.Z, len(groups) + 2, axis=0)
    for k, group in enumerate(groups.values()):
        at = [names.index(name) for name in group]
        variants[k + 1, at] = variants[-1, at] = [usual.get(name, np.nan) for name in group]
    elapsed = None if row.elapsed is None else float(row.elapsed[0])
    first, *others, last = model.scores(Table(names, variants), label, elapsed).tolist()
    parts = [Contribution(name, first - score) for name, score in zip(groups, others, strict=True)]
    return Explanation(first, last, sorted(parts, key=lambda part: -abs(part.adds)), label)

"""What the user should know about a column of weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from undrift.run.prepare.first_rows import FirstRows

USUAL_WEIGHT = 10.0
"""How often a usual row may count at most, and at least by its inverse, before that is told."""


def notes_on_weight(first: FirstRows, name: str) -> Iterator[str]:
    """Yield what the weights of rows are for, and what to do if a usual row counts far more or far less than once."""
    yield f"'{name}' says how often each row counts in learning; it is no feature, and scores count every row once"
    column = first.numbers(name)
    median = float(np.median(column[column > 0.0])) if (column > 0.0).any() else 1.0
    if not 1.0 / USUAL_WEIGHT <= median <= USUAL_WEIGHT:
        shown = f"{median:,.0f}" if median > USUAL_WEIGHT else f"{median:.3g}"
        yield (
            f"a usual row counts {shown} times, the median of '{name}' in {first.where}, which makes the model "
            f"{'jump from row to row' if median > USUAL_WEIGHT else 'learn slowly'}; divide the column by {shown}, so "
            "that a usual row counts once"
        )

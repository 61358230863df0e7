"""The comparators that runs are certified against, each chosen in hindsight: fixed, in pieces, and smooth."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.errors import ConditionError
from undrift.losses import Loss
from undrift.regret import comparators

PIECES, ROUNDS_PER_PIECE, ROUNDS_PER_COLUMN = 20, 50, 2
"""Pieces at most, and rounds of a piece at least, also for each column: one with fewer rows than columns fits all."""
PULL = 1.0
"""Weight in rounds of the best fixed comparator in every piece; without it short pieces would fit noise."""
SMOOTH_PRICE = 1e4
"""Price of the smooth comparator's squared steps, in scaled features."""
SMOOTH_KNOTS = 400
"""Points through which the smooth comparator goes in straight lines where its margin is limited."""
SMOOTH_NUMBERS = 1.4e7
"""The smooth comparator keeps some 45 bytes for each of so many numbers, rounds times columns squared: 0.6 GB."""


class RunComparator(NamedTuple):
    """One comparator, and the words that the command line and the report have for it."""

    name: str
    """Short, for tables."""
    words: str
    """Who it is, to follow "than" or "that of"."""
    kind: str
    """All comparators of its kind, likewise: what is proven in hindsight is proven against those of them whose
    coefficients are no larger than its own."""
    refit_every: int | None
    """Rounds of a piece; None where there are no pieces."""
    find: Callable[[Matrix, Vector], Matrix]
    """Returns the comparator of rows and labels."""


def run_comparators(rounds: int, width: int, loss: Loss, margin: float | None) -> list[RunComparator]:
    """Return the comparators of so many rounds and columns; `margin` is their largest prediction, None: any."""
    pieces = max(2, min(PIECES, rounds // max(ROUNDS_PER_PIECE, ROUNDS_PER_COLUMN * width)))
    every = -(-rounds // pieces)
    within = "" if margin is None else " and predicts no further from 0"
    return [
        RunComparator(
            "best fixed",
            "the best linear predictor that never changes",
            f"any linear predictor that never changes{within}",
            None,
            partial(comparators.fixed, loss=loss, margin=margin),
        ),
        RunComparator(
            f"{pieces} pieces",
            f"a linear predictor refitted every {every:,} rows on average",
            f"any linear predictor that changes at the same rows, by no more{within}",
            every,
            partial(_piecewise, loss=loss, pieces=pieces, margin=margin),
        ),
        RunComparator(
            "smooth",
            "a linear predictor that drifts smoothly",
            f"any linear predictor that drifts as slowly{within}",
            None,
            partial(_smooth, loss=loss, margin=margin),
        ),
    ]


def _piecewise(Z: Matrix, y: Vector, loss: Loss, pieces: int, margin: float | None) -> Matrix:
    """Return the comparator in pieces, unless they would have fewer rows than columns."""
    if len(Z) < pieces * ROUNDS_PER_COLUMN * Z.shape[1]:
        raise ConditionError(
            f"{pieces} pieces of {len(Z):,} rounds with {Z.shape[1]:,} columns would fit almost anything, and take "
            "long to find; leave columns out (--drop, --features) to have them"
        )
    return comparators.piecewise(Z, y, loss, segments=pieces, pull=PULL, margin=margin)


def _smooth(Z: Matrix, y: Vector, loss: Loss, margin: float | None) -> Matrix:
    """Return the smooth comparator; with a margin, `SMOOTH_KNOTS` points of it, shrunk to keep it, and lines between.

    Shrinking T different comparators would take T^2 products; what lies between two that keep a margin keeps it too.
    """
    numbers = Z.shape[0] * Z.shape[1] ** 2
    if numbers > SMOOTH_NUMBERS:
        raise ConditionError(
            f"the smooth comparator of {Z.shape[0]:,} rounds and {Z.shape[1]} columns would take about "
            f"{45 * numbers / 1e9:.1f} GB; certify a shorter run (--limit) to have it"
        )
    u = comparators.smooth(Z, y, loss, tau=SMOOTH_PRICE)
    if margin is None:
        return u
    knots = np.unique(np.round(np.linspace(0, len(u) - 1, SMOOTH_KNOTS)).astype(np.int64))
    widest = np.maximum([np.max(np.abs(Z @ u[k])) for k in knots], 1e-300)
    inside = u[knots] * np.minimum(1.0, margin * (1.0 - 1e-12) / widest)[:, None]
    return np.column_stack([np.interp(np.arange(len(u)), knots, column) for column in inside.T])

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

PIECES, ROUNDS_PER_PIECE = 20, 50
"""Pieces at most, and rounds of a piece at least."""
PULL = 1.0
"""Weight in rounds of the best fixed comparator in every piece; without it short pieces would fit noise."""
SMOOTH_PRICE = 1e4
"""Price of the smooth comparator's squared steps, in scaled features."""
SMOOTH_MOVES = 400
"""Moves of the smooth comparator where its margin is limited."""
SMOOTH_NUMBERS = 1.4e7
"""The smooth comparator keeps some 45 bytes for each of so many numbers, rounds times columns squared: 0.6 GB."""


class RunComparator(NamedTuple):
    """One comparator."""

    refit_every: int | None
    """Rounds of a piece; None where there are no pieces."""
    find: Callable[[Matrix, Vector], Matrix]
    """Returns the comparator of rows and labels."""


def run_comparators(rounds: int, loss: Loss, margin: float | None) -> dict[str, RunComparator]:
    """Return the comparators by name; `margin` is the largest prediction they may make, None: any."""
    pieces = max(2, min(PIECES, rounds // ROUNDS_PER_PIECE))
    fixed = partial(comparators.fixed, loss=loss, margin=margin)
    piecewise = partial(comparators.piecewise, loss=loss, segments=pieces, pull=PULL, margin=margin)
    return {
        "best fixed": RunComparator(None, fixed),
        f"{pieces} pieces": RunComparator(-(-rounds // pieces), piecewise),
        "smooth": RunComparator(None, partial(_smooth, loss=loss, margin=margin)),
    }


def _smooth(Z: Matrix, y: Vector, loss: Loss, margin: float | None) -> Matrix:
    """Return the smooth comparator; with a margin, one that moves at most `SMOOTH_MOVES` times, shrunk to keep it.

    Shrinking T different comparators would take T^2 products.
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
    step = -(-len(u) // SMOOTH_MOVES)
    held = u[step // 2 :: step] if len(u) > step // 2 else u[:1]
    held = held * np.minimum(1.0, margin / np.maximum([np.max(np.abs(Z @ one)) for one in held], 1e-300))[:, None]
    return np.asarray(held[np.minimum(np.arange(len(u)) // step, len(held) - 1)])

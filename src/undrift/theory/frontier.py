"""The frontier of a run: regret and its bound as the comparator is allowed to vary more and more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.losses import Loss, squared
from undrift.regret._input import check_stream
from undrift.regret.certify import certify
from undrift.regret.comparators._solve import Limits, find_minimum
from undrift.regret.comparators.piecewise import refit_pieces
from undrift.regret.d2d import Certificate
from undrift.regret.measures import path_length
from undrift.trace import Trace

WHO = "frontier"


class Point(NamedTuple):
    """One comparator of the frontier, refitted every so many rounds."""

    every: int
    """Rounds between refits; T is the best fixed comparator."""
    path_length: float
    """How far the comparator moves, in the coordinates of the leaf it was fitted in."""
    certificate: Certificate
    """Regret, bound and terms; its `variation` is what the moves cost."""


def frontier(
    learner: object,
    Z: ArrayLike,
    y: ArrayLike,
    trace: Trace,
    loss: Loss = squared,
    *,
    refits: Sequence[int] | None = None,
    pull: float = 0.0,
    bound: float | None = None,
    margin: float | None = None,
) -> list[Point]:
    """Certify a run against the best fixed comparator, then against ones refitted more and more often.

    Parameters
    ----------
    learner, Z, y, trace, loss
        As for `certify`.
    refits
        Rounds between refits, any order; None: T, T/2, T/4, ... down to 4 d.
    pull
        Rounds, as for `comparators.piecewise`; 1 keeps comparators that are refitted often from fitting noise.
    bound, margin
        Largest |u| and |u.z| of the comparators, as for `comparators.fixed`.

    Returns
    -------
    Points from the least to the most varying comparator.

    Notes
    -----
    Key `frontier`. Somewhere between the two ends lies the comparator the run is best described by: where comparator
    loss plus bound is least.

    Examples
    --------
    >>> from undrift.learners import DiscountedVAW
    >>> Z, y = np.ones((32, 1)), np.repeat([1.0, 3.0], 16)
    >>> learner = DiscountedVAW(beta=0.9)
    >>> for point in frontier(learner, Z, y, learner.clone().play(Z, y)):
    ...     c = point.certificate
    ...     print(point.every, round(point.path_length, 2), round(c.comparator_loss, 1), round(c.regret, 1), c.holds)
    32 0.0 16.0 -2.0 True
    16 2.0 0.0 14.0 True
    8 2.0 0.0 14.0 True
    4 2.0 0.0 14.0 True
    """
    rounds = len(np.asarray(y))
    lengths = (
        _lengths(rounds, np.shape(Z)[-1])
        if refits is None
        else [_check.integer(WHO, "refits", every, 1) for every in refits]
    )
    limits = Limits.of(WHO, bound, margin)
    pull = _check.interval(WHO, "pull", pull, "[0, inf)")
    points = []
    for every in sorted(lengths, reverse=True):
        moved: list[float] = []

        def fit_pieces(rows: Matrix, labels: Vector, every: int = every, moved: list[float] = moved) -> Matrix:
            rows, labels = check_stream(WHO, rows, labels, loss)
            centre = find_minimum(rows, labels, loss, limits, rows).u
            u = refit_pieces(rows, labels, loss, np.arange(0, len(labels), every), limits, centre, pull)
            moved.append(path_length(u))
            return u

        certificate = certify(learner, Z, y, trace=trace, u=fit_pieces, loss=loss)
        points.append(Point(every, moved[-1] if moved else 0.0, certificate))
    return points


def _lengths(rounds: int, dim: int) -> list[int]:
    """Return T, T/2, T/4, ... while they are at least 4 d."""
    lengths = [max(rounds, 1)]
    while lengths[-1] // 2 >= 4 * max(dim, 1):
        lengths.append(-(-lengths[-1] // 2))
    return lengths

"""Leaves that know the comparator: they make a certificate tight, and prove something about the run, not the learner.

A composite's loss is at most its measured excess over a leaf plus what the leaf can have lost, whatever the leaf is. A
leaf that starts afresh where the comparator jumps pays nothing for the jump; one that drifts pays for steps alone.
"""

from __future__ import annotations

from typing import Any

from undrift._typing import Matrix
from undrift.errors import ConditionError
from undrift.learners.drift import DriftVAW
from undrift.losses import Loss, logistic, squared
from undrift.regret._input import check_stream, moves
from undrift.regret.comparators.smooth import smooth
from undrift.regret.composite import ReferenceLearners
from undrift.regret.lower_bounds import path_leaf, stretches_leaf
from undrift.template import Designed, Leaf, Template

REGS = (1e-4, 1e-2, 1.0)
"""Ridges of the best predictors of stretches."""
STRETCH_ROWS = 10
"""Rows of a stretch for each column, on average, for two classes: shorter ones take long and prove little."""
TAUS, DRIFT_REG = (1.0, 1e2, 1e4, 1e6), 1e-4
"""Prices of movement, and the ridge, of the leaves that drift."""
MOST_STRETCHES = 400
"""Stretches that are fitted one by one, at most; a comparator that moves more often drifts."""
SMOOTH_WORK = 1.4e7
"""Rounds times the square of the features, at most, for which the best logistic path is looked for: 0.6 GB."""
DRIFT_WORK = 1e8
"""Rounds times the square of the features, at most, of the leaves that drift: a second each."""


class HindsightLeaves(ReferenceLearners):
    """Any run, certified through leaves that know the comparator: the best of its kind, which had all the answers.

    Parameters
    ----------
    model
        The online estimator that played, whose `design` has the rows comparators are for; None: the rows as given.
    binary
        Whether labels are two classes; taken from the model, if there is one.

    Notes
    -----
    Key `hindsight`. Such leaves prove something about this run, not about the learner: its measured loss over a leaf's
    is part of the bound. What is proven beyond the measured regret is that no comparator of the kind (fixed, with the
    same cuts, or drifting) whose coefficients are no larger than those of u in any round, whose squared steps add up to
    no more, and that for two classes predicts no further from 0, would have beaten the run by more than the bound.
    Larger coefficients are not covered. The learner's own promise is what `certify(learner, ...)` shows.

    Examples
    --------
    >>> import numpy as np, undrift as ud
    >>> from undrift.regret import certify
    >>> Z, y = np.ones((60, 1)), np.repeat([1.0, 3.0], 30)
    >>> learner = ud.DiscountedVAW(beta=0.9)
    >>> trace, u = learner.play(Z, y), np.repeat([[1.0], [3.0]], 30, axis=0)
    >>> own, best = (certify(one, Z, y, trace=trace, u=u) for one in (learner.clone(), HindsightLeaves()))
    >>> round(own.regret, 2), round(own.bound, 1), round(best.bound, 2)
    (16.18, 24.4, 16.18)
    """

    def __init__(self, model: object = None, *, binary: bool = False) -> None:
        self.model = model
        self.binary = bool(getattr(model, "binary", binary))

    @property
    def loss(self) -> Loss:
        """The loss that is certified."""
        return logistic if self.binary else squared

    def design(self, Z: Any, y: Any) -> tuple[Any, ...]:
        """Return the rows and labels comparators are for."""
        if isinstance(self.model, Designed):
            return self.model.design(Z, y)
        return check_stream("certify", Z, y, self.loss)

    def leaves(self, Z: Any, y: Any, u: Matrix | None) -> list[Leaf]:
        """Return the best predictors of the comparator's stretches, its own path, and learners that drift."""
        rows, labels = self.design(Z, y)[:2]
        if u is None:
            raise ConditionError("HindsightLeaves: needs the comparator itself")
        out = [path_leaf(rows, labels, u, self.loss)]
        stretches = len(moves(u)) + 1
        worthwhile = max(1, len(rows) // (STRETCH_ROWS * rows.shape[1])) if self.binary else MOST_STRETCHES
        if stretches <= min(MOST_STRETCHES, worthwhile):
            out += [stretches_leaf(rows, labels, u, self.loss, reg) for reg in REGS]
        elif self.binary and rows.shape[0] * rows.shape[1] ** 2 <= SMOOTH_WORK:
            price = out[0].learner.movement if isinstance(out[0].learner, Template) else None
            tau = price if isinstance(price, float) and price else TAUS[2]
            best = smooth(rows, labels, self.loss, tau=tau)  # u itself may be held back by a margin
            out.append(path_leaf(rows, labels, u, self.loss, best))
        elif not self.binary and rows.shape[0] * rows.shape[1] ** 2 <= DRIFT_WORK:
            out += [DriftVAW(tau, reg=DRIFT_REG, hint="ridge").leaf(rows, labels, u) for tau in TAUS]
        return out

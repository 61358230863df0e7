"""Restarted: a learner that starts afresh at given rounds; its certificate is the sum of those of its stretches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Vector
from undrift.errors import ConditionError, InputError
from undrift.learners.base import Learner
from undrift.learners.class_learner import ClassLearner
from undrift.learners.row_context import check_context
from undrift.template import Designed
from undrift.trace import Trace

COLUMNS = ("yhat", "stability", "potential")
"""The columns of a trace that certificates are made from."""


class Restarted:
    """A learner that starts afresh at given rounds, which only hindsight knows: a leaf of a proof.

    Parameters
    ----------
    learner
        A learner with a guarantee; fresh clones of it play the stretches between the starts.
    starts
        Rounds, from 0, at which a fresh one begins.

    Notes
    -----
    Key `d2d`. Fresh clones share nothing, so `certify` certifies every stretch as a run of its own and adds the
    certificates: whatever the learner's promise consists of holds, stretch by stretch.

    Examples
    --------
    >>> from undrift.learners import DiscountedVAW
    >>> from undrift.regret import certify
    >>> Z, y = np.ones((40, 1)), np.repeat([1.0, 3.0], 20)
    >>> restarted = Restarted(DiscountedVAW(beta=0.9), np.array([20]))
    >>> certificate = certify(restarted, Z, y, restarted.play(Z, y), u=y[:, None])
    >>> round(certificate.regret, 2), round(certificate.bound, 2)
    (12.47, 13.09)
    """

    def __init__(self, learner: Learner, starts: ArrayLike) -> None:
        if not isinstance(learner, Learner):
            raise InputError(f"Restarted: learner must be a learner, got {_check.describe(learner)}")
        if isinstance(learner, (Designed, ClassLearner)):
            raise ConditionError(
                f"Restarted: stretches of {type(learner).__name__} cannot be certified one by one; use a learner of "
                "numbers or of two classes, such as DiscountedVAW"
            )
        self.learner = learner
        rounds = _check.column(self, "starts", starts, np.size(np.asarray(starts)))
        if not ((rounds >= 0.0) & (rounds == np.floor(rounds)) & (rounds < 2.0**53)).all():
            raise InputError("Restarted: starts must be rounds, whole numbers from 0 on")
        self.starts = np.union1d([0.0], rounds).astype(np.int64)
        self.loss = learner.loss

    def stretches(self, rounds: int) -> list[slice]:
        """Return the rounds that each fresh learner plays; a single empty stretch if there are no rounds."""
        edges = [*self.starts[self.starts < max(rounds, 1)].tolist(), rounds]
        return [slice(a, b) for a, b in pairwise(edges)]

    def play(
        self, Z: ArrayLike, y: ArrayLike, *, weight: ArrayLike | None = None, elapsed: ArrayLike | None = None
    ) -> Trace:
        """Play every stretch with a fresh learner; `weight` and `elapsed` are as for the learner itself."""
        Z, y = _check.rows(self, Z), np.asarray(y)
        if y.shape != (len(Z),):
            raise InputError(f"Restarted: y must have one label for each of {len(Z)} rows, got shape {y.shape}")
        context = check_context(self, len(y), weight=weight, elapsed=elapsed)
        traces = []
        for part in self.stretches(len(y)):
            own = context.between(part.start, part.stop)
            traces.append(self.learner.clone().play(Z[part], y[part], weight=own.weight, elapsed=own.elapsed))
        joined: dict[str, Any] = {name: _join([getattr(trace, name) for trace in traces]) for name in COLUMNS}
        return Trace(**joined)

    def cut_trace(self, trace: Trace, part: slice) -> Trace:
        """Return a stretch of the trace of a whole run, as the trace of a run of its own."""
        given = {name: getattr(trace, name) for name in COLUMNS}
        columns: dict[str, Any] = {name: None if column is None else column[part] for name, column in given.items()}
        return Trace(**columns, delay=trace.delay)


def _join(columns: list[Vector]) -> Vector | None:
    """Return the columns of all stretches one after the other; None if a stretch has none."""
    return None if any(column is None for column in columns) else np.concatenate(columns)

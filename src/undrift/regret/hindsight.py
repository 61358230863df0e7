"""Leaves that know the comparator: they make a certificate tight, and say something about the run, not the learner.

A composite's loss is at most its measured excess over a leaf plus what the leaf can have lost, whatever the leaf is. A
leaf that starts afresh where the comparator jumps pays nothing for the jump; one that drifts pays for steps alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from undrift._typing import Matrix, Rounds, Vector
from undrift.errors import ConditionError
from undrift.leaf import Designed, Leaf
from undrift.learners.aioli import DiscountedAIOLI
from undrift.learners.base import Learner
from undrift.learners.drift import DriftVAW
from undrift.learners.vaw import DiscountedVAW
from undrift.losses import logistic, squared
from undrift.regret._input import check_stream, moves
from undrift.regret.composite import ReferenceLearners
from undrift.template import Observations, Template, no_observations
from undrift.trace import Trace

BETAS = (0.99, 0.999, 1.0)
REGS = (1e-4, 1e-2, 1.0)
TAUS = (1.0, 1e2, 1e4, 1e6)
"""Prices of movement of the leaves that drift."""
MOST_STARTS = 400
"""Fresh starts that are worth it; a comparator that moves more often drifts."""


class Restarted:
    """A learner that starts afresh at given rounds, which only hindsight knows: a leaf of a proof.

    Parameters
    ----------
    learner
        A learner with a guarantee; fresh clones of it play the stretches between the starts.
    starts
        Rounds, from 0, at which a fresh one begins.
    """

    def __init__(self, learner: Learner, starts: Rounds) -> None:
        self.learner = learner
        self.starts = np.union1d([0], starts).astype(np.int64)
        self.loss = learner.loss

    def _stretches(self, rounds: int) -> list[slice]:
        edges = [*self.starts[self.starts < rounds].tolist(), rounds]
        return [slice(a, b) for a, b in pairwise(edges)]

    def play(self, Z: Matrix, y: Vector) -> Trace:
        """Play every stretch with a fresh learner."""
        traces = [self.learner.clone().play(Z[part], y[part]) for part in self._stretches(len(y))]
        return _join_traces(traces)

    def template(self, Z: Matrix, y: Vector) -> Template:
        """Return the promise of the whole run: the learner's own, with the discount 0 at every fresh start."""
        stretches = self._stretches(len(y))
        parts = [self.learner.template(Z[part], y[part]) for part in stretches]
        betas = np.full(len(y), self.learner.discount.beta)
        betas[self.starts[self.starts < len(y)]] = 0.0
        return Template(
            self.learner.discount,
            betas=betas,
            loss=self.loss,
            limit=max((one.limit for one in parts), default=np.inf),
            floors=_join_observations([one.floors for one in parts], stretches, Z.shape[1]),
            surrogates=_join_observations([one.surrogates for one in parts], stretches, Z.shape[1], all_or_none=True),
            blur=_join_columns([one.blur for one in parts], stretches, Z),
            restart_cost=_join_columns([one.restart_cost for one in parts], stretches, y),
            replayed=_join_traces([one.replayed for one in parts if one.replayed is not None]),
        )


class HindsightLeaves(ReferenceLearners):
    """Any run, certified through leaves that start afresh where the comparator jumps, or drift as it does.

    Parameters
    ----------
    model
        The online estimator that played, whose `design` has the rows comparators are for; None: the rows as given.
    binary
        Whether labels are two classes; taken from the model, if there is one.

    Notes
    -----
    Such leaves prove something about this run, not about the learner: its measured loss over a leaf's is part of the
    bound. The learner's own promise is what `certify(learner, ...)` shows.

    Examples
    --------
    >>> import undrift as ud
    >>> from undrift.regret import certify
    >>> Z, y = np.ones((60, 1)), np.repeat([1.0, 3.0], 30)
    >>> learner = ud.DiscountedVAW(beta=0.9)
    >>> trace, u = learner.play(Z, y), np.repeat([[1.0], [3.0]], 30, axis=0)
    >>> own, best = certify(learner.clone(), Z, y, trace, u), certify(HindsightLeaves(), Z, y, trace, u)
    >>> round(own.regret, 2), round(own.bound, 1), round(best.bound, 2)
    (16.18, 24.4, 16.18)
    """

    def __init__(self, model: object = None, *, binary: bool = False) -> None:
        self.model = model
        self.binary = bool(getattr(model, "binary", binary))

    def design(self, Z: Any, y: Any) -> tuple[Any, ...]:
        """Return the rows and labels comparators are for."""
        if isinstance(self.model, Designed):
            return self.model.design(Z, y)
        return check_stream("certify", Z, y, logistic if self.binary else squared)

    def leaves(self, Z: Any, y: Any, u: Matrix | None) -> list[Leaf]:
        """Return learners that start afresh where the comparator moves, and ones that never do."""
        rows, labels = self.design(Z, y)[:2]
        if u is None:
            raise ConditionError("HindsightLeaves: needs the comparator itself")
        starts = moves(u) + 1
        if len(starts) > MOST_STARTS:
            starts = starts[:0]
        bases = _logistic_bases(rows, u) if self.binary else _squared_bases()
        played = [Restarted(one, starts) for one in bases]
        restarted = [Leaf(f"restarted {one.learner!r}", one, rows, labels, one.play(rows, labels), u) for one in played]
        drifting = [] if self.binary else [DriftVAW(tau, reg=reg, hint="ridge") for tau in TAUS for reg in REGS]
        return [*restarted, *(one.leaf(rows, labels, u) for one in drifting)]


def _squared_bases() -> Sequence[Learner]:
    return [DiscountedVAW(beta=beta, reg=reg, hint="ridge") for beta in BETAS for reg in REGS]


def _logistic_bases(Z: Matrix, u: Matrix) -> Sequence[Learner]:
    """Return learners that just cover the comparator on the rows of its own stretches."""
    edges = np.unique(np.append(np.append(0, moves(u) + 1), len(u)))
    widest = max((float(np.abs(Z[a:b] @ u[a]).max()) for a, b in pairwise(edges.tolist())), default=0.0)
    return [DiscountedAIOLI(beta=beta, reg=reg, bound=widest * (1.0 + 1e-9)) for beta in BETAS for reg in REGS]


def _join_traces(traces: Sequence[Trace]) -> Trace:
    nothing = np.zeros(0)
    return Trace(
        np.concatenate([nothing, *(one.yhat for one in traces)]),
        np.concatenate([nothing, *(one.stability for one in traces if one.stability is not None)]),
        np.concatenate([nothing, *(one.potential for one in traces if one.potential is not None)]),
    )


def _join_columns(parts: Sequence[Matrix | None], stretches: Sequence[slice], like: Matrix) -> Matrix | None:
    """Return the numbers of all stretches one after the other, 0 where a stretch has none; None if none has any."""
    if all(one is None for one in parts):
        return None
    out = np.zeros_like(like)
    for part, one in zip(stretches, parts, strict=True):
        if one is not None:
            out[part] = one
    return out


def _join_observations(
    parts: Sequence[Observations | None], stretches: Sequence[slice], dim: int, *, all_or_none: bool = False
) -> Observations | None:
    """Return the observations of all stretches, each in its own rounds."""
    if all_or_none and all(one is None for one in parts):
        return None
    kept = [(part.start, one) for part, one in zip(stretches, parts, strict=True) if one is not None]
    found = [no_observations(dim), *(Observations(one.round + at, *one[1:]) for at, one in kept)]
    return Observations(
        np.concatenate([one.round for one in found]),
        np.concatenate([one.row for one in found]),
        np.concatenate([one.target for one in found]),
        np.concatenate([one.weight for one in found]),
    )

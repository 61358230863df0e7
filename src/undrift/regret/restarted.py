"""Restarted: a learner that starts afresh at given rounds, with the promise that covers the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from undrift._typing import Matrix, Rounds, Vector
from undrift.learners.base import Learner
from undrift.template import Observations, Template, no_observations
from undrift.trace import Trace


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

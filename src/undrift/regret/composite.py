"""Certificates of composites: mixtures, two levels, scalers, warm-ups, adaptive mixers.

The composite's measured loss over a leaf's, on the same rounds, plus the leaf's own certificate. No theorem about the
mixer is needed: what it cost is known after the run. The smallest bound over the leaves is returned, with its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.errors import ConditionError, InputError
from undrift.learners.base import Learner
from undrift.losses import Logistic, Loss
from undrift.regret._input import WHO, check_comparator, check_same_learner, check_stream, check_whole, margins, moves
from undrift.regret.d2d import Certificate
from undrift.regret.remembered import AFFORDABLE
from undrift.template import Composite, Designed, Leaf
from undrift.trace import Trace

SECONDS = 25.0
"""What the leaves of a certificate may take together, about; of more, evenly spaced ones are certified."""
ROUND_SECONDS, SQUARE_SECONDS, LOSS_SECONDS = 5e-6, 1.4e-9, 2e-8
"""Seconds of a leaf's round, of the square of its columns, and of a logistic loss, of which every move asks for one a
round."""
Comparator = ArrayLike | Callable[[Matrix, Vector], ArrayLike]
"""Comparators (T, d) or one (d,); or a function of rows and labels that returns them, such as `comparators.fixed`."""


class ReferenceLearners:
    """Any run, certified through learners it need not contain.

    Whatever made the predictions (a pipeline, another library, a person), its loss over a certified learner's on the
    same rows is known after the run, and the learner's own certificate covers the rest.

    Parameters
    ----------
    learners
        Learners with a guarantee, at least one; fresh clones of them play the rows given to `certify`.

    Examples
    --------
    >>> from undrift.learners import DiscountedVAW
    >>> from undrift.regret import certify
    >>> Z, y = np.ones((6, 1)), np.array([1.0, 1.2, 0.8, 3.0, 3.1, 2.9])
    >>> someone = Trace(np.array([1.0, 1.0, 1.0, 1.0, 3.0, 3.0]))
    >>> learners = ReferenceLearners([DiscountedVAW(beta=0.5), DiscountedVAW(beta=1.0)])
    >>> c = certify(learners, Z, y, trace=someone, u=[2.0])
    >>> c.leaf, round(c.regret, 2), round(c.bound, 2)
    ("DiscountedVAW(beta=1.0, reg=1.0, hint='zero')", -1.0, -0.71)
    """

    def __init__(self, learners: Sequence[Learner]) -> None:
        if not learners or not all(isinstance(one, Learner) for one in learners):
            raise InputError("ReferenceLearners: learners must be learners with a guarantee, at least one")
        self.learners = [one.clone() for one in learners]
        self.binary = learners[0].binary

    @property
    def loss(self) -> Loss:
        """The loss that is certified unless another is asked for: that of the learners."""
        return self.learners[0].loss

    def leaves(self, Z: Matrix, y: Vector, u: Matrix | None) -> list[Leaf]:
        """Return every learner as a leaf, played on the rows as they are."""
        return [one.leaf(Z, y, u) for one in self.learners]


def certify_composite(
    composite: Composite,
    Z: ArrayLike,
    y: ArrayLike,
    trace: Trace,
    u: Comparator,
    loss: Loss,
    certify: Callable[..., Certificate],
) -> Certificate:
    """Return the smallest certificate over the leaves; `certify` is the one for a single learner."""
    name = type(composite).__name__
    if isinstance(composite, Learner):
        check_same_learner(name, composite.parameters, trace)
    elif trace.learner and trace.learner != name and not isinstance(composite, ReferenceLearners):
        raise InputError(f"{WHO}: the trace is of {trace.learner}, the learner is {name}; pass the one that played it")
    rows, labels, counted = _rounds(composite, Z, y, loss)
    check_whole(trace, len(counted))
    yhat = _check.finite_array(WHO, "yhat", trace.yhat, (len(counted),))[counted]
    path: Matrix | None = None
    if isinstance(composite, Designed):  # it says itself which widths it can use
        found = np.asarray(u(rows, labels) if callable(u) else u)
        path = check_comparator(WHO, found, len(labels), found.shape[-1] if found.ndim else 0)
    elif not callable(u):
        path = check_comparator(WHO, u, *rows.shape)
    mine = loss.value(yhat, labels)
    best: Certificate | None = None
    refusals: list[str] = []
    stream: tuple[Any, Any] = (Z, y) if isinstance(composite, Designed) else (rows, labels)
    every = composite.leaves(*stream, path)
    chosen = _affordable(every, loss, 1 if path is None else len(moves(path)) + 1)
    for leaf in chosen:
        if path is not None and leaf.comparator is None:
            refusals.append(f"{leaf.name}: cannot express this comparator in its own coordinates")
            continue
        theirs: Comparator = u if path is None or leaf.comparator is None else leaf.comparator
        if leaf.labels is not None:
            theirs = check_comparator(WHO, theirs(leaf.Z, leaf.labels) if callable(theirs) else theirs, *leaf.Z.shape)
        try:
            own = certify(leaf.learner, leaf.Z, leaf.y, trace=leaf.trace, u=theirs, loss=loss)
        except ConditionError as error:
            refusals.append(f"{leaf.name}: {error}")
            continue
        scored = own.comparator_loss
        if leaf.labels is not None and isinstance(theirs, np.ndarray):
            scored = math.fsum(loss.value(margins(leaf.Z, theirs), leaf.labels).tolist())
        through = _certificate_through(leaf, own, mine, scored, _uncovered_loss(leaf, rows, labels, path, loss))
        if best is None or through.certified < best.certified:
            best = through
    if best is None:
        raise ConditionError(f"{WHO}: no leaf of {name} covers this comparator; {_summarise(refusals)}")
    return replace(best, leaves_left_out=len(every) - len(chosen))


def _affordable(leaves: list[Leaf], loss: Loss, stretches: int) -> list[Leaf]:
    """Return the leaves that can be certified in some `SECONDS`: all, or evenly spaced ones over the fewest columns.

    Leaves come ordered by their memory, and neighbours give similar bounds; leaving some out makes a bound looser, not
    wrong. What is left out follows from sizes alone, never from the clock.
    """
    seconds = []
    for one in leaves:
        evaluations = min(AFFORDABLE, stretches * len(one.y)) if isinstance(loss, Logistic) else 0
        own = len(one.y) * (ROUND_SECONDS + SQUARE_SECONDS * one.Z.shape[1] ** 2)
        seconds.append(own + LOSS_SECONDS * evaluations)
    if sum(seconds) <= SECONDS:
        return leaves
    least = min(seconds)
    narrow = [one for one, price in zip(leaves, seconds, strict=True) if price == least]
    most = min(len(narrow), max(2, int(SECONDS / least)))
    return [narrow[k] for k in np.round(np.linspace(0, len(narrow) - 1, most)).astype(np.int64)]


def _rounds(composite: Composite, Z: ArrayLike, y: ArrayLike, loss: Loss) -> tuple[Matrix, Vector, NDArray[np.bool_]]:
    """Return the rows comparators are for, their labels, and which of the given rows count as rounds."""
    if isinstance(composite, Designed):
        rows, labels = composite.design(Z, y)[:2]
        return rows, labels, ~np.isnan(np.asarray(y, dtype=np.float64))
    rows = np.asarray(Z, dtype=np.float64)
    _, labels = check_stream(WHO, np.zeros((len(rows), 1)), y, loss)
    return rows, labels, np.ones(len(labels), dtype=bool)


def _summarise(refusals: list[str]) -> str:
    """Return why leaves were passed over, without saying the same of dozens of them."""
    few = refusals[:3] + ([f"and {len(refusals) - 3} more"] if len(refusals) > 3 else [])
    return "; ".join(few) or "it has none"


def _uncovered_loss(leaf: Leaf, Z: Matrix, y: Vector, path: Matrix | None, loss: Loss) -> float:
    """Return the comparator's loss in rounds the leaf did not play, 0 where it is not defined there."""
    if leaf.rounds is None or path is None:
        return 0.0
    away = np.ones(len(y), dtype=bool)
    away[leaf.rounds] = False
    if not np.isfinite(Z[away]).all():
        return 0.0  # no row, no comparator: counting its loss as 0 can only enlarge the regret
    return math.fsum(loss.value(margins(Z[away], path[away]), y[away]).tolist())


def _certificate_through(leaf: Leaf, own: Certificate, mine: Vector, scored: float, uncovered: float) -> Certificate:
    """Return the leaf's certificate with the composite's measured excess over it, in the composite's units.

    `scored`: the comparator's loss on the composite's labels, where the leaf learned from others: what that changes
    for the comparator is measured too, hence part of the excess.
    """
    s = leaf.unit
    incurred = math.fsum(mine.tolist())
    apart = s * math.fsum((own.comparator_loss, -scored))
    return replace(
        own,
        certified=math.fsum((*mine.tolist(), s * own.certified, -s * own.incurred)),
        incurred=incurred,
        comparator_loss=s * scored + uncovered,
        regret=math.fsum((*mine.tolist(), -s * scored, -uncovered)),
        start=s * own.start,
        stability=s * own.stability,
        variation=s * own.variation,
        potential_drift=s * own.potential_drift,
        scale=s * own.scale + abs(incurred),
        variation_error=s * own.variation_error,
        rounding=s * own.rounding,
        excess=math.fsum((*mine.tolist(), -s * own.incurred, -uncovered, apart, s * own.excess)),
        leaf=f"{leaf.name}/{own.leaf}" if own.leaf else leaf.name,
    )

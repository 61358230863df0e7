r"""Leaves that know the comparator: they make a certificate tight, and prove something about the run, not the learner.

A composite's loss is at most its measured excess over a leaf plus what the leaf can have lost, whatever the leaf is. A
leaf that starts afresh where the comparator jumps pays nothing for the jump; one that drifts pays for steps alone.

What no comparator of a kind can have lost less than follows from convexity: a loss lies above its tangents. With the
slopes of the losses at any reference path $\bar u$, $G_t=f_t'(\bar u_t\cdot z_t)z_t$, every path u has

$$\sum_tf_t(u_t)\ge\sum_t\big(f_t(\bar u_t)-G_t\cdot\bar u_t\big)+\sum_tG_t\cdot u_t,$$

and the last sum, plus what the path pays for its start and its steps, has a least value in closed form. A leaf that
predicts with $\bar u$ therefore keeps a promise to all paths, which is tight if $\bar u$ is the best of them. Key
`hindsight`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.errors import ConditionError
from undrift.learners.drift import DriftVAW
from undrift.losses import Loss, Squared, logistic, squared
from undrift.regret._input import check_stream, margins, moves
from undrift.regret.comparators._solve import Limits, Minimum, find_minimum
from undrift.regret.comparators.smooth import smooth
from undrift.regret.composite import ReferenceLearners
from undrift.template import Designed, Leaf, Template
from undrift.trace import Trace

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


SUMMATION = 64.0 * float(np.finfo(np.float64).eps)
"""Roundings of a sum over rounds, as a share of the sum of its terms' sizes."""

LEAST_MARGIN = 1e-9
"""A comparator whose predictions are all nearer to 0 is bounded through the predictor 0."""


def stretches_leaf(Z: Matrix, y: Vector, u: Matrix, loss: Loss, reg: float) -> Leaf:
    r"""Return the best predictor of each stretch in which the comparator u stands still, as a leaf for u.

    The promise, for all comparators that stand still there and predict, on all rows, no further than u does: a stretch
    with its best predictor $\bar u$ and the sum G of its slopes has
    $\sum f_t(v)+\frac\lambda2|v|^2\ge\sum f_t(\bar u)-G\cdot\bar u-m\sum_i\mu_i-\frac1{2\lambda}|G+\sum_i\mu_iz_i|^2$
    for forces $\mu\ge0$ on rows whose margin m holds $\bar u$ back. `reg` is $\lambda$.
    """
    edges = [0, *(moves(u) + 1).tolist(), len(u)] if len(u) else [0]
    margin = math.inf if isinstance(loss, Squared) else max((_widest(Z, u[a]) for a in edges[:-1]), default=0.0)
    limits, pull = Limits(math.inf, margin), math.sqrt(reg) * np.eye(Z.shape[1])
    yhat, stability, potential = (np.zeros(len(y)) for _ in range(3))
    held = False
    for a, b in pairwise(edges):
        if margin < LEAST_MARGIN:
            best = _stay_at_zero(Z[a:b], y[a:b], loss)
        else:
            best = find_minimum(Z[a:b], y[a:b], loss, limits, Z, pull=pull)
        yhat[a:b] = Z[a:b] @ best.u
        slopes = Z[a:b] * loss.slope(yhat[a:b], y[a:b])[:, None]
        left = _length(slopes.sum(axis=0) + best.force @ best.rows, slopes)
        stability[a:b] = slopes @ best.u
        stability[a] += margin * float(best.force.sum()) if len(best.force) else 0.0
        stability[a] += 0.5 * left * left / reg
        potential[a] = reg
        held = held or bool(len(best.force))
    limit = margin * (1.0 + 1e-12) if held else math.inf
    template = Template(1.0, movement=math.inf, loss=loss, limit=limit)
    return Leaf(f"best of each stretch(reg={reg:g})", template, Z, y, Trace(yhat, stability, potential), u)


def _stay_at_zero(Z: Matrix, y: Vector, loss: Loss) -> Minimum:
    """Return the predictor 0, held by forces that balance the slope of every loss: exact at margin 0."""
    slope = loss.slope(np.zeros(len(y)), y)
    return Minimum(np.zeros(Z.shape[1]), -np.sign(slope)[:, None] * Z, np.abs(slope))


def path_leaf(Z: Matrix, y: Vector, u: Matrix, loss: Loss, around: Matrix | None = None) -> Leaf:
    r"""Return a reference path as a leaf, with the prices of start and movement that suit u best.

    `around` is the reference path, $\bar u$; None: u itself.

    With the sums of slopes still to come, $S_t=\sum_{s\ge t}G_s$, every path v has
    $\sum G_t\cdot v_t+\frac\lambda2|v_1|^2+\tau\sum|v_{t+1}-v_t|^2$
    $\ge-\frac1{2\lambda}|S_1|^2-\frac1{4\tau}\sum_{t>1}|S_t|^2$. The bound for u itself is smallest with
    $\lambda=|S_1|/|u_1|$ and $\tau^2=\sum_{t>1}|S_t|^2/(4\sum|u_{t+1}-u_t|^2)$; where u minimises its losses plus a
    price on its movement, the promise is an equality there.
    """
    reference = u if around is None else around
    predicted = margins(Z, reference)
    slopes = Z * loss.slope(predicted, y)[:, None]
    to_come = np.cumsum(slopes[::-1], axis=0)[::-1]
    sizes = np.abs(slopes).sum(axis=1)
    left = np.linalg.norm(to_come, axis=1) + SUMMATION * math.sqrt(len(y)) * np.cumsum(sizes[::-1])[::-1]
    steps = np.einsum("td,td->t", np.diff(u, axis=0), np.diff(u, axis=0))
    tau = _balance(0.25 * float(left[1:] @ left[1:]), float(steps.sum()))
    reg = _balance(0.5 * float(left[0] ** 2), 0.5 * float(u[0] @ u[0])) if len(y) else 1.0
    price = np.append(0.5 * left[:1] ** 2 / reg, 0.25 * left[1:] ** 2 / tau)
    potential = np.zeros(len(y))
    potential[:1] = reg
    stability = np.einsum("td,td->t", slopes, reference) + price
    name = f"{'path of its own' if around is None else 'smooth path'}(tau={tau:.3g}, reg={reg:.3g})"
    return Leaf(name, Template(1.0, movement=tau, loss=loss), Z, y, Trace(predicted, stability, potential), u)


def _balance(a: float, b: float) -> float:
    """Return the x > 0 that makes a / x + b x smallest, kept away from 0 and infinity."""
    return min(max(math.sqrt(a / b) if b > 0.0 else 1e12, 1e-12), 1e12)


def _widest(Z: Matrix, u: Vector) -> float:
    return float(np.abs(Z @ u).max(initial=0.0))


def _length(total: Vector, terms: Matrix) -> float:
    """Return the length of a sum over rounds, at most: its rounding included."""
    return float(np.linalg.norm(total)) + SUMMATION * math.sqrt(len(terms)) * float(np.abs(terms).sum())

r"""Certificates of several classes: what softmax regression can have lost, whatever the comparator did.

A learner keeps of each loss $\hat f_s(u)=f_s+g_s\cdot(a-b_s)+\frac k2|a-b_s|^2_{H(b_s)}$, with $a=uz_s$ and $b_s$ the
logits it played; copies of a row beyond the first are expanded elsewhere (`expansion_points`). With
$\hat F_t=\frac{w_t}2|u|^2+\sum_{s\le t}\beta^{t-s}\hat f_s$ it has lost at most
$$\sum_tf_t(b_t)\le\sum_tL_t+(1-\beta)\sum_t\hat F_t(u_t)+\beta\hat F_T(u_T).$$
Comparators are charged by the $\hat f_s$, so that this holds for all of them; where their logits are at most $BR$ in
size, $\hat f_s\le f_s$. Keys `softmax`, `d2d`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.errors import ConditionError, InputError
from undrift.learners import DiscountedSoftmax
from undrift.learners.class_learner import ClassLearner
from undrift.learners.row_context import ORDINARY, RowContext
from undrift.losses import log_softmax, softmax
from undrift.regret._input import WHO, add_exactly, add_sizes, check_same_learner, check_whole
from undrift.regret.d2d import Certificate
from undrift.trace import Trace

ROUNDING = 64.0 * float(np.finfo(np.float64).eps)
"""Share of the sizes that are added up that rounding may have taken away from a comparator's charge."""
STATE_ROUNDING = 1e-7
"""Share of a round's price that the rounding of its covariance may have taken away."""


def certify_classes(
    learner: ClassLearner, Z: ArrayLike, y: ArrayLike, trace: Trace, u: object, context: RowContext = ORDINARY
) -> Certificate:
    """Return the certificate of a run of a learner of several classes; comparators are (K, d) or (T, K, d).

    An ensemble is certified through its best member: what the ensemble lost more than that one is measured. Losses
    count by the weights of `context`.
    """
    rows = _check.rows(WHO, Z)
    labels = learner._labels(y, len(rows))
    check_whole(trace, len(labels))
    check_same_learner(type(learner).__name__, learner.parameters, trace)
    if trace.delay:
        raise ConditionError(f"{WHO}: certificates of several classes are for labels that came at once; got a delay")
    path = _comparators(u, rows, labels, learner.outputs)
    incurred = context.weights(len(labels)) * softmax.value(trace.yhat, labels)
    members: list[ClassLearner] = getattr(learner, "prototypes", [learner])
    able = [one for one in members if isinstance(one, DiscountedSoftmax)]
    found = [_through(one, rows, labels, path, incurred, context) for one in able]
    if not found:
        raise ConditionError(
            f"{WHO}: {type(learner).__name__} makes no promise against softmax regression; DiscountedSoftmax does"
        )
    return min(found, key=lambda one: one.certified)


def _through(
    learner: DiscountedSoftmax, Z: Matrix, y: Vector, u: Matrix, incurred: Vector, context: RowContext
) -> Certificate:
    """Return the certificate of losses that were incurred through a learner that plays the rows afresh."""
    fresh, weight, elapsed = learner.clone(), context.weights(len(y)), context.times(len(y))
    trace = fresh.play(Z, y, weight=weight, elapsed=elapsed)
    if fresh.resets:
        raise ConditionError(
            f"{WHO}: {type(learner).__name__} started afresh {fresh.resets} times, as some rows are too far from all "
            "before them; rescale the rows"
        )
    assert trace.stability is not None
    assert trace.potential is not None
    own = weight * softmax.value(trace.yhat, y)
    theirs = weight * softmax.value(np.einsum("tkd,td->tk", u, Z), y)
    flat = np.einsum("tkd,tkd->t", u - u.mean(axis=1, keepdims=True), u - u.mean(axis=1, keepdims=True))
    ridge = 0.5 * trace.potential * flat
    betas = fresh._discounts(elapsed)
    kept = [_Expansion(trace.yhat, np.minimum(weight, 1.0))]
    if (weight > 1.0).any():
        points = learner.expansion_points(Z, y, context)
        kept.append(_Expansion(points, np.maximum(weight - 1.0, 0.0)))
    charged, sizes = _charges(Z, y, u, kept, learner.curvature, betas)
    price = trace.stability + STATE_ROUNDING * np.abs(trace.stability)
    share = np.append(np.where(elapsed == 1.0, learner.discount.one_minus_beta, 1.0 - betas)[1:], 1.0)[: len(y)]
    rounding = add_exactly(share * ROUNDING * sizes)
    excess = add_exactly(incurred, -own)
    terms = (price, share * ridge, share * charged, np.array([rounding, excess]))
    certified, compared = add_exactly(*terms), add_exactly(theirs)
    start, spent = add_exactly(ridge[:1]), add_exactly(price)
    drift = add_exactly(0.5 * (trace.potential[1:] - betas[1:] * trace.potential[:-1]) * flat[1:]) + rounding
    return Certificate(
        certified=certified,
        incurred=add_exactly(incurred),
        comparator_loss=compared,
        regret=add_exactly(incurred, -theirs),
        start=start,
        stability=spent,
        variation=math.fsum([certified, -spent, -compared, -start, -drift, -excess]),
        potential_drift=drift,
        scale=add_sizes(*terms, incurred),
        rounding=rounding,
        excess=excess,
        leaf=repr(learner) if excess else "",
    )


class _Expansion(NamedTuple):
    """Where a learner expands losses into quadratics, and how often each of these counts."""

    logits: Matrix
    """b (T, K)."""
    weight: Vector
    """(T,)."""


def _charges(
    Z: Matrix, y: Vector, u: Matrix, kept: list[_Expansion], curvature: float, betas: Vector
) -> tuple[Vector, Vector]:
    """Return what the quadratics up to each round say about its comparator, discounted, and the sizes added up.

    Rounds between two moves of the comparator are evaluated together: O(T K d) for each move.
    """
    charged, sizes = np.zeros(len(y)), np.zeros(len(y))
    cuts = np.flatnonzero((u[1:] != u[:-1]).any(axis=(1, 2))) + 1
    edges = [0, *cuts.tolist(), len(y)]
    older = np.concatenate(([0.0], np.cumsum(-np.log(betas))))  # how old the first round is at each
    for begin, end in pairwise(edges):
        if begin == end:
            continue
        value, size = np.zeros(end), np.zeros(end)
        for b, weight in kept:
            p, slope, loss = (
                np.exp(log_softmax(b[:end])),
                softmax.slope(b[:end], y[:end]),
                softmax.value(b[:end], y[:end]),
            )
            off = Z[:end] @ u[begin].T - b[:end]
            line, mean = np.einsum("tk,tk->t", slope, off), np.einsum("tk,tk->t", p, off)
            bend = 0.5 * curvature * np.einsum("tk,tk->t", p, (off - mean[:, None]) ** 2)
            value += weight[:end] * (loss + line + bend)
            size += weight[:end] * (loss + np.abs(line) + np.abs(mean) + bend)
        ages = np.exp(older[1 : begin + 1] - older[begin])
        sums = np.array([ages @ value[:begin], ages @ size[:begin]])
        for t in range(begin, end):
            sums = betas[t] * sums + (value[t], size[t])
            charged[t], sizes[t] = sums
    return charged, sizes


def _comparators(u: object, Z: Matrix, y: Vector, classes: int) -> Matrix:
    """Return comparators (T, K, d) from one matrix, from one a round, or from a function of rows and labels."""
    given = np.asarray(u(Z, y) if callable(u) else u, dtype=np.float64)
    if given.ndim == 2:
        given = np.broadcast_to(given, (len(y), *given.shape))
    if given.shape != (len(y), classes, Z.shape[1]) or not np.isfinite(given).all():
        raise InputError(
            f"{WHO}: u must be one comparator ({classes}, {Z.shape[1]}) or one a round ({len(y)}, {classes}, "
            f"{Z.shape[1]}), finite, got an array of shape {given.shape}"
        )
    return given

"""`certify`: the measured dynamic regret of a run, and the bound that no run of that learner can exceed.

No library has it: the theorem is the paper's, and what a run's rounding, restarts and raised pivots add to the bound is
known only from this package's own learners, which are played again.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from undrift._typing import Matrix, Rounds, Vector
from undrift.errors import ConditionError, InputError
from undrift.learners.base import Learner
from undrift.learners.class_learner import ClassLearner
from undrift.learners.row_context import RowContext, check_context
from undrift.losses import Loss, logistic, squared
from undrift.regret._input import (
    WHO,
    add_exactly,
    add_sizes,
    check_columns,
    check_comparator,
    check_same_learner,
    check_same_run,
    check_stream,
    check_whole,
    margins,
    moves,
)
from undrift.regret.class_certificate import certify_classes
from undrift.regret.composite import Comparator, ReferenceLearners, certify_composite
from undrift.regret.d2d import ROUNDING, Certificate, add_certificates, d2d_terms
from undrift.regret.restarted import Restarted
from undrift.template import Certifiable, Composite, Template
from undrift.trace import Trace

GROUP, PARTS, FEW = 4096, 8, 16
"""Comparators in a row that are looked at together; into how many groups they are split; how few are not."""


def certify(
    learner: object,
    Z: ArrayLike,
    y: ArrayLike,
    trace: Trace | None = None,
    u: Comparator | None = None,
    loss: Loss | None = None,
    *,
    weight: ArrayLike | None = None,
    elapsed: ArrayLike | None = None,
) -> Certificate:
    r"""Measure the dynamic regret of a run against comparators and bound it, term by term.

    Parameters
    ----------
    learner
        The learner that played, or a fresh one with the same parameters: it is played again from its first round, so
        that raised pivots are counted. Or a `Template`, or any object with a `template(Z, y)` method: a learner of
        your own. Or a composite (an ensemble, an online estimator, an object with `leaves`): the bound goes through its
        best leaf, which is named. Or a `Restarted`: its stretches are certified one by one.
    Z, y
        The rows (T, d) and labels (T,) of the whole run; for online estimators whatever they played.
    trace
        What `play` returned for them, from the first round. If labels were learned late (`delay`), the bound is what
        the served predictions lost beyond the same learner (of a composite: its best leaf) that was never late, plus
        the bound of that one.
    u
        Comparators (T, d), or one (d,), or a function of (Z, y) that returns them; composites call it with the rows as
        each leaf saw them. Online estimators: in the coordinates of `model.design(Z, y).rows`. Learners of several
        classes: (K, d), or (T, K, d).
    loss
        `undrift.losses.squared` or `logistic`; None: the loss of the learner's promise.
    weight, elapsed
        As they were given to `play`, for single learners, restarted or not, and ensembles of classes: losses count by
        weight, the comparator's too. Other composites, and labels that came late, are certified without them only.

    Returns
    -------
    Certificate
        `certified`, what the learner can have lost at most; `regret` and its `bound`, `slack`, `ratio`, `holds`; the
        bound's terms `start`, `stability`, `variation`, `potential_drift`.

    Raises
    ------
    ConditionError
        An assumption of the promise fails on these data: labels outside the set, $|u_t\cdot z_s|>BR$ for some $s\le t$.
    InputError
        Shapes that do not match, a comparator with NaN, a trace of another learner or of another stretch of rounds.

    Notes
    -----
    Key `d2d`. O(T d^2) for squared loss; for logistic loss T evaluations for each move of the comparator, or,
    when most rounds have one, O(T^1.5) in all.

    Examples
    --------
    >>> from undrift.learners import DiscountedVAW
    >>> Z, y = np.ones((6, 1)), np.array([1.0, 1.2, 0.8, 3.0, 3.1, 2.9])
    >>> c = certify(DiscountedVAW(beta=0.5), Z, y, u=np.repeat([[1.0], [3.0]], 3, axis=0))
    >>> round(c.regret, 3), round(c.bound, 3), c.holds
    (7.847, 8.582, True)
    """
    if u is None:
        raise InputError(f"{WHO}: give u, the comparators, or a function that finds them such as comparators.fixed")
    if trace is None:
        if not isinstance(learner, (Learner, Restarted)):
            raise InputError(f"{WHO}: give trace, what play returned; {type(learner).__name__} cannot be played again")
        fresh = learner.clone() if isinstance(learner, Learner) else learner
        trace = fresh.play(Z, y, weight=weight, elapsed=elapsed)
    context = check_context(WHO, len(trace), weight=weight, elapsed=elapsed)
    if isinstance(learner, Restarted):
        return _certify_stretches(learner, Z, y, trace, u, loss, context)
    if isinstance(learner, ClassLearner):
        return certify_classes(learner, Z, y, trace, u, context)
    if not context.ordinary and (isinstance(learner, Composite) or trace.delay or not isinstance(learner, Learner)):
        raise ConditionError(
            f"{WHO}: certificates with weight or elapsed are for single learners whose labels came at once; certify a "
            "member by itself, or leave them out"
        )
    if isinstance(learner, Learner) and not isinstance(learner, Composite) and trace.delay:
        check_same_learner(type(learner).__name__, learner.parameters, trace)
        learner = ReferenceLearners([learner])  # the same learner, had every label come at once
    if isinstance(learner, Composite):
        stated = getattr(learner, "loss", None)
        own = stated if isinstance(stated, Loss) else logistic if getattr(learner, "binary", False) else squared
        return certify_composite(learner, Z, y, trace, u, own if loss is None else loss, certify)
    stated = getattr(learner, "loss", None)
    wanted = loss or (stated if isinstance(stated, Loss) else squared)
    rows, labels = _check_labels(Z, y, wanted)
    check_whole(trace, len(labels))
    if isinstance(learner, Learner):
        check_same_learner(type(learner).__name__, learner.parameters, trace)
        _check_loss(f"the promise of {type(learner).__name__}", learner.loss, wanted)
    template = _template(learner, rows, labels, context)
    _check_loss("the promise", template.loss, wanted)
    yhat, stability, potential = check_columns(trace, template.discount)
    check_same_run(template, trace, rows, labels)
    path = check_comparator(WHO, u(rows, labels) if callable(u) else u, *rows.shape)
    if math.isfinite(template.limit):
        starts = None if template.betas is None else np.flatnonzero(template.betas == 0.0)
        check_margins(rows, path, template.limit, starts)
    size = float(np.sqrt(np.einsum("td,td->t", path, path).max(initial=0.0)))
    if size > template.bound * (1.0 + 1e-12):
        raise ConditionError(
            f"{WHO}: the promise covers comparators with |u| <= {template.bound:g}, one has {size:g}; bound them"
        )
    if template.restart_cost is not None:
        stability = stability + template.restart_cost
    try:
        with np.errstate(over="raise", invalid="raise"):
            terms = d2d_terms if template.movement is None else path_terms
            return terms(rows, labels, path, yhat, stability, potential, template, wanted)
    except (FloatingPointError, OverflowError):
        raise ConditionError(
            f"{WHO}: losses of this comparator leave float64's range; rescale rows and labels"
        ) from None


def _certify_stretches(
    restarted: Restarted,
    Z: ArrayLike,
    y: ArrayLike,
    trace: Trace,
    u: Comparator,
    loss: Loss | None,
    context: RowContext,
) -> Certificate:
    """Return the sum of the certificates of the stretches, each a run of a fresh learner by itself."""
    rows, labels = _check_labels(Z, y, loss or restarted.loss)
    check_whole(trace, len(labels))
    path = check_comparator(WHO, u(rows, labels) if callable(u) else u, *rows.shape)
    parts = []
    for part in restarted.stretches(len(labels)):
        own, given = restarted.cut_trace(trace, part), context.between(part.start, part.stop)
        stretch = restarted.learner, rows[part], labels[part], own, path[part], loss
        parts.append(certify(*stretch, weight=given.weight, elapsed=given.elapsed))
    return add_certificates(parts)


def _check_labels(Z: ArrayLike, y: ArrayLike, loss: Loss) -> tuple[Matrix, Vector]:
    """Return checked rows and labels; labels outside the loss's set are a failed assumption, not a typing slip."""
    try:
        return check_stream(WHO, Z, y, loss)
    except InputError as error:
        if "binary label" in str(error):
            raise ConditionError(str(error)) from None
        raise


def _check_loss(what: str, promised: Loss | None, wanted: Loss) -> None:
    """Refuse to hold a promise about one loss against another."""
    if promised is not None and promised.name != wanted.name:
        raise ConditionError(f"{WHO}: {what} is for {promised.name} loss, not for {wanted.name}")


def _template(learner: object, Z: Matrix, y: Vector, context: RowContext) -> Template:
    """Return the promise that covers the run."""
    if isinstance(learner, Template):
        return learner
    if isinstance(learner, Learner) and not context.ordinary:
        return learner.template(Z, y, context)
    if isinstance(learner, Certifiable):
        return learner.template(Z, y)
    raise ConditionError(
        f"{WHO}: {type(learner).__name__} makes no promise; pass a learner with a guarantee, a Template, or an object "
        "with template(Z, y)"
    )


def path_terms(
    Z: Matrix, y: Vector, u: Matrix, yhat: Vector, stability: Vector, potential: Vector, template: Template, loss: Loss
) -> Certificate:
    r"""Return the certificate of a learner that follows a path: the comparator pays for its start and every step.

    $$\sum_tf_t(x_t)\le\sum_tf_t(u_t)+\sum_tL_t+\sum_t\frac{w_t}2|u_t|^2+\tau\sum_t|u_{t+1}-u_t|^2,$$

    where $w_t>0$ in rounds in which the learner began or started afresh; movement into such a round is free. Key
    `drift`. The input was checked: arrays of T rounds, the comparator one row a round. O(T d).
    """
    counts = np.ones(len(y)) if template.weights is None else template.weights
    incurred, predicted = counts * loss.value(yhat, y), margins(Z, u)
    theirs = counts * loss.value(predicted, y)
    ridge = 0.5 * potential * np.einsum("td,td->t", u, u)
    steps = np.diff(u, axis=0)
    price = math.inf if template.movement is None else template.movement
    squares = np.einsum("td,td->t", steps, steps) * (potential[1:] == 0.0)
    moved = np.multiply(price, squares, out=np.zeros_like(squares), where=squares > 0.0)  # no step costs nothing
    off = Z.shape[1] * ROUNDING * np.einsum("td,td->t", np.abs(Z), np.abs(u))  # rounding of u.z itself
    rounding = add_exactly(counts * (np.abs(loss.slope(predicted, y)) * off + 0.5 * off * off))
    if template.least_cost is not None:  # what rounding in the learner's state took from the prices of the rounds
        rounding += max(0.0, add_exactly(incurred, -stability, np.array([-template.least_cost])))
    terms = (stability, theirs, ridge, moved, np.array([rounding]))
    return Certificate(
        certified=add_exactly(*terms),
        incurred=add_exactly(incurred),
        comparator_loss=add_exactly(theirs),
        regret=add_exactly(incurred, -theirs),
        start=add_exactly(ridge[:1]),
        stability=add_exactly(stability),
        variation=add_exactly(moved),
        potential_drift=add_exactly(ridge[1:], np.array([rounding])),
        scale=add_sizes(*terms, incurred),
        rounding=rounding,
    )


def check_margins(Z: Matrix, u: Matrix, limit: float, starts: Rounds | None = None) -> None:
    """Refuse comparators with |u_t.z_s| > limit for some s <= t: the surrogate losses do not cover them.

    Neighbouring comparators are near each other, so many of them are first ruled out together, by their mean and their
    distance from it; what that leaves open is asked again of fewer comparators, on the rows where it was open. After
    each fresh start, at the rounds `starts`, the rows before it no longer matter.
    """
    length = np.linalg.norm(Z, axis=1)
    ends = np.append(moves(u), len(u) - 1) if len(u) else np.zeros(0, dtype=np.int64)
    begins = [0, len(u)] if starts is None else [0, *starts[starts > 0].tolist(), len(u)]
    for a, b in pairwise(begins):
        some = np.unique(np.append(ends[(ends >= a) & (ends < b)], b - 1)) if b > a else ends[:0]
        for k in range(0, len(some), GROUP):
            _look(Z, u, length, some[k : k + GROUP], np.arange(a, b), limit)


def _look(Z: Matrix, u: Matrix, length: Vector, some: Rounds, rows: Rounds, limit: float) -> None:
    """Look at comparators of the rounds `some` on some of the rows."""
    points, most = u[some], limit * (1.0 + 1e-12)
    mean = points.mean(axis=0)
    far = float(np.linalg.norm(points - mean, axis=1).max()) * (1.0 + 1e-9)
    rows = rows[: np.searchsorted(rows, some[-1], side="right")]
    rows = rows[np.abs(Z[rows] @ mean) + far * length[rows] > most * (1.0 - 1e-9)]
    if not len(rows):
        return
    if len(some) > FEW:
        for part in np.array_split(some, PARTS):
            _look(Z, u, length, part, rows, limit)
        return
    seen = np.abs(points @ Z[rows].T)
    seen[rows[None, :] > some[:, None]] = 0.0
    if seen.max() > most:
        i, s = divmod(int(np.argmax(seen)), len(rows))
        raise ConditionError(
            f"certify: the promise covers comparators with |u.z| <= BR = {limit:g}, the one of round {some[i]} has "
            f"{seen[i, s]:g} on row {rows[s]}; bound the comparator (margin={limit:g}) or give the learner a larger "
            "bound"
        )

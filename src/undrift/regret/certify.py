"""`certify`: the measured dynamic regret of a run, and the bound that no run of that learner can exceed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from undrift._typing import Matrix, Vector
from undrift.errors import ConditionError, InputError
from undrift.learners.aioli import DiscountedAIOLI
from undrift.learners.information import InformationLearner
from undrift.learners.mean import DiscountedMean
from undrift.learners.vaw import DiscountedVAW
from undrift.learners.zero import Zero
from undrift.losses import Loss, logistic, squared
from undrift.regret._input import comparator, table
from undrift.regret.composite import certify_composite
from undrift.regret.covered import covered
from undrift.regret.d2d import Certificate, d2d_terms
from undrift.regret.matching import same_learner, same_run
from undrift.regret.quadratic import none
from undrift.regret.replay import Replay, replay
from undrift.regret.template import Certifiable, Composite, Template, checked_trace
from undrift.trace import Trace

Comparator = ArrayLike | Callable[[Matrix, Vector], ArrayLike]
"""Comparators (T, d) or one (d,); or a function of rows and labels that returns them, such as `comparators.fixed`."""
WHO = "certify"


def certify(
    learner: object, Z: ArrayLike, y: ArrayLike, trace: Trace, u: Comparator, loss: Loss | None = None
) -> Certificate:
    r"""Measure the dynamic regret of a run against comparators and bound it, term by term.

    Parameters
    ----------
    learner
        The learner that played, or a fresh one with the same parameters: it is played again from its first round, so
        that raised pivots are counted. Or a `Template`, or any object with a `template(Z, y)` method: a learner of
        your own. Or a composite (an ensemble with `members`, an online estimator, an object with `leaves`): the bound
        goes through its best leaf, which is named.
    Z, y
        The rows (T, d) and labels (T,) of the whole run; for online estimators whatever they played.
    trace
        What `play` returned for them, from the first round.
    u
        Comparators (T, d), or one (d,), or a function of (Z, y) that returns them; composites call it with the rows as
        each leaf saw them. Online estimators: in the coordinates of `model.design(Z, y).rows`.
    loss
        `undrift.losses.squared` or `logistic`; None: the loss of the learner's promise.

    Returns
    -------
    Certificate
        `regret`, the terms `start`, `stability`, `variation`, `potential_drift`, their sum `bound`, `slack`, `ratio`.

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
    >>> trace = DiscountedVAW(beta=0.5).play(Z, y)
    >>> c = certify(DiscountedVAW(beta=0.5), Z, y, trace, np.repeat([[1.0], [3.0]], 3, axis=0))
    >>> round(c.regret, 3), round(c.bound, 3), c.holds
    (7.847, 10.148, True)
    """
    if isinstance(learner, Composite) or isinstance(getattr(learner, "members", None), list):
        own = logistic if getattr(learner, "binary", False) else squared
        return certify_composite(learner, Z, y, trace, u, own if loss is None else loss, certify)
    wanted = loss or _own_loss(learner) or squared
    Z, y = _stream(learner, Z, y, wanted)
    template, again = _template(learner, Z, y, wanted, trace)
    if template.loss is not None and loss is not None and template.loss.name != loss.name:
        raise ConditionError(f"{WHO}: the promise is for {template.loss.name} loss, not for {loss.name}")
    yhat, stability, potential = checked_trace(WHO, trace, len(y), template.discount)
    if again is not None:
        same_run(learner, yhat, stability, again, Z, y)
    path = comparator(WHO, u(Z, y) if callable(u) else u, *Z.shape)
    if math.isfinite(template.limit):
        covered(Z, path, template.limit)
    extra = 0.0 if template.lost is None else template.lost
    try:
        with np.errstate(over="raise", invalid="raise"):
            return d2d_terms(Z, y, path, yhat, stability + extra, potential, template.discount, wanted, template.floors)
    except (FloatingPointError, OverflowError):
        raise ConditionError(
            f"{WHO}: losses of this comparator leave float64's range; rescale rows and labels"
        ) from None


def _own_loss(learner: object) -> Loss | None:
    """Return the loss a learner of ours is for."""
    if isinstance(learner, Template):
        return learner.loss
    if isinstance(learner, (DiscountedVAW, DiscountedMean)):
        return squared
    if isinstance(learner, Zero):
        return logistic if learner.binary else squared
    return logistic if isinstance(learner, DiscountedAIOLI) else None


def _stream(learner: object, Z: ArrayLike, y: ArrayLike, loss: Loss) -> tuple[Matrix, Vector]:
    """Return checked rows and labels; labels outside the loss's set are a failed assumption, not a typing slip."""
    try:
        return table(WHO, Z, y, loss)
    except InputError as error:
        if "binary label" in str(error):
            raise ConditionError(str(error)) from None
        raise


def _template(learner: object, Z: Matrix, y: Vector, loss: Loss, trace: Trace) -> tuple[Template, Replay | None]:
    """Return the promise that covers the run, and the run played again where that was needed."""
    if isinstance(learner, Template):
        return learner, None
    name = type(learner).__name__
    if isinstance(learner, (DiscountedVAW, DiscountedAIOLI, DiscountedMean, Zero)):
        same_learner(name, learner.parameters, trace)
        own = _own_loss(learner)
        if own is None or own.name != loss.name:
            raise ConditionError(
                f"{WHO}: the promise of {name} is for {own.name if own else 'no'} loss, not {loss.name}"
            )
    if isinstance(learner, (DiscountedMean, Zero)):
        plain = Replay(learner.clone().play(Z, y), none(Z.shape[1]), None)
    if isinstance(learner, InformationLearner):
        if len(trace) != len(y) or trace.first:
            checked_trace(WHO, trace, len(y), learner.discount)  # say so before a long replay
        again = replay(learner, Z, y, loss)
        limit = learner.reach if isinstance(learner, DiscountedAIOLI) else math.inf
        return Template(learner.discount, loss=loss, limit=limit, floors=again.floors, lost=again.lost), again
    if isinstance(learner, DiscountedMean):
        if Z.shape[1] != 1 or (Z != 1.0).any():
            raise ConditionError(f"{WHO}: DiscountedMean is certified on one constant feature; pass Z = ones (T, 1)")
        return Template(learner.discount, loss=squared), plain
    if isinstance(learner, Zero):
        return Template(learner.discount, loss=loss), plain
    if isinstance(learner, Certifiable):
        return learner.template(Z, y), None
    raise ConditionError(
        f"{WHO}: {name} makes no promise; pass a learner with a guarantee, a Template, or an object with template(Z, y)"
    )

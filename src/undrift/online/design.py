"""Rows as the linear learners inside an online estimator see them, and those learners as leaves of its certificate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check, kernels
from undrift._internal.rows import Rows
from undrift._typing import Matrix, Vector
from undrift.errors import ConditionError, InputError
from undrift.kernels.definitions import WARMUP
from undrift.learners import DiscountedAIOLI, DiscountedVAW, Learner
from undrift.online.plan import EstimatorPlan, make_plan
from undrift.regret import Leaf
from undrift.streams import Scaling, Waves

if TYPE_CHECKING:
    from undrift.online.estimator import OnlineEstimator

REFITS = (4, 32, WARMUP)
"""Labelled rows after which the scaling is fitted again to all of them; after the last it is frozen."""


class Design(NamedTuple):
    """Labelled rows in the coordinates in which comparators of an online estimator live."""

    rows: Matrix
    """A constant 1 and the scaled features, and for `family="waves"` the waves (T, d')."""
    labels: Vector
    """Labels of those rows as they were given, for two classes -1 and +1 (T,)."""
    names: list[str]
    """What each column is."""
    margin: float
    """Largest |u.z| that a learner over these rows covers: infinite for regression, BR for two classes."""


def make_design(estimator: OnlineEstimator, Z: Rows, y: ArrayLike, family: str = "linear") -> Design:
    """Return the rows of a whole run as the learners inside saw them: where comparators of `certify` live.

    A constant, then the features: holes filled, scaled by the last refit of the warm-up, clipped. Rows without a
    label are left out. `family="waves"` adds the waves (`speed="best"` only).

    Examples
    --------
    >>> import numpy as np, undrift as ud
    >>> Z, y = np.array([[1.0], [3.0], [5.0], [np.nan], [7.0]]), [2.0, 6.0, 10.0, 10.0, 14.0]
    >>> design = ud.OnlineRegressor().design(Z, y)
    >>> design.names, design.rows[:3, 1].round(2).tolist()
    (['constant', 'z0'], [-1.51, -0.3, 0.9])
    """
    X, labels, names, plan = _scaled_run(estimator, Z, y)
    choices = ("linear", "waves") if "waves" in plan.families else ("linear",)
    waves = _check.choice(estimator, "family", family, choices) == "waves"
    rows = _with_waves(X, plan) if waves else _with_constant(X)
    chosen = ["waves"] if waves else plan.linear
    members = [one for name in chosen for one in family_members(plan, name)]
    bent = [f"wave {k}" for k in range(rows.shape[1] - 1 - len(names))]
    return Design(rows, labels, ["constant", *names, *bent], reach(members))


def make_leaves(estimator: OnlineEstimator, Z: Rows, y: ArrayLike, u: Matrix | None) -> list[Leaf]:
    """Return every memory of every family as a leaf of this estimator's certificate; `u` lives in `design`.

    These are the linear families and the waves of the raw arm: rows of the others depend on more than the features.
    A leaf learns what the family learned: labels less their centre. Comparators are moved by the same centre.
    """
    X, labels, _, plan = _scaled_run(estimator, Z, y)
    designs = {"linear": _with_constant(X)} | ({"waves": _with_waves(X, plan)} if "waves" in plan.families else {})
    widths = sorted({rows.shape[1] for rows in designs.values()})
    if u is not None and u.shape[1] not in widths:
        raise ConditionError(
            f"{_check.name_of(estimator)}: comparators need one number for each of the {' or '.join(map(str, widths))} "
            f"columns of design(Z, y).rows, got {u.shape[1]}; build them on that design"
        )
    center = label_center(estimator, labels)
    out = []
    for name in (*plan.linear, *(["waves"] if "waves" in plan.families else [])):
        rows = designs["waves" if name == "waves" else "linear"]
        path = None if u is None else _widen(u, rows.shape[1])
        if path is not None:
            path = centre_comparators(path, center)
        for one in family_members(plan, name):
            trace = one.clone().play(rows, labels - center)
            out.append(Leaf(f"{name}/{one!r}", one, rows, labels - center, trace, path))
    return out


def label_center(estimator: OnlineEstimator, y: Vector) -> float:
    """Return what the families take off the labels of a whole run; 0 for two classes."""
    if estimator.binary or not len(y):
        return 0.0
    fitted = max((count for count in REFITS if count <= len(y)), default=1)
    low, high = np.partition(y[:fitted], (first := (fitted - 1) // 2, fitted // 2))[[first, fitted // 2]]
    center = float(low + (high - low) / 2.0)
    return center if np.all(np.abs(y - center) <= _check.LIMIT) else 0.0


def _scaled_run(estimator: OnlineEstimator, Z: Rows, y: ArrayLike) -> tuple[Matrix, Vector, list[str], EstimatorPlan]:
    """Return a whole run's labelled rows as the last refit scales them, labels, feature names, and the plan."""
    rows, names, _ = estimator._columns.read(Z, estimator.dim, learned=True)
    rows = np.ascontiguousarray(rows[:, : rows.shape[1] - estimator._columns.given])
    labels = estimator._labels(y, len(rows))
    known = ~np.isnan(labels)
    if not known.any():
        raise InputError(f"{_check.name_of(estimator)}: a design needs rows with labels, got none")
    filled = fill_holes(rows)
    if estimator.indicators:
        both = np.empty((len(rows), 2 * rows.shape[1]))
        both[:, 0::2], both[:, 1::2] = filled, np.isnan(rows)
        filled = both
    names = [f"z{j}" for j in range(rows.shape[1])] if names is None else names
    if estimator.indicators:
        names = [part for name in names for part in (name, f"{name} missing")]
    return _scale_run(filled, known), labels[known], names, make_plan(estimator._settings, rows.shape[1], rows.shape[1])


def centre_comparators(u: Matrix, center: float) -> Matrix:
    """Return comparators of a design for labels less `center`: their constant is less by it."""
    return u - center * np.eye(1, u.shape[1]) if center else u


def _scale_run(filled: Matrix, labelled: NDArray[np.bool_]) -> Matrix:
    """Return the labelled rows of a run as the last refit of the warm-up and the rows after it scale them."""
    scaling, first = Scaling(filled.shape[1]), filled[labelled]
    fitted = max((count for count in REFITS if count <= len(first)), default=0)
    if not fitted:
        return scaling.apply(filled, 1)[labelled]
    there = ~np.isnan(first[:fitted])
    scaling.fit(np.where(there, first[:fitted], 0.0), there.astype(np.float64))
    rest = int(np.flatnonzero(labelled)[fitted - 1]) + 1
    later = labelled[rest:]
    return np.concatenate(
        (scaling.apply(first[:fitted], rest - fitted + 1), scaling.apply(filled[rest:], rest + 1)[later])
    )


def _with_constant(X: Matrix) -> Matrix:
    return np.column_stack([np.ones(len(X)), X])


def _with_waves(X: Matrix, plan: EstimatorPlan) -> Matrix:
    """Return a constant, the features and their waves."""
    return np.column_stack([np.ones(len(X)), X, Waves.from_table(plan.waves).apply(X)])


def family_members(plan: EstimatorPlan, name: str) -> list[Learner]:
    """Return every answer that a family's mixer hears as a fresh learner of its own."""
    betas = [float(beta) for beta in plan.family_plans[name].betas]
    if plan.binary:
        return [DiscountedAIOLI(beta=beta, curvature=plan.family_plans[name].curvature) for beta in betas]
    return [DiscountedVAW(beta=beta, hint=hint) for hint in ("last", "ridge") for beta in betas]


def reach(members: list[Learner]) -> float:
    """Return the largest |u.z| one of the learners covers."""
    return max(one.reach if isinstance(one, DiscountedAIOLI) else math.inf for one in members)


def _widen(u: Matrix, width: int) -> Matrix | None:
    """Return comparators with zeros for columns they do not know, None when they know more than there are."""
    if u.shape[1] > width:
        return None
    return u if u.shape[1] == width else np.concatenate((u, np.zeros((len(u), width - u.shape[1]))), axis=1)


def fill_holes(Z: Matrix) -> Matrix:
    """Return the rows of a whole run, each hole filled with the last value seen before it; never seen stays NaN."""
    filled, (value, seen, missing) = np.empty_like(Z), np.zeros((3, Z.shape[1]))
    kernels.fill_rows(value, seen, missing, Z, filled)
    return filled

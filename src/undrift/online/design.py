"""Rows as the linear learners inside an online estimator see them, and those learners as leaves of its certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, _thread_lock
from undrift._typing import Matrix, Vector
from undrift.errors import ConditionError, InputError
from undrift.learners import DiscountedAIOLI, Learner
from undrift.online.core import Core, Members
from undrift.online.rows import Memory, Rows
from undrift.regret import Leaf
from undrift.streams import Scaling

REFITS = (4, 32, 256)
"""Rounds after which the scaling is fitted again to all rows so far; after the last it is frozen."""


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


class DesignedLearner(Learner):
    """The part of an online estimator that says what its linear learners see, and offers them as leaves."""

    indicators: bool

    def _core(self, dim: int) -> Core:
        raise NotImplementedError

    def _arriving(self, z: Rows) -> tuple[Matrix, list[str] | None, bool]:
        """Return rows to learn, the names of their columns, and whether there was one row only."""
        raise NotImplementedError

    def _learned(self, y: Vector) -> Vector:
        """Return the labels of a whole run as the core saw them."""
        return y

    def design(self, Z: Rows, y: ArrayLike, family: str = "linear") -> Design:
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
        X, labels, names = self._frozen(Z, y)
        core = self._core(X.shape[1])
        choices = list(dict.fromkeys("waves" if name == "waves" else "linear" for name in core.families))
        waves = _check.choice(self, "family", family, tuple(choices)) == "waves"
        rows = core.inputs(X)[-1 if waves else 0]
        members = [one for name, part in core.families.items() if (name == "waves") == waves for one in part.members()]
        bent = [f"wave {k}" for k in range(rows.shape[1] - 1 - len(names))]
        return Design(rows, labels, ["constant", *names, *bent], reach(members))

    def leaves(self, Z: Rows, y: ArrayLike, u: Matrix | None) -> list[Leaf]:
        """Return every memory of every family as a leaf of this estimator's certificate; `u` lives in `design`."""
        X, labels, _ = self._frozen(Z, y)
        core = self._core(X.shape[1])
        return leaves(_check.name_of(self), core.families, core.inputs(X), self._learned(labels), labels, u)

    @_thread_lock.hold_shared
    def _frozen(self, Z: Rows, y: ArrayLike) -> tuple[Matrix, Vector, list[str]]:
        """Return the labelled rows of a whole run in the coordinates of the last refit, labels and feature names."""
        rows, names, _ = self._arriving(Z)
        labels = self._labels(y, len(rows))
        known = ~np.isnan(labels)
        if not known.any():
            raise InputError(f"{_check.name_of(self)}: a design needs rows with labels, got none")
        filled = self._with_indicators(rows, Memory(rows.shape[1]).fill(rows))[known]
        X = scaled(filled, max((count for count in REFITS if count <= len(filled)), default=0))
        names = [f"z{j}" for j in range(rows.shape[1])] if names is None else names
        if self.indicators:
            names = [part for name in names for part in (name, f"{name} missing")]
        return X, labels[known], names

    def _with_indicators(self, Z: Matrix, filled: Matrix) -> Matrix:
        """Append 1 where a number was missing; pairs (value, indicator) stay together when features are added."""
        if not self.indicators:
            return filled
        out = np.empty((len(Z), 2 * Z.shape[1]))
        out[:, 0::2], out[:, 1::2] = filled, np.isnan(Z)
        return out


def scaled(filled: Matrix, fitted: int) -> Matrix:
    """Return labelled rows scaled as by an estimator that took its scaling from the first `fitted` of them."""
    scaling = Scaling(filled.shape[1])
    if fitted:
        known = ~np.isnan(filled[:fitted])
        scaling.fit(np.where(known, filled[:fitted], 0.0), known.astype(np.float64))
    return scaling.apply(filled, 0)


def reach(members: list[Learner]) -> float:
    """Return the largest |u.z| one of the learners covers."""
    return max(one.reach if isinstance(one, DiscountedAIOLI) else math.inf for one in members)


def leaves(
    who: str, families: Mapping[str, Members], inputs: list[Matrix], learned: Vector, labels: Vector, u: Matrix | None
) -> list[Leaf]:
    """Return every memory of every family as a leaf; comparators over fewer columns ignore the others."""
    widths = sorted({rows.shape[1] for rows in inputs})
    if u is not None and u.shape[1] not in widths:
        raise ConditionError(
            f"{who}: comparators need one number for each of the {' or '.join(map(str, widths))} columns of "
            f"design(Z, y).rows, got {u.shape[1]}; build them on that design"
        )
    cut = None if np.array_equal(learned, labels) else labels
    out = []
    for (name, family), rows in zip(families.items(), inputs, strict=True):
        path = None if u is None else _widened(u, rows.shape[1])
        for one in family.members():
            trace = one.clone().play(rows, learned)
            out.append(Leaf(f"{name}/{one!r}", one, rows, learned, trace, path, labels=cut))
    return out


def _widened(u: Matrix, width: int) -> Matrix | None:
    """Return comparators with zeros for columns they do not know, None when they know more than there are."""
    if u.shape[1] > width:
        return None
    return u if u.shape[1] == width else np.concatenate((u, np.zeros((len(u), width - u.shape[1]))), axis=1)

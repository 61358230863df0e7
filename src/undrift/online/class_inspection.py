"""ClassInspection: what a classifier of several classes tells about itself."""

from __future__ import annotations

import numpy as np

from undrift import _check, _thread_lock
from undrift._typing import Vector
from undrift.errors import InputError
from undrift.online.any_labels import AnyLabels
from undrift.online.inspection import Groups
from undrift.online.memories import Line, Spectrum
from undrift.online.rows import Rows
from undrift.online.several_classes import CANDIDATES


class ClassInspection(AnyLabels):
    """The read-only side of a classifier; of two classes called 0 and 1, -1 and 1, or False and True, as before."""

    @property
    def candidates(self) -> list[str]:
        """Names of what the last mixer chooses from."""
        return super().candidates if self._several is None else list(CANDIDATES)

    @property
    @_thread_lock.hold_shared
    def weights(self) -> Vector:
        """The candidates' weights for the coming round; they sum to 1."""
        return super().weights if self._several is None else self._several.weights

    @property
    @_thread_lock.hold_shared
    def losses(self) -> Vector:
        """Sum of each candidate's losses so far; of several classes, over the rounds that `cost` speaks of."""
        return super().losses if self._several is None else self._several.losses

    @_thread_lock.hold_shared
    def cost(self) -> Vector:
        """Return a bound on the losses so far minus those of each candidate.

        Of several classes: over the rounds since the third class appeared whose class was known when they were served.
        What is kept for classes not seen yet, and what late labels changed, is known exactly, and added.
        """
        return super().cost() if self._several is None else self._several.cost()

    @_thread_lock.hold_shared
    def spectrum(self) -> Spectrum:
        """Return how fast the data forget: the weight of each memory length in the linear families.

        Of several classes: the mean over their estimators.
        """
        if self._several is None:
            return super().spectrum()
        found = [one.spectrum() for one in self._several.estimators if one.dim is not None]
        if not found:
            return Spectrum(np.zeros(0), np.zeros(0))
        return Spectrum(found[0].half_lives, np.mean([one.weights for one in found], axis=0))

    @_thread_lock.hold_shared
    def line(self) -> Line:
        """Return the coefficients of the linear memory that leads, in the units of the rows; of two classes alone."""
        if self._several is not None:
            raise InputError(
                f"{_check.name_of(self)}: line is of two classes called 0 and 1, -1 and 1, or False and True; "
                "look at the line of one of its estimators"
            )
        return super().line()

    @_thread_lock.hold_shared
    def effects(self, z: Rows, groups: Groups | None = None) -> Vector:
        """Return how far each feature, or each group of them, moves the predictions: in log-odds, or in probability.

        Of several classes it is the probability that goes to other classes, on average, if the feature has its usual
        value, its mean in the first rows, and all else is the same. Groups are lists of features, by name or place.
        """
        several = self._several
        if several is None or self.dim is None or not several.classes:
            return super().effects(z, groups)
        Z, _ = self._rows_to_predict(z)
        first = several.estimators[0]
        usual = first.part("center")[:: first.plan.width // self.dim]
        return 0.5 * self._move_groups(Z, usual, groups, lambda rows: np.exp(several.predict(rows)))

    @_thread_lock.hold_shared
    def combination(self) -> dict[str, float]:
        """Return how level 2 adds up the families and the last label now: the coefficients of its leading memory.

        Of three classes or more: the coefficient of each class's log-odds in that class's logit; of one or two, of the
        one estimator there is.
        """
        several = self._several
        if several is None:
            return super().combination()
        if several.classes < 3:
            return several.estimators[0].combination()
        names, found = [str(one) for one in self._labels_seen], several.combination()
        return {names[k]: float(found[k]) for k in self._order()}

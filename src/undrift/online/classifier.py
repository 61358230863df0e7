"""OnlineClassifier: probabilities of two classes on a drifting stream, with nothing to tune."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.ensemble.logistic import Mixable
from undrift.errors import InputError
from undrift.learners.base import Prediction
from undrift.losses import sigmoid
from undrift.online.base import WAVES, OnlineLearner
from undrift.online.classification import ClassificationCore, no_change
from undrift.online.rows import Rows


class OnlineClassifier(OnlineLearner):
    r"""Two classes on a drifting stream without parameters: scaling, holes, memory, curvature and bends are learned.

    Eight memories of logistic regression at each of three curvatures, and (unless `speed="fast"`) two memories over
    48 random waves, are mixed into families; a second level of discounted AIOLI follows the best drifting combination
    of their log-odds; the last, mixable mixer chooses among level 2, the families and the naive baselines.

    Parameters
    ----------
    speed
        "best", or "fast": without the waves.
    indicators
        Add for every feature another one that is 1 where its value was missing.
    seed
        Of the random waves.
    half_life
        One memory length in rounds for every stage, in place of learned ones.

    Notes
    -----
    `predict` gives log-odds of the label +1 (1, True), `predict_proba` the probability. Log-loss exceeds that of every
    candidate, base rate and "same as last time" among them, by at most `cost()`: ln(1 / its prior), whatever happens.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(500, 2))
    >>> y = rng.random(500) < 1 / (1 + np.exp(-4 * Z[:, 0]))
    >>> model = OnlineClassifier(speed="fast")
    >>> trace = model.play(Z, y)
    >>> bool(model.predict_proba([1.0, 0.0]) > 0.9)
    True
    """

    binary = True
    baselines = ("base rate", "no change")

    def predict_proba(self, z: Rows) -> Prediction:
        """Return the probability of the label +1 (1, True)."""
        p = sigmoid(self.predict(z))
        return float(p) if np.ndim(p) == 0 else p

    def _labels(self, y: ArrayLike, count: int) -> Vector:
        labels = _check.column(self, "y", y, count, nan=True)
        known = labels[~np.isnan(labels)]
        if len(np.unique(known)) > 2:
            raise InputError(
                f"{_check.name_of(self)}: y must have two classes, got {len(np.unique(known))} different labels; "
                "multi-class is not supported yet, use one classifier per class"
            )
        return super()._labels(y, count)

    def _core(self, dim: int) -> ClassificationCore:
        return ClassificationCore(dim, WAVES[self.speed], self.seed, self._betas)

    def _last_mixer(self) -> Mixable:
        return Mixable()

    def _baseline_start(self) -> Vector:
        return np.zeros(5)  # last label, stayed, changed, labels -1, labels +1

    def _baseline_peek(self, rows: int) -> Matrix:
        last, stayed, changed, minus, plus = self._baseline
        rate, same = np.log((plus + 1.0) / (minus + 1.0)), last * np.log((stayed + 1.0) / (changed + 1.0))
        return np.tile([rate, same], (rows, 1))

    def _baseline_play(self, y: Vector) -> Matrix:
        last, _, _, minus, plus = self._baseline
        up: Vector = np.cumsum(y > 0.0) - (y > 0.0)
        down = np.arange(len(y)) - up
        rate = np.log((plus + up + 1.0) / (minus + down + 1.0))
        said = np.column_stack([rate, no_change(self._baseline[:3], y)])
        product = shifted_product(float(last), y)
        counts = product > 0.0, product < 0.0, y < 0.0, y > 0.0
        self._baseline[1:] += [np.count_nonzero(one) for one in counts]
        self._baseline[0] = y[-1]
        return said


def shifted_product(last: float, y: Vector) -> Vector:
    """Return each label times the one before it."""
    return np.concatenate(([last], y[:-1])) * y

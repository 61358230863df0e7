"""What the learners of several classes share: labels are class numbers, predictions logits of every class.

`OneVsRest`, one binary learner for each class, is the cheap way to several classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._internal import thread_lock
from undrift._typing import Arrays, Matrix, Scalar, Vector
from undrift.errors import InputError
from undrift.learners.aioli import DiscountedAIOLI
from undrift.learners.base import Columns, Learner, Prediction
from undrift.learners.row_context import RowContext
from undrift.learners.serializable import merge_parts
from undrift.learners.served import ServedPrediction
from undrift.losses import Loss, log_softmax, softmax

MOST_CLASSES = 1000
"""Classes of one model."""


class ClassLearner(Learner):
    """A learner of K classes, numbered from 0; its predictions are logits (K,), whose softmax are the probabilities."""

    def __init__(self, *, classes: int, **parameters: Any) -> None:
        self.outputs = _check.integer(self, "classes", classes, 2, MOST_CLASSES)
        given: dict[str, Scalar] = {"classes": self.outputs, **parameters}
        super().__init__(**given)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.outputs

    @property
    def loss(self) -> Loss:
        """The loss it is for: -ln of the probability of the label's class."""
        return softmax

    @thread_lock.hold_shared
    def predict(self, z: ArrayLike, *, elapsed: float | None = None) -> Prediction:
        """Return the logits of the coming round, (K,) for one row and (n, K) for several; nothing changes.

        `elapsed` is the time since the row before, 1 by default.
        """
        Z, single = self._rows(z)
        logits = self._predictor(Z)._predict(Z, self._time(elapsed))
        return logits[0] if single else logits

    def predict_proba(self, z: ArrayLike, *, elapsed: float | None = None) -> Prediction:
        """Return the probabilities of the classes, (K,) for one row and (n, K) for several."""
        return np.exp(log_softmax(self.predict(z, elapsed=elapsed)))

    def _labels(self, y: ArrayLike, count: int) -> Vector:
        labels = _check.column(self, "y", y, count)
        wrong = (labels < 0.0) | (labels >= self.outputs) | (labels != np.floor(labels))
        if wrong.any():
            raise InputError(
                f"{_check.name_of(self)}: y must be class numbers 0 to {self.outputs - 1}, got {labels[wrong][0]:g}; "
                "number the classes from 0, or use OnlineClassifier for other labels"
            )
        return labels

    def _make_served(self, serial: int, record: Vector) -> ServedPrediction:
        logits = record[1 : 1 + self.outputs].copy()
        return ServedPrediction(logits, bool(record[0]), serial, record.copy(), self._fingerprint)


class OneVsRest(ClassLearner):
    r"""A `DiscountedAIOLI` for each class against all others; their log-odds are the logits.

    Parameters
    ----------
    classes
        Number of classes K; labels are 0 to K - 1.
    beta, half_life, reg, bound, radius, curvature
        As for `DiscountedAIOLI`.

    Notes
    -----
    Guarantee `one-vs-rest`: the log-loss of every round is at most the sum of the K binary log-losses, each of which
    has the guarantee of its `DiscountedAIOLI`. That is a weaker promise than `DiscountedSoftmax` makes, for
    O(K d^2) time a round and memory in place of O(K^3 d^2).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(500, 2))
    >>> y = np.argmax(Z @ [[3.0, 0.0, -3.0], [0.0, 3.0, -3.0]] + rng.gumbel(size=(500, 3)), axis=1)
    >>> model = OneVsRest(3, beta=1.0, bound=4.0)
    >>> trace = model.play(Z, y)
    >>> int(np.argmax(model.predict([0.0, 2.0])))
    1
    """

    supports = DiscountedAIOLI.supports

    def __init__(
        self,
        classes: int = 3,
        *,
        beta: float | None = None,
        half_life: float | None = None,
        reg: float = 1.0,
        bound: float | None = None,
        radius: float | None = None,
        curvature: float | None = None,
    ) -> None:
        self._prototype = DiscountedAIOLI(
            beta=beta, half_life=half_life, reg=reg, bound=bound, radius=radius, curvature=curvature
        )
        super().__init__(classes=classes, **self._prototype.parameters)
        self._learners: list[DiscountedAIOLI] = []

    @property
    def learners(self) -> list[DiscountedAIOLI]:
        """The binary learners with the state they have now, one for each class; none before the first row."""
        return [one.copy() for one in self._learners]

    def _begin(self, dim: int) -> None:
        self._learners = [self._prototype.clone() for _ in range(self.outputs)]
        for one in self._learners:
            one._fix_width(dim)
            one.rounds, one._extra_age = self.rounds, self._extra_age

    def _arrays(self) -> Arrays:
        return merge_parts("class", [one._arrays() for one in self._learners])

    def _min_array_size(self, dim: int) -> int:
        return self.outputs * self._prototype._min_array_size(dim)

    def _load_arrays(self, arrays: Arrays) -> None:
        super()._load_arrays(arrays)
        for one in self._learners:
            one._adopt_arrays(self)

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Matrix:
        return np.column_stack([one._predict(Z, elapsed) for one in self._learners])

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        signs = [np.where(y == k, 1.0, -1.0) for k in range(self.outputs)]
        played = [one._advance(Z, sign, context).yhat for one, sign in zip(self._learners, signs, strict=True)]
        return Columns(np.column_stack(played))

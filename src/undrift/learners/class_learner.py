"""What the learners of several classes share: labels are class numbers, predictions logits of every class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._internal import thread_lock
from undrift._typing import Scalar, Vector
from undrift.errors import InputError
from undrift.learners.base import Learner, Prediction
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

"""Losses: value, slope and curvature in the prediction, vectorised over rounds; the paper's two, and of classes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from undrift._typing import Vector
from undrift.kernels.definitions import LEAST_PROBABILITY


def softplus(x: ArrayLike) -> Vector:
    """ln(1 + e^x), to rounding for every x."""
    return np.asarray(np.logaddexp(0.0, x), dtype=np.float64)


def sigmoid(x: ArrayLike) -> Vector:
    """1 / (1 + e^-x), without overflow and exact in both tails."""
    x = np.asarray(x, dtype=np.float64)
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0.0, 1.0, e) / (1.0 + e), dtype=np.float64)


def log_odds(p: ArrayLike) -> Vector:
    """ln(p / (1 - p)) of probabilities that others gave, which may be 0 or 1."""
    p = np.clip(np.asarray(p, dtype=np.float64), LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
    return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)


def log_softmax(logits: ArrayLike) -> Vector:
    """Logarithms of the probabilities that logits (..., K) stand for, without overflow."""
    a = np.asarray(logits, dtype=np.float64)
    a = a - np.max(a, axis=-1, keepdims=True)
    return np.asarray(a - np.log(np.sum(np.exp(a), axis=-1, keepdims=True)))


class Loss:
    """A loss of one real prediction `yhat` against a label `y`.

    `name` is the key in files and reports; `mixability` the largest rate at which predictions can be mixed without
    loss (infinite range of predictions), None when it depends on the range.
    """

    name: str
    mixability: float | None

    def value(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """Loss of each round."""
        raise NotImplementedError

    def slope(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """First derivative in the prediction."""
        raise NotImplementedError

    def curvature(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """Second derivative in the prediction."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"undrift.losses.{self.name}"


class Squared(Loss):
    """(yhat - y)^2 / 2."""

    name = "squared"
    mixability = None

    def value(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """(yhat - y)^2 / 2."""
        return 0.5 * np.subtract(yhat, y, dtype=np.float64) ** 2

    def slope(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """Yhat - y."""
        return np.subtract(yhat, y, dtype=np.float64)

    def curvature(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """1."""
        return np.ones_like(self.slope(yhat, y))


class Logistic(Loss):
    """ln(1 + exp(-y yhat)) for labels -1 and +1; yhat are log-odds."""

    name = "logistic"
    mixability = 1.0

    def value(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """ln(1 + exp(-y yhat))."""
        return softplus(-np.multiply(y, yhat, dtype=np.float64))

    def slope(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """-y sigma(-y yhat)."""
        y = np.asarray(y, dtype=np.float64)
        return -y * sigmoid(-y * np.asarray(yhat, dtype=np.float64))

    def curvature(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """sigma(yhat) sigma(-yhat); the product, because sigma (1 - sigma) is 0 from 37 on."""
        yhat = np.asarray(yhat, dtype=np.float64)
        return sigmoid(yhat) * sigmoid(-yhat)


class Softmax(Loss):
    """-ln of the probability of the label's class; yhat are logits (rounds, K), labels class numbers."""

    name = "softmax"
    mixability = 1.0

    def value(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """-ln p_y, p the softmax of the logits."""
        logs = np.atleast_2d(log_softmax(yhat))
        return -logs[np.arange(len(logs)), np.asarray(y, dtype=np.int64)]

    def slope(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """P - e_y, one number for each class."""
        p = np.atleast_2d(np.exp(log_softmax(yhat)))
        p[np.arange(len(p)), np.asarray(y, dtype=np.int64)] -= 1.0
        return p.reshape(np.shape(yhat))


squared = Squared()
logistic = Logistic()
softmax = Softmax()
LOG2 = math.log(2.0)
"""Logistic loss of a prediction of 0."""

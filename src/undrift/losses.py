"""Losses: value, slope and curvature in the prediction, vectorised over rounds; the paper's two, and of classes."""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Vector
from undrift.errors import InputError
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


class Absolute(Loss):
    """|yhat - y|."""

    name = "absolute"
    mixability = None

    def value(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """|yhat - y|."""
        return np.abs(np.subtract(yhat, y, dtype=np.float64))

    def slope(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """Sign of yhat - y."""
        return np.sign(np.subtract(yhat, y, dtype=np.float64))

    def curvature(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """0."""
        return np.zeros_like(self.slope(yhat, y))


class Quantile(Loss):
    """level (y - yhat) where yhat is too low, (1 - level) (yhat - y) where it is too high: least at that quantile."""

    mixability = None

    def __init__(self, level: float) -> None:
        self.level = _check.interval("Quantile", "level", level, "(0, 1)")
        self.name = f"quantile({self.level:g})"

    def value(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """The pinball loss."""
        miss = np.subtract(y, yhat, dtype=np.float64)
        return np.maximum(self.level * miss, (self.level - 1.0) * miss)

    def slope(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """-level below the label, 1 - level above it, 0 at it."""
        miss = np.subtract(y, yhat, dtype=np.float64)
        return np.where(miss > 0.0, -self.level, np.where(miss < 0.0, 1.0 - self.level, 0.0))

    def curvature(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """0."""
        return np.zeros_like(self.slope(yhat, y))


class Huber(Loss):
    """(yhat - y)^2 / 2 up to `width`, and straight lines beyond it."""

    mixability = None

    def __init__(self, width: float) -> None:
        self.width = _check.interval("Huber", "width", width, "(0, inf)")
        self.name = f"huber({self.width:g})"

    def value(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """The loss of each round."""
        miss = np.abs(np.subtract(yhat, y, dtype=np.float64))
        return np.where(miss <= self.width, 0.5 * miss * miss, self.width * (miss - 0.5 * self.width))

    def slope(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """Yhat - y, cut at +- width."""
        return np.clip(np.subtract(yhat, y, dtype=np.float64), -self.width, self.width)

    def curvature(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """1 up to the width, 0 beyond it."""
        return np.where(np.abs(np.subtract(yhat, y, dtype=np.float64)) <= self.width, 1.0, 0.0)


class Poisson(Loss):
    """e^yhat - y yhat for counts y >= 0: yhat is the logarithm of the rate. Beyond 50 it goes on as a straight line."""

    name = "poisson"
    mixability = None
    _LARGEST = 50.0

    def value(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """e^yhat - y yhat."""
        yhat = np.asarray(yhat, dtype=np.float64)
        cut = np.minimum(yhat, self._LARGEST)
        return np.asarray(np.exp(cut) * (1.0 + (yhat - cut)) - np.multiply(y, yhat, dtype=np.float64))

    def slope(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """e^yhat - y."""
        return np.exp(np.minimum(np.asarray(yhat, dtype=np.float64), self._LARGEST)) - np.asarray(y, dtype=np.float64)

    def curvature(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """e^yhat."""
        yhat = np.asarray(yhat, dtype=np.float64)
        return np.where(yhat <= self._LARGEST, np.exp(np.minimum(yhat, self._LARGEST)), 0.0)


class LogWealth(Loss):
    """-ln(y + yhat): the label is the growth of a portfolio to start from, the prediction what deviations from it add.

    Below a growth of 1e-3 it goes on as a straight line.
    """

    name = "log_wealth"
    mixability = None
    _LEAST = 1e-3

    def value(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """-ln(y + yhat)."""
        growth = np.add(y, yhat, dtype=np.float64)
        cut = np.maximum(growth, self._LEAST)
        return -np.log(cut) + (cut - growth) / self._LEAST

    def slope(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """-1 / (y + yhat)."""
        return -1.0 / np.maximum(np.add(y, yhat, dtype=np.float64), self._LEAST)

    def curvature(self, yhat: ArrayLike, y: ArrayLike) -> Vector:
        """1 / (y + yhat)^2."""
        growth = np.add(y, yhat, dtype=np.float64)
        return np.where(growth >= self._LEAST, 1.0 / np.maximum(growth, self._LEAST) ** 2, 0.0)


absolute, poisson, log_wealth = Absolute(), Poisson(), LogWealth()
_PLAIN = {one.name: one for one in (squared, logistic, absolute, poisson, log_wealth)}
_WITH_NUMBER = {"quantile": Quantile, "huber": Huber}


def loss_named(who: object, name: str) -> Loss:
    """Return the loss that a name stands for: "absolute", "poisson", "log_wealth", "quantile(0.9)", "huber(1)", ...

    >>> loss_named("mine", "quantile(0.9)").value(0.0, 1.0).item()
    0.9
    """
    found = re.fullmatch(r"(\w+)\(([^()]+)\)", name)
    if found and found[1] in _WITH_NUMBER:
        try:
            return _WITH_NUMBER[found[1]](float(found[2]))
        except ValueError as error:
            raise InputError(f"{_check.name_of(who)}: loss {name!r:.60} cannot be used ({error})") from None
    if name in _PLAIN:
        return _PLAIN[name]
    known = ", ".join([*_PLAIN, "quantile(level)", "huber(width)"])
    raise InputError(f"{_check.name_of(who)}: loss must be one of {known}, or a Loss of your own, got {name!r:.60}")

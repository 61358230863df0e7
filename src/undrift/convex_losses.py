"""Convex losses of one real prediction, for learners that are driven by gradients, and their names in files."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Vector
from undrift.errors import InputError
from undrift.losses import Loss, logistic, squared


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

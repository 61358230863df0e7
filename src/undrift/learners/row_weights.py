"""Weights of rows and the time between them: how much a row counts, and how much of the past is forgotten before it.

A row of weight w is learned as w copies of it that come at once, after one prediction; its loss counts w times. One
of weight 0 is predicted and scored, and nothing is learned from it. A row that comes after time dt, in units of the
usual spacing of rows, finds a past that counts beta^dt times as much as it did at the row before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._internal.discount import Discount
from undrift._typing import Vector
from undrift.errors import InputError
from undrift.kernels.definitions import LEAST_DISCOUNT

WEIGHT_LIMIT = 1e50
"""Largest weight of a row, and longest elapsed time."""


class RowWeights(NamedTuple):
    """A block's weights and times, both with one number for each row."""

    weight: Vector
    """How often each row counts, 0 or more."""
    elapsed: Vector
    """Time since the row before, 0 or more; 1 is the usual spacing."""

    @property
    def extra_age(self) -> Vector:
        """By how much more than one round each row makes the past older."""
        return self.elapsed - 1.0

    def between(self, begin: int, end: int) -> RowWeights:
        """Return those of the rows number begin to end - 1."""
        return RowWeights(self.weight[begin:end], self.elapsed[begin:end])

    def discounts(self, discount: Discount) -> Vector:
        """Return the factor by which each row discounts the past, beta^dt; beta itself at dt = 1."""
        aged = np.maximum(np.power(discount.beta, self.elapsed), LEAST_DISCOUNT)
        return np.asarray(np.where(self.elapsed == 1.0, discount.beta, aged))


def check_row_weights(
    who: object, weight: ArrayLike | None, elapsed: ArrayLike | None, count: int
) -> RowWeights | None:
    """Return the checked weights and times of `count` rows, or None where all are 1: then nothing is special."""
    if weight is None and elapsed is None:
        return None
    both = RowWeights(_check_column(who, "weight", weight, count), _check_column(who, "elapsed", elapsed, count))
    return None if (both.weight == 1.0).all() and (both.elapsed == 1.0).all() else both


def refuse_row_weights(who: object) -> InputError:
    """Return the error of a learner that has no use for weights or times."""
    return InputError(
        f"{_check.name_of(who)}: weight and elapsed are not supported by this learner; leave them out, or use one such "
        "as DiscountedVAW"
    )


def _check_column(who: object, name: str, values: ArrayLike | None, count: int) -> Vector:
    if values is None:
        return np.ones(count)
    column = _check.column(who, name, values, count)
    wrong = ~((column >= 0.0) & (column <= WEIGHT_LIMIT))
    if wrong.any():
        raise InputError(
            f"{_check.name_of(who)}: {name} must be in [0, {WEIGHT_LIMIT:g}], got {column[wrong][0]:g} in row "
            f"{int(np.argmax(wrong))}"
        )
    return column

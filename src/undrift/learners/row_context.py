"""RowContext: what comes with a block of rows beside features and labels.

A row of weight w is learned as w copies of it that come at once, after one prediction; its loss counts w times. One
of weight 0 is predicted and scored, and nothing is learned from it. A row that comes after time dt, in units of the
usual spacing of rows, finds a past that counts beta^dt times as much as it did at the row before. A label with a delay
is learned after that many further rows were served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check
from undrift._internal.discount import Discount
from undrift._typing import Vector
from undrift.errors import InputError
from undrift.kernels.definitions import LEAST_DISCOUNT

Delay = int | Sequence[int] | NDArray[np.int64]
"""Rows that are served before a label is learned: of every row, or one for each."""
WEIGHT_LIMIT = 1e50
"""Largest weight of a row, and longest elapsed time."""
WEIGHT_AND_TIME = frozenset({"weight", "elapsed"})
"""What a learner supports that knows how much a row counts and how much older the past is by then."""


class RowContext(NamedTuple):
    """What comes with a block of rows beside features and labels."""

    weight: Vector | None = None
    """How often each row counts, 0 or more; None: once. Given together with `elapsed`, or not at all."""
    elapsed: Vector | None = None
    """Time since the row before, 0 or more; None: 1, the usual spacing."""
    delay: int | list[int] = 0
    """Rows that are served before a label is learned: of every row, or one for each."""
    levels: Vector | None = None
    """Levels of the quantiles to be returned with the predictions; None: no quantiles."""

    @property
    def ordinary(self) -> bool:
        """Whether every row counts once and comes after the usual time."""
        return self.weight is None and self.elapsed is None

    @property
    def needs(self) -> list[str]:
        """What a learner must support to use it, a part of `Learner.supports`."""
        needs = [] if self.weight is None or (self.weight == 1.0).all() else ["weight"]
        needs += [] if self.elapsed is None or (self.elapsed == 1.0).all() else ["elapsed"]
        return needs if self.levels is None else [*needs, "quantiles"]

    @property
    def longest_delay(self) -> int:
        """The delay of the label that comes latest after its row."""
        return max(self.delay, default=0) if isinstance(self.delay, list) else self.delay

    @property
    def extra_age(self) -> Vector:
        """By how much more than one round each row makes the past older; empty if no row does."""
        return np.empty(0) if self.elapsed is None else self.elapsed - 1.0

    def weights(self, count: int) -> Vector:
        """Return how often each of `count` rows counts."""
        return np.ones(count) if self.weight is None else self.weight

    def times(self, count: int) -> Vector:
        """Return the time before each of `count` rows."""
        return np.ones(count) if self.elapsed is None else self.elapsed

    def between(self, begin: int, end: int) -> RowContext:
        """Return the context of the rows number begin to end - 1."""
        weight, elapsed, late = (part[begin:end] if isinstance(part, (list, np.ndarray)) else part for part in self[:3])
        return RowContext(weight, elapsed, late, self.levels)  # type: ignore[arg-type]  # slices are of the same type

    def row(self, t: int) -> RowContext:
        """Return the context of one row; its delay is a number."""
        late = self.delay[t] if isinstance(self.delay, list) else self.delay
        return self.between(t, t + 1)._replace(delay=late)

    def discounts(self, discount: Discount, count: int) -> Vector:
        """Return the factor by which each of `count` rows discounts the past, beta^dt; beta itself at dt = 1."""
        if self.elapsed is None:
            return np.full(count, discount.beta)
        aged = np.maximum(np.power(discount.beta, self.elapsed), LEAST_DISCOUNT)
        return np.asarray(np.where(self.elapsed == 1.0, discount.beta, aged))


ORDINARY = RowContext()
"""Every row counts once, comes after the usual time, and is learned at once."""


def check_context(
    who: object,
    count: int,
    *,
    weight: ArrayLike | None = None,
    elapsed: ArrayLike | None = None,
    delay: Delay = 0,
    levels: Vector | None = None,
) -> RowContext:
    """Return the checked context of `count` rows; weights and times that are all 1 are left out of it."""
    if weight is None and elapsed is None and levels is None and type(delay) is int and delay == 0:
        return ORDINARY
    late = _check_delay(who, delay, count)
    if weight is None and elapsed is None:
        return RowContext(None, None, late, levels)
    weights, times = _check_column(who, "weight", weight, count), _check_column(who, "elapsed", elapsed, count)
    ordinary = (weights == 1.0).all() and (times == 1.0).all()
    return RowContext(None, None, late, levels) if ordinary else RowContext(weights, times, late, levels)


def _check_column(who: object, name: str, values: ArrayLike | None, count: int) -> Vector:
    if values is None:
        return np.ones(count)
    # A number alone becomes an array of stride 0, whose powers NumPy rounds otherwise than those of a block.
    column = _check.column(who, name, values, count).copy()
    wrong = ~((column >= 0.0) & (column <= WEIGHT_LIMIT))
    if wrong.any():
        raise InputError(
            f"{_check.name_of(who)}: {name} must be in [0, {WEIGHT_LIMIT:g}], got {column[wrong][0]:g} in row "
            f"{int(np.argmax(wrong))}"
        )
    return column


def _check_delay(who: object, delay: Delay, count: int) -> int | list[int]:
    if not isinstance(delay, (list, tuple)) and not (isinstance(delay, np.ndarray) and delay.ndim):
        return _check.integer(who, "delay", delay, 0)
    listed = delay.tolist() if isinstance(delay, np.ndarray) else list(delay)
    if len(listed) != count:
        raise InputError(
            f"{_check.name_of(who)}: delay must be an integer, or one for each of the {count} rows, got {len(listed)}"
        )
    return [_check.integer(who, f"delay[{t}]", rows, 0) for t, rows in enumerate(listed)]

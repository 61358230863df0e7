"""KeyState: everything a fleet keeps about one key; the lags its last labels become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from undrift._typing import Arrays, Matrix, Vector
from undrift.baselines import take_lags
from undrift.fleet.order_tracker import OrderTracker

ROW, ASK, LABEL, UNUSABLE = range(4)
"""Kinds of records: features and label, features only, label only, unusable (only its order counts)."""


class WaitingRecord(NamedTuple):
    """A record that waits until the records before it have come or were given up."""

    kind: int
    """ROW, ASK, LABEL or UNUSABLE."""
    label_of: int
    """The order of the record that a label belongs to."""
    y: float
    z: Vector


@dataclass
class KeyState:
    """Everything that is kept about one key."""

    tracker: OrderTracker = field(default_factory=OrderTracker)
    counts: dict[str, int] = field(default_factory=dict)
    """How many records ended with each status."""
    loss: float = 0.0
    """Sum of the losses of learned rounds whose prediction was made from earlier labels."""
    unscored: int = 0
    """Learned rounds that were predicted before any label was known, and have no loss."""
    waiting: dict[int, WaitingRecord] = field(default_factory=dict)
    """Records that wait for those before them, by order."""
    unlabelled: dict[int, int] = field(default_factory=dict)
    """Serial numbers of the served rows that wait for their label, by order, oldest first."""
    asked: bool = False
    """With intervals: whether nothing was learned since the last row without a label was served."""
    withheld: set[int] = field(default_factory=set)
    """With intervals: orders of the `unlabelled` rows that were served without one."""
    last_labels: Vector = field(default_factory=lambda: np.empty(0))
    """With lags: the last labels, NaN where not known, as many as the longest lag; none before the first row."""
    header: dict[str, Any] = field(default_factory=dict)
    """The model's header beyond its parameters."""
    arrays: Arrays = field(default_factory=dict)
    """The model's arrays; none before its first row."""
    records: Arrays = field(default_factory=dict)
    """The model's records of the served rows, as arrays; none if every label came with its row."""


def lag_names(target: str, lags: Sequence[int]) -> list[str]:
    """Return what the features are called.

    >>> lag_names("sales", (1, 7))
    ['sales 1 row ago', 'sales 7 rows ago']
    """
    return [f"{target} {lag} row{'s' if lag > 1 else ''} ago" for lag in lags]


def fill_lags(last: Vector, y: Vector, lags: Sequence[int], out: Matrix) -> Vector:
    """Write the label of each lag into the features of rows with labels y; return the last labels after them.

    `last` are the labels before these rows, as many as the longest lag, NaN where there is none.

    >>> import numpy as np
    >>> out = np.empty((3, 2))
    >>> fill_lags(np.array([5.0, 6.0]), np.array([7.0, 8.0, 9.0]), (1, 2), out)
    array([8., 9.])
    >>> out.tolist()
    [[6.0, 5.0], [7.0, 6.0], [8.0, 7.0]]
    """
    out[:, :], after = take_lags(last, y, lags)
    return after

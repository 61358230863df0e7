"""Labels of earlier rows as features of later ones: the lags of a stream."""

from __future__ import annotations

from collections.abc import Sequence

from undrift._typing import Matrix, Vector
from undrift.baselines import take_lags


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

"""What every measure of this package receives, rows, labels and a comparator for each round, checked once; sums."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Matrix, Rounds, Vector
from undrift.errors import InputError
from undrift.losses import Logistic, Loss


def check_stream(who: object, Z: ArrayLike, y: ArrayLike, loss: Loss) -> tuple[Matrix, Vector]:
    """Return rows (T, d) and labels (T,); labels of the logistic loss become -1 and +1."""
    rows = _check.rows(who, Z)
    if isinstance(loss, Logistic):
        return rows, _check.signs(who, y, len(rows))
    return rows, _check.column(who, "y", y, len(rows))


def check_comparator(who: object, u: ArrayLike, rounds: int, dim: int) -> Matrix:
    """Return one comparator a round (T, d); a single vector (d,) stands still."""
    array = np.asarray(u)
    if array.ndim == 1 and array.dtype.kind in "fiub":
        array = np.broadcast_to(array, (rounds, len(array)))
    if array.ndim != 2 or array.shape != (rounds, dim):
        raise InputError(
            f"{_check.name_of(who)}: u must be one comparator ({dim},) or one a round ({rounds}, {dim}), "
            f"got an array of shape {np.asarray(u).shape}"
        )
    return _check.finite_array(who, "u", array, (rounds, dim))


def moves(u: Matrix) -> Rounds:
    """Return the rounds t, counted from 0, after which the comparator moves: u[t + 1] != u[t]."""
    return np.flatnonzero((u[1:] != u[:-1]).any(axis=1))


def margins(Z: Matrix, u: Matrix) -> Vector:
    """Return u_t.z_t for every round, the comparator's own predictions."""
    return np.asarray(np.einsum("td,td->t", Z, u), dtype=np.float64)


def add_exactly(*columns: Vector) -> float:
    """Return the sum of all numbers of the columns, with one rounding."""
    return math.fsum(chain.from_iterable(one.tolist() for one in columns))


def add_sizes(*columns: Vector) -> float:
    """Return the sum of the sizes of all numbers of the columns: what rounding is measured against."""
    return add_exactly(*(np.abs(one) for one in columns))

"""NumPy twin of the wave kernel: periodic features of pairs of inputs."""

from __future__ import annotations

import math

import numpy as np

from undrift._typing import Matrix


def waves(table: Matrix, X: Matrix, bound: float, out: Matrix, first: int) -> None:
    """Fill columns `first`, `first` + 1, ... of `out` with one wave for each row (i, j, w1, w2, phase) of `table`.

    With x clipped to [-bound, bound] and s = w1 x_i + w2 x_j + phase in turns, the wave is sqrt(2/n) 16 r (1/2 - |r|),
    r = s - floor(s) - 1/2: a sine made of parabolas.
    """
    i, j = table[:, 0].astype(np.intp), table[:, 1].astype(np.intp)
    x = np.clip(X, -bound, bound)
    s = (x[:, i] * table[:, 2] + x[:, j] * table[:, 3]) + table[:, 4]
    r = s - np.floor(s) - 0.5
    out[:, first : first + len(table)] = (r * (0.5 - np.abs(r))) * (16.0 * math.sqrt(2.0 / len(table)))

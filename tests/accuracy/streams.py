"""Streams for the accuracy matrix, exact in float64: dependent features are dependent to the last bit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from flint import fmpq, fmpq_mat
from numpy.typing import NDArray

from tests.accuracy.wide import Floats

NAMES = (
    "full",
    "scaled",
    "near 1e-6",
    "near 1e-8",
    "zero",
    "duplicate",
    "combination",
    "frozen",
    "silent",
    "steep 1e-6",
    "fill 1e9",
    "fill 1e20",
    "fill 9.97e36",
    "fill 1e60",
)
LARGE, SHORT = 1e6, 10


class Case(NamedTuple):
    """Rows Z = U M', where U has full rank: the learner sees Z, the reference U."""

    name: str
    U: Floats
    M: NDArray[np.int64]
    y: Floats
    events: list[int]

    @property
    def Z(self) -> Floats:
        return np.ascontiguousarray(self.U @ self.M.T.astype(np.float64))

    @property
    def labels(self) -> Floats:
        """Labels -1, +1 whose log-odds are about 2 y; odd enough that no memory separates them."""
        luck = np.random.default_rng(len(self.y)).random(len(self.y))
        return np.where(luck < 1.0 / (1.0 + np.exp(-2.0 * np.clip(self.y, -300.0, 300.0))), 1.0, -1.0)

    def prior(self) -> fmpq_mat:
        """Return A_0 of the reduced problem, (M'M)^-1, exactly.

        The leader lies in the range of M, x = M w, so |x|^2 = v' (M'M)^-1 v with v = M'x the coefficients of U: the
        reduced problem has the same predictions and leverages in every round, not only in the limit.
        """
        gram = self.M.T @ self.M
        dim = len(gram)
        return fmpq_mat(dim, dim, [fmpq(int(v)) for v in gram.ravel()]).inv()


def make(name: str, dim: int, rounds: int, seed: int) -> Case:
    """Return the scenario `name`."""
    rng = np.random.default_rng([seed, dim, rounds, NAMES.index(name)])
    M = _dependence(name, dim)
    U = rng.normal(size=(rounds, M.shape[1]))
    weights = rng.normal(size=M.shape[1]) / np.sqrt(M.shape[1])
    y = U @ weights + 0.3 * rng.normal(size=rounds)
    events: list[int] = []
    if name == "scaled":
        scales = 10.0 ** np.linspace(-6.0, 6.0, dim)
        U = np.column_stack([_on_grid(u * s, 30 - round(np.log2(s))) for u, s in zip(U.T, scales, strict=True)])
    elif name.startswith(("near", "steep")):
        U[:, -1] = U[:, 0] + float(name.split()[1]) * U[:, -1]
        U = _on_grid(U, 44)
        if name.startswith("near"):  # steep: the labels depend on the difference, with a coefficient of its inverse
            y = U @ weights + 0.3 * rng.normal(size=rounds)
    elif name == "silent":
        U = _on_grid(U, 22)
        for start, length in _silences(rounds):
            U[start : start + length] = 0.0
            U[start + length : start + length + SHORT] *= LARGE
            events += [start + length // 2, *range(start + length, start + length + SHORT + 2)]
    else:
        U = _on_grid(U, 30)
        if name.startswith("fill"):  # a code for missing values in one feature: the first, the last, the first again
            rows = [rounds // 4, rounds // 2, rounds // 2 + 5]
            U[rows, [0, -1, 0]] = float(name.split()[1])
            events += [t + k for t in rows for k in (0, 1, 2, 20, 200)]
        if name == "frozen":
            start, length = rounds // 5, rounds // 10
            U[start : start + length] = U[start]
            y[start : start + length] += y[start]
            events += [start + 1, start + length // 10, *range(start + length, start + length + dim + 2, 3)]
    return Case(name, np.ascontiguousarray(U), M, _on_grid(y, 30), [t for t in events if t < rounds])


def _silences(rounds: int) -> list[tuple[int, int]]:
    """(start, length): up to a tenth of the stream."""
    return [(rounds // 10, 30), (rounds // 5, rounds // 1000), (rounds // 2, rounds // 10)]


def _dependence(name: str, dim: int) -> NDArray[np.int64]:
    if name == "zero":
        return np.delete(np.eye(dim, dtype=np.int64), dim // 2, axis=1)
    M = np.eye(dim, dtype=np.int64)
    if name in ("duplicate", "combination"):
        M = M[:, :-1]
        M[-1, 0] = 1 if name == "duplicate" or dim > 3 else 3
        if name == "combination" and dim > 3:
            M[-1, 1:3] = 2, -1
    return M


def _on_grid(x: Floats, places: int) -> Floats:
    return np.ldexp(np.round(np.ldexp(x, places)), -places)

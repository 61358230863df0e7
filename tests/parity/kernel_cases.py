"""Instances the kernel tests share: streams that are easy, badly scaled, degenerate or silent, and how to run them."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift.kernels import layout
from undrift.kernels.definitions import INFORMATION

Array = NDArray[np.float64]


class Instance(NamedTuple):
    """One stream and the learners that play it."""

    Z: Array
    y: Array
    sign: Array
    beta: Array
    inverse_curvature: Array
    reg: Array
    first: int


KINDS = ("plain", "scaled", "zero", "duplicate", "collinear", "frozen", "silent", "huge", "fill")


def instance(kind: str, dim: int, learners: int, rounds: int, seed: int = 0, first: int = 0) -> Instance:
    """Draw a stream of one kind; the discounts run from very short memories (floored every round) to none at all."""
    rng = np.random.default_rng([seed, dim, learners, rounds])
    Z = rng.normal(size=(rounds, dim))
    if kind == "scaled" and dim:
        Z *= np.logspace(-6, 6, dim)
    if kind == "zero":
        Z[:, ::3] = 0.0
    if kind == "duplicate":
        Z[:, dim // 2 :] = Z[:, : dim - dim // 2]
    if kind == "collinear" and dim > 1:
        Z[:, -1] = Z[:, 0] + 1e-6 * Z[:, -1]
    if kind == "frozen":
        Z[rounds // 4 :] = Z[rounds // 4]
    if kind == "silent":
        Z[rounds // 4 : 3 * rounds // 4] = 0.0
        Z[3 * rounds // 4 :] *= 1e6
    if kind == "huge":
        Z *= 10.0 ** rng.integers(-80, 74, size=Z.shape)
    y = Z[:, :1].sum(axis=1) + rng.normal(size=rounds)
    if kind == "fill" and dim:  # codes for missing values, in one feature of a row each
        Z[[rounds // 3, rounds // 2, rounds // 2 + 1], [dim // 2, dim - 1, 0]] = 9.97e36, -1e20, -1e20
    sign = np.where(y >= 0, 1.0, -1.0)
    y = np.clip(y, -1e75, 1e75)
    beta = 1.0 - np.logspace(-4, np.log10(0.5), learners) if learners else np.zeros(0)
    beta[: learners // 8] = 1.0
    beta[-(learners // 16) :] = 0.01 if learners >= 16 else beta[-1:]
    return Instance(Z, y, sign, beta, 1.0 + rng.random(learners), 0.1 + rng.random(learners), first)


def stacked(case: Instance, lanes: int) -> Array:
    """Return the fresh state in the wished layout, whatever the number of learners."""
    dim, count = case.Z.shape[1], len(case.reg)
    state = layout.aligned_zeros(-(-count // lanes), layout.length(dim), lanes)
    state[:, INFORMATION.slices(dim=dim)["inverse_pivots"], :] = 1.0
    for i in range(count):
        one = layout.parts(state, i, dim)
        one["inverse_pivots"][:], one["energy"][:] = 1.0 / case.reg[i], case.reg[i]
    return state


def outputs(case: Instance) -> tuple[Array, Array]:
    """Two output columns, full of what no kernel may leave."""
    shape = (len(case.Z), len(case.beta))
    return np.full(shape, np.nan), np.full(shape, np.nan)


def numbers(state: Array, i: int, dim: int) -> Array:
    """Learner i's numbers in one order for all layouts: pivots, theta, energy, counts, L row by row."""
    one = layout.parts(state, i, dim)
    one["factor"] = layout.factor(state, i, dim)[np.tril_indices(dim, -1)]
    return np.concatenate(list(one.values()))


def play(which: ModuleType, loss: str, case: Instance, state: Array, **more: int) -> tuple[Array, Array]:
    """Close the instance's rounds with the kernels or with their twins; return both output columns."""
    one, two = outputs(case)
    if loss == "vaw":
        code = which.vaw_play(state, case.beta, case.first, case.Z, case.y, one, two, **more)
    else:
        code = which.aioli_play(
            state, case.beta, case.inverse_curvature, case.first, case.Z, case.sign, one, two, **more
        )
    assert code == 0
    return one, two

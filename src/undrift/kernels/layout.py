r"""How discounted information matrices lie in memory, for one learner or for a stack of them.

One learner's state is a column of float64 numbers, whose parts are those of `INFORMATION` in `definitions`. A state has
shape (groups, length, lanes): learner i is `state[i // lanes, :, i % lanes]`. A stack interleaves 8 learners in lanes
and stores L row by row; one or two learners use one lane and store L column by column, so that the compiled loops read
memory in order either way. Two to four memories of an online estimator's stage interleave 4. A slot of `play_keys`
interleaves only as many learners as the instruction set wants (4, or 8 with AVX-512), so that fewer lanes are padding.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Vector
from undrift.kernels.definitions import FEW_LANES, FLOOR_PERIOD, INFORMATION, LANES, LEAST_DISCOUNT, SMALL_BETA

State = NDArray[np.float64]
"""Shape (groups, length, lanes); see the module."""


class MixerArguments(NamedTuple):
    """A mixer as kernels see it: its own arrays, changed in place, and its settings."""

    log_weights: Vector
    """By member, up to a constant."""
    log_prior: Vector
    """By member."""
    share: float
    """The part of the weights that returns to the prior each round."""
    state: Vector
    """The numbers of `MixerState`."""
    rule: int
    """One of `MixingRule`; not used for logistic loss."""
    scale: float
    """The factor of the rule RESIDUAL_SCALE."""
    losses: Vector
    """The sum of each member's losses."""
    clipped_losses: Vector
    """The sum of each member's losses with its predictions clipped to the labels' range; not used for logistic loss."""


def length(dim: int) -> int:
    """Numbers one learner of `dim` features needs."""
    return INFORMATION.size(dim=dim)


def estimator_lanes(count: int) -> int:
    """Return how many of `count` memories of an online estimator's stage lie in one group."""
    return 1 if count <= 1 else FEW_LANES if count <= FEW_LANES else LANES


def fresh(dim: int, reg: Vector, lanes: int | None = None) -> State:
    """Return the state of len(reg) learners before their first round: A = reg I, leader 0."""
    if lanes is None:
        lanes = 1 if len(reg) <= 2 else LANES
    groups = -(-len(reg) // lanes)
    state = aligned_zeros(groups, length(dim), lanes)
    # Lanes without a learner hold A = I with energy 0, which harms nothing.
    inverse_pivots, energy = np.ones(groups * lanes), np.zeros(groups * lanes)
    inverse_pivots[: len(reg)], energy[: len(reg)] = 1.0 / np.asarray(reg), reg
    at = INFORMATION.slices(dim=dim)
    state[:, at["inverse_pivots"], :] = inverse_pivots.reshape(groups, 1, lanes)
    state[:, at["energy"], :] = energy.reshape(groups, 1, lanes)
    return state


def column(state: State, i: int) -> Vector:
    """Return learner i's numbers, as a view."""
    lanes = state.shape[2]
    return state[i // lanes, :, i % lanes]


def parts(state: State, i: int, dim: int) -> dict[str, Vector]:
    """Return learner i's numbers by the names of `INFORMATION`, as views."""
    return INFORMATION.split(column(state, i), dim=dim)


def lane_group(state: State, group: int, lanes: int) -> State:
    """Return the `group`-th `lanes` learners of a state, a divisor of its own lanes, as a view (length, lanes)."""
    at = group * lanes
    return state[at // state.shape[2], :, at % state.shape[2] : at % state.shape[2] + lanes]


@lru_cache(maxsize=32)
def factor_indices(dim: int, lanes: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return (rows, columns) of L's stored elements, in storage order; not to be changed, as callers share them."""
    if lanes > 1:
        rows, columns = np.tril_indices(dim, -1)
    else:
        columns, rows = np.triu_indices(dim, 1)
    rows.flags.writeable = columns.flags.writeable = False
    return rows, columns


def factor(state: State, i: int, dim: int) -> NDArray[np.float64]:
    """Return learner i's unit lower triangular L as a dense matrix (a copy)."""
    L = np.eye(dim)
    L[factor_indices(dim, state.shape[2])] = parts(state, i, dim)["factor"]
    return L


def leader(state: State, i: int, dim: int) -> Vector:
    r"""Return learner i's leader $x = L^{-\top}\theta$ by back substitution."""
    one = parts(state, i, dim)
    if one["lost"]:
        return np.zeros(dim)  # it predicts 0 until it starts afresh
    x, below = one["theta"].copy(), one["factor"][_row_order(dim, state.shape[2])]
    for j in range(dim - 1, 0, -1):
        x[:j] -= below[j * (j - 1) // 2 : j * (j + 1) // 2] * x[j]
    return x


@lru_cache(maxsize=32)
def _row_order(dim: int, lanes: int) -> NDArray[np.intp] | slice:
    """Return how L's stored elements are put in order row by row; not to be changed, as callers share it."""
    if lanes > 1:
        return slice(None)
    rows, columns = factor_indices(dim, lanes)
    order = np.lexsort((columns, rows))
    order.flags.writeable = False
    return order


def single_state(state: State, i: int, dim: int) -> State:
    """Return learner i as a state of its own (a copy)."""
    out = fresh(dim, np.ones(1))
    _copy_learner(state, i, dim, out, 0, dim)
    return out


def add_features(state: State, dim: int, count: int, strength: Vector) -> State:
    """Return the state with `count` more features at the end, which were 0 in every round so far.

    Learner i's new pivots are `strength[i]`, its ridge after all that forgetting; exact, because a feature that was 0
    has left no other trace.
    """
    out = fresh(dim + count, strength, state.shape[2])
    for i in range(len(strength)):
        _copy_learner(state, i, dim, out, i, dim + count)
    return out


def _copy_learner(source: State, i: int, dim: int, target: State, k: int, wide: int) -> None:
    """Copy learner i with `dim` features over the first features of learner k, which has `wide`."""
    old, new, L = parts(source, i, dim), parts(target, k, wide), np.eye(wide)
    L[:dim, :dim] = factor(source, i, dim)
    for name in ("inverse_pivots", "theta", "energy"):
        new[name][:dim] = old[name]
    for name in ("floored", "lost", "resets"):
        new[name][:] = old[name]
    new["factor"][:] = L[factor_indices(wide, target.shape[2])]


def discount_between_floors(beta: float) -> float:
    """Return the factor by which forgetting lowers a pivot from one floor round to the next."""
    return beta if beta < SMALL_BETA else beta**FLOOR_PERIOD


def aged_discount(beta: float, closed: int, elapsed: float) -> tuple[float, float]:
    """Return beta^elapsed, and by which factor at most a pivot is raised if this is a floor round.

    A round after a time other than 1 is a floor round. It may take back what it forgot itself, and, where a floor round
    was due after `closed` rounds, what the rounds before it forgot.
    """
    if elapsed == 1.0:
        return beta, discount_between_floors(beta)
    aged = max(beta**elapsed, LEAST_DISCOUNT)
    if closed % FLOOR_PERIOD:
        return aged, aged
    return aged, discount_between_floors(beta) * min(aged / beta, 1.0)


def is_floor_round(beta: float, closed: int, elapsed: float) -> bool:
    """Whether pivots are kept above their floor in the round that follows `closed` ones."""
    return closed % FLOOR_PERIOD == 0 or beta < SMALL_BETA or elapsed != 1.0


def aligned_zeros(groups: int, size: int, lanes: int) -> State:
    """Return zeros that start on a cache line."""
    count = groups * size * lanes
    raw = np.zeros(count + 8)
    skip = (-raw.ctypes.data // 8) % 8
    return raw[skip : skip + count].reshape(groups, size, lanes)

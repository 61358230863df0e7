r"""How a discounted information matrix lies in memory, for one learner or for a stack of them.

One learner's state is a column of float64 numbers, in this order:

| part | length | meaning |
|---|---|---|
| inverse pivots | d | 1/D of $A = L D L^\top$ |
| theta | d | $D^{-1}L^{-1}r$, so that the leader is $L^{-\top}\theta$ |
| energy | d | diagonal of A by its own recursion, the yardstick of the pivot floor |
| floored | 1 | pivots raised so far |
| lost | 1 | 1 from the round in which the numbers left float64's range until the next floor round |
| resets | 1 | how often that happened |
| L | d(d-1)/2 | below the diagonal |

A state has shape (groups, length, lanes): learner i is `state[i // lanes, :, i % lanes]`. A stack interleaves 8
learners in lanes and stores L row by row; one or two learners use one lane and store L column by column, so that the
compiled loops read memory in order either way. A slot of `Round.play_keys` interleaves only as many learners as the
instruction set wants (4, or 8 with AVX-512), so that fewer lanes are spare.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Vector

LANES = 8
State = NDArray[np.float64]
"""Shape (groups, length, lanes); see the module's table."""


def length(dim: int) -> int:
    """Numbers one learner of `dim` features needs."""
    return 3 * dim + 3 + dim * (dim - 1) // 2


def fresh(dim: int, reg: Vector) -> State:
    """Return the state of len(reg) learners before their first round: A = reg I, leader 0."""
    lanes = 1 if len(reg) <= 2 else LANES
    state = _aligned(-(-len(reg) // lanes), length(dim), lanes)
    _begin(state, dim, reg)
    return state


def restart(state: State, dim: int, reg: Vector) -> None:
    """Make a state what `fresh` would return."""
    state[...] = 0.0
    _begin(state, dim, reg)


def _begin(state: State, dim: int, reg: Vector) -> None:
    """Put numbers where a state of zeros needs some; spare lanes hold harmless ones."""
    groups, _, lanes = state.shape
    pivots, energy = np.ones(groups * lanes), np.zeros(groups * lanes)
    pivots[: len(reg)], energy[: len(reg)] = 1.0 / np.asarray(reg), reg
    state[:, :dim, :] = pivots.reshape(groups, 1, lanes)
    state[:, 2 * dim : 3 * dim, :] = energy.reshape(groups, 1, lanes)


def column(state: State, i: int) -> Vector:
    """Return learner i's numbers, as a view."""
    lanes = state.shape[2]
    return state[i // lanes, :, i % lanes]


def copied(state: State) -> State:
    """Return a copy that is aligned like a fresh state."""
    out = _aligned(*state.shape)
    out[...] = state
    return out


def neighbours(state: State, group: int, lanes: int) -> State:
    """Return the `group`-th `lanes` learners of a state, a divisor of its own lanes, as a view (length, lanes)."""
    at = group * lanes
    return state[at // state.shape[2], :, at % state.shape[2] : at % state.shape[2] + lanes]


def factor_places(dim: int, lanes: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return (rows, columns) of L's stored elements, in storage order."""
    if lanes > 1:
        rows, columns = np.tril_indices(dim, -1)
    else:
        columns, rows = np.triu_indices(dim, 1)
    return rows, columns


def factor(state: State, i: int, dim: int) -> NDArray[np.float64]:
    """Return learner i's unit lower triangular L as a dense matrix (a copy)."""
    L = np.eye(dim)
    L[factor_places(dim, state.shape[2])] = column(state, i)[3 * dim + 3 :]
    return L


def leader(state: State, i: int, dim: int) -> Vector:
    r"""Return learner i's leader $x = L^{-\top}\theta$ by back substitution."""
    one = column(state, i)
    x = one[dim : 2 * dim].copy()
    if one[3 * dim + 1]:
        return np.zeros(dim)  # lost: it predicts 0 until it starts afresh
    L = factor(state, i, dim)
    for j in range(dim - 1, 0, -1):
        x[:j] -= L[j, :j] * x[j]
    return x


def restacked(state: State, members: list[int], dim: int) -> State:
    """Return a new state of the learners `members`, in the layout their number asks for."""
    out = fresh(dim, np.ones(len(members)))
    rows, columns = factor_places(dim, out.shape[2])
    for k, i in enumerate(members):
        one = column(out, k)
        one[: 3 * dim + 3] = column(state, i)[: 3 * dim + 3]
        one[3 * dim + 3 :] = factor(state, i, dim)[rows, columns]
    return out


def joined(states: list[State], dim: int) -> State:
    """Return one state of all learners of several one-learner states."""
    out = fresh(dim, np.ones(len(states)))
    rows, columns = factor_places(dim, out.shape[2])
    for k, state in enumerate(states):
        one = column(out, k)
        one[: 3 * dim + 3] = column(state, 0)[: 3 * dim + 3]
        one[3 * dim + 3 :] = factor(state, 0, dim)[rows, columns]
    return out


def _aligned(groups: int, size: int, lanes: int) -> State:
    """Zeros that start on a cache line."""
    count = groups * size * lanes
    raw = np.zeros(count + 8)
    skip = (-raw.ctypes.data // 8) % 8
    return raw[skip : skip + count].reshape(groups, size, lanes)


def grown(state: State, dim: int, count: int, strength: Vector) -> State:
    """Return the state with `count` more features at the end, which were 0 in every round so far.

    Learner i's new pivots are `strength[i]`, its ridge after all that forgetting; exact, because a feature that was 0
    has left no other trace.
    """
    wide = dim + count
    out = fresh(wide, strength)
    rows, columns = factor_places(wide, out.shape[2])
    for i in range(len(strength)):
        old, new = column(state, i), column(out, i)
        for part in range(3):
            new[part * wide : part * wide + dim] = old[part * dim : (part + 1) * dim]
        new[3 * wide : 3 * wide + 3] = old[3 * dim : 3 * dim + 3]
        L = np.eye(wide)
        L[:dim, :dim] = factor(state, i, dim)
        new[3 * wide + 3 :] = L[rows, columns]
    return out

"""NumPy twin of the interval kernel: half-widths that follow the residuals, one for every level."""

from __future__ import annotations

from undrift._typing import Vector

MEMORY = 200.0
"""Rounds over which the unit averages residuals, once it has seen as many."""
WILD = 10.0
"""A residual counts at most this many units when the unit is updated."""

UNIT, COUNT, FIRST = range(3)
"""Places in the state: the mean residual, rounds, then half-widths in units and after them hits, level by level."""


def interval_play(state: Vector, up: Vector, down: Vector, residual: Vector) -> None:
    """Follow residuals |y - yhat| round by round, changing `state` in place.

    For every level k the half-width is unit * q_k. A round whose residual lies outside multiplies q_k by up_k, one
    inside by down_k and counts a hit; with up = exp(step * level), down = exp(-step * (1 - level)), hits - level *
    rounds = -ln(q_k / q_k before) / step: the share of hits tends to the level as long as q_k stays bounded.
    """
    levels = len(up)
    for r in residual.tolist():
        unit = state[UNIT]
        for k in range(levels):
            if r <= unit * state[FIRST + k]:
                state[FIRST + k] *= down[k]
                state[FIRST + levels + k] += 1.0
            else:
                state[FIRST + k] *= up[k]
        state[COUNT] += 1.0
        counted = min(r, WILD * unit) if unit > 0.0 else r
        state[UNIT] += (counted - unit) / min(state[COUNT], MEMORY)

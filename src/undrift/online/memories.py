"""The memories every stage works with: from two weeks of days to forever, eight of them, one cache line wide."""

from __future__ import annotations

import numpy as np

from undrift._typing import Vector
from undrift.ensemble.stack import Sweep
from undrift.kernels import layout

ROUNDS = (15.0, 44.0, 131.0, 387.0, 1146.0, 3385.0, 10000.0)
"""Effective memories in rounds, 1 / (1 - beta), in steps of about 3; forever is added."""
BETAS = np.array([*(1.0 - 1.0 / n for n in ROUNDS), 1.0])
TINY = 1e-150


def fresh_sweep(beta: Vector, dim: int) -> Sweep:
    """Return memories with ridge 1 over `dim` features."""
    return Sweep(beta, np.ones(len(beta)), dim)


def widened(state: layout.State, beta: Vector, dim: int, count: int, rounds: int) -> layout.State:
    """Return a state with `count` more features, silent for `rounds` rounds."""
    return layout.grown(state, dim, count, np.maximum(beta**rounds, TINY))


def shifted(before: Vector, series: Vector) -> Vector:
    """Return each round's value of the round before it."""
    return np.concatenate((before, series[:-1]))

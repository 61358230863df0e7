"""The memories every stage works with: from two weeks of days to forever, eight of them, one cache line wide."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undrift._typing import Vector
from undrift.ensemble.stack import DiscountedLeaders
from undrift.kernels import layout

ROUNDS = (15.0, 44.0, 131.0, 387.0, 1146.0, 3385.0, 10000.0)
"""Effective memories in rounds, 1 / (1 - beta), in steps of about 3; forever is added."""
BETAS = np.array([*(1.0 - 1.0 / n for n in ROUNDS), 1.0])
TINY = 1e-150


class Memories(NamedTuple):
    """The memories of one linear family, as they stand."""

    family: str
    """Name among the candidates."""
    beta: Vector
    """Discounts (N,)."""
    weights: Vector
    """What the family's mixer gives each (N,)."""
    state: layout.State
    """Their information matrices."""
    dim: int
    """Features, the constant first."""


class Spectrum(NamedTuple):
    """How fast the data forget: a weight for each memory length."""

    half_lives: Vector
    """Rounds after which a row counts half (N,), ascending; infinity never forgets."""
    weights: Vector
    """Weights (N,), sum 1."""


class Line(NamedTuple):
    """What the leading linear memory would say: intercept + coef . z, in the units of the rows."""

    coef: Vector
    """Per unit of each feature (dim,), or of each feature and its indicator in turn (2 dim,)."""
    intercept: float
    """At z = 0."""
    half_life: float
    """Of the memory that leads."""


def half_life(beta: Vector) -> Vector:
    """Return rounds after which a row counts half; infinity for beta = 1."""
    rate = -np.log(beta)
    return np.where(rate > 0.0, np.log(2.0) / np.where(rate > 0.0, rate, 1.0), np.inf)


def fresh_leaders(beta: Vector, dim: int) -> DiscountedLeaders:
    """Return memories with ridge 1 over `dim` features."""
    return DiscountedLeaders(beta, np.ones(len(beta)), dim)


def widened(state: layout.State, beta: Vector, dim: int, count: int, rounds: int) -> layout.State:
    """Return a state with `count` more features, silent for `rounds` rounds."""
    return layout.add_features(state, dim, count, np.maximum(beta**rounds, TINY))


def shifted(before: Vector, series: Vector) -> Vector:
    """Return each round's value of the round before it."""
    return np.concatenate((before, series[:-1]))

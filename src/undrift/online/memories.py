"""The memories every stage works with: from two weeks of days to forever, eight of them, one cache line wide."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undrift._internal import html
from undrift._typing import Vector
from undrift.kernels import layout

ROUNDS = (15.0, 44.0, 131.0, 387.0, 1146.0, 3385.0, 10000.0)
"""Effective memories in rounds, 1 / (1 - beta), in steps of about 3; forever is added."""
BETAS = np.array([*(1.0 - 1.0 / n for n in ROUNDS), 1.0])


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
    names: tuple[str, ...] = ()
    """What each coefficient belongs to, in their order; rows without names have z[0], z[1], ..."""

    def as_dict(self) -> dict[str, float]:
        """Return the coefficients by name, the intercept last.

        >>> Line(np.array([2.0]), 1.0, 50.0, ("temp",)).as_dict()
        {'temp': 2.0, '(intercept)': 1.0}
        """
        return {**dict(zip(self.names, self.coef.tolist(), strict=True)), "(intercept)": self.intercept}

    def _repr_html_(self) -> str:
        memory = f"memory with a half-life of {self.half_life:.4g} rounds"
        return html.facts_table(f"Line of the {memory}", {name: f"{c:.4g}" for name, c in self.as_dict().items()})


def half_life(beta: Vector) -> Vector:
    """Return rounds after which a row counts half; infinity for beta = 1."""
    rate = -np.log(beta)
    return np.where(rate > 0.0, np.log(2.0) / np.where(rate > 0.0, rate, 1.0), np.inf)

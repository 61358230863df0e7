"""Snapshots: what the model believed, at rounds that depend on nothing but their number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from undrift._typing import Vector
from undrift.online.base import OnlineLearner

MOST = 1000
"""Snapshots kept; when there are more, every other one goes."""
FIRST_STRIDE = 16


class Snapshot(NamedTuple):
    """What the model believed after a round."""

    round: float
    """The round, from 1."""
    spectrum: Vector
    """Weight of each memory length."""
    weights: Vector
    """Weight of each candidate of the last mixer."""
    combination: Vector
    """Coefficients of level 2 by family, the last label's last; none of several classes."""
    coef: Vector
    """Coefficients of the line, the intercept last; none of several classes."""


class Snapshots:
    """Spectrum, candidates' weights and coefficients every so many rounds, thinned as the run grows.

    Parameters
    ----------
    width
        Features.
    lines
        Whether the model has a line, and so coefficients; those of several classes have none.
    """

    def __init__(self, width: int, *, lines: bool = True) -> None:
        self._lines = lines
        self.most = max(100, min(MOST, 400_000 // max(width, 1)))
        self.stride = FIRST_STRIDE
        self.half_lives = np.zeros(0)
        self.rows: list[Snapshot] = []

    def next_round(self, rounds: int) -> int:
        """Return the next round after which one is due."""
        return (rounds // self.stride + 1) * self.stride

    def take(self, model: OnlineLearner) -> None:
        """Read the model."""
        spectrum, coef, combination = model.spectrum(), np.zeros(0), np.zeros(0)
        if self._lines:
            line = model.line()
            coef, combination = np.append(line.coef, line.intercept), np.array([*model.combination().values()])
        self.half_lives = spectrum.half_lives
        row = Snapshot(float(model.rounds), spectrum.weights, model.weights, combination, coef)
        if self.rows and self.rows[-1].round == row.round:
            return
        self.rows.append(row)
        if len(self.rows) > self.most:
            self.stride *= 2
            self.rows = [one for one in self.rows if one.round % self.stride == 0.0]

    def arrays(self) -> dict[str, Vector]:
        """Return everything as arrays; coefficients of features that were not there yet are NaN."""
        out = {"half_lives": self.half_lives, "stride": np.array([float(self.stride)])}
        if not self.rows:
            return {**out, "round": np.zeros(0), **{name: np.zeros((0, 0)) for name in Snapshot._fields[1:]}}
        rounds, spectrum, weights, combination, coef = zip(*self.rows, strict=True)
        wide, families = (
            np.full((len(rounds), max(len(one) for one in every)), np.nan) for every in (coef, combination)
        )
        for k, one in enumerate(coef if self._lines else ()):
            wide[k, : len(one) - 1], wide[k, -1] = one[:-1], one[-1]
        for k, one in enumerate(combination):
            families[k, : len(one)] = one
        out |= {"round": np.array(rounds), "spectrum": np.array(spectrum), "weights": np.array(weights)}
        return {**out, "combination": families, "coef": wide}

    def resume(self, arrays: Mapping[str, Vector]) -> None:
        """Go on where `arrays` left off."""
        self.stride, self.half_lives = int(arrays["stride"][0]), arrays["half_lives"]
        none = np.zeros((len(arrays["round"]), 0))  # runs of earlier versions kept no combinations
        columns = (arrays.get(name, none) for name in Snapshot._fields)
        self.rows = [Snapshot(float(each[0]), *each[1:]) for each in zip(*columns, strict=True)]

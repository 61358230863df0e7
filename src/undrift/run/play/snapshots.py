"""Snapshots: what the model believed, at rounds that depend on nothing but their number."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from undrift._typing import Vector
from undrift.online.base import OnlineLearner

MOST = 1000
"""Snapshots kept; when there are more, every other one goes."""
FIRST_STRIDE = 16


class Snapshots:
    """Spectrum, candidates' weights and coefficients every so many rounds, thinned as the run grows.

    Parameters
    ----------
    width
        Features.
    lines
        Whether the model has a line, and so coefficients.
    """

    def __init__(self, width: int, *, lines: bool = True) -> None:
        self._lines = lines
        self.most = max(100, min(MOST, 400_000 // max(width, 1)))
        self.stride = FIRST_STRIDE
        self.half_lives = np.zeros(0)
        self.rows: list[tuple[float, Vector, Vector, Vector]] = []

    def next_round(self, rounds: int) -> int:
        """Return the next round after which one is due."""
        return (rounds // self.stride + 1) * self.stride

    def take(self, model: OnlineLearner) -> None:
        """Read the model."""
        spectrum, coef = model.spectrum(), np.zeros(0)
        if self._lines:
            line = model.line()
            coef = np.append(line.coef, line.intercept)
        self.half_lives = spectrum.half_lives
        row = (float(model.rounds), spectrum.weights, model.weights, coef)
        if self.rows and self.rows[-1][0] == row[0]:
            return
        self.rows.append(row)
        if len(self.rows) > self.most:
            self.stride *= 2
            self.rows = [one for one in self.rows if one[0] % self.stride == 0.0]

    def arrays(self) -> dict[str, Vector]:
        """Return everything as arrays; coefficients of features that were not there yet are NaN."""
        out = {"half_lives": self.half_lives, "stride": np.array([float(self.stride)])}
        if not self.rows:
            return {**out, "round": np.zeros(0), **{name: np.zeros((0, 0)) for name in ("spectrum", "weights", "coef")}}
        rounds, spectrum, weights, coef = zip(*self.rows, strict=True)
        wide = np.full((len(coef), max(len(one) for one in coef)), np.nan)
        for k, one in enumerate(coef if self._lines else ()):
            wide[k, : len(one) - 1], wide[k, -1] = one[:-1], one[-1]
        out |= {"round": np.array(rounds), "spectrum": np.array(spectrum), "weights": np.array(weights)}
        return {**out, "coef": wide}

    def resume(self, arrays: Mapping[str, Vector]) -> None:
        """Go on where `arrays` left off."""
        self.stride, self.half_lives = int(arrays["stride"][0]), arrays["half_lives"]
        columns = (arrays[name] for name in ("round", "spectrum", "weights", "coef"))
        self.rows = [(float(r), s, w, c) for r, s, w, c in zip(*columns, strict=True)]

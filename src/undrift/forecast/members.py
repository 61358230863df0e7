"""Members of a forecaster: linear learners of several memories over one design for all steps of a series.

Every memory answers twice. Its first answer is relative to the last value, so that "same as last time" is the answer of
someone who knows nothing; the second is relative to the value a season before the step. Both share the information
matrix and are two blocks of outputs (H each) of one kernel call.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.kernels import layout
from undrift.kernels.definitions import INFORMATION, INPUT_LIMIT

MEMORIES = (131.0, 387.0, 1146.0, 3385.0, math.inf)
"""Rounds over which members remember: $1/(1-\\beta)$."""
BETAS = np.array([1.0 if math.isinf(memory) else 1.0 - 1.0 / memory for memory in MEMORIES])
KNOWN_REG = 1.0
"""Ridge of the effect of known columns, in squared units of scaled columns."""

Cube = NDArray[np.float64]


class Members:
    """All memories of all series.

    Their ridge is as large as a row is wide: d columns of spread 1 that together explain as much as the noise have
    coefficients of variance 1 / d times the noise, of which d is the best ridge. It matters for few rows only, as it
    fades like everything else that was learned.

    Parameters
    ----------
    series
        How many series.
    width
        Columns of a row.
    outputs
        Labels of a row: H, or 2 H where there is a season.
    """

    def __init__(self, series: int, width: int, outputs: int) -> None:
        size = layout.length(width)
        reg = float(width)
        self.information = np.zeros((series, len(BETAS), size, 1))
        at = INFORMATION.slices(dim=width)
        self.information[:, :, at["inverse_pivots"]] = 1.0 / reg
        self.information[:, :, at["energy"]] = reg
        self.theta = np.zeros((series, len(BETAS), width, outputs))
        self.rounds = np.zeros(series)
        self._m, self._h = np.empty((1, len(BETAS), outputs)), np.empty((1, len(BETAS)))

    def settle(self, Z: Matrix, labels: Cube) -> None:
        """Learn one origin: the row (series, width) and labels (series, outputs), NaN where missing.

        A series none of whose labels is known does not age.
        """
        labels = np.ascontiguousarray(np.clip(labels, -INPUT_LIMIT, INPUT_LIMIT))
        for s in np.flatnonzero(~np.isnan(labels).all(axis=1)):
            row, own = Z[s : s + 1], labels[s : s + 1]
            status = kernels.vaw_outputs_play(
                self.information[s], self.theta[s], BETAS, int(self.rounds[s]), row, own, self._m, self._h
            )
            _check.raise_on_status("Forecaster", status, row.shape[1])
            self.rounds[s] += 1.0

    def answer(self, Z: Matrix) -> Cube:
        """Return what every memory expects of the labels to come (series, memories, outputs): VAW with hint 0."""
        out = np.empty((len(Z), *self._m.shape[1:]))
        for s in range(len(Z)):
            row = Z[s : s + 1]
            status = kernels.vaw_outputs_predict(
                self.information[s], self.theta[s], BETAS, int(self.rounds[s]), row, self._m, self._h
            )
            _check.raise_on_status("Forecaster", status, row.shape[1])
            np.divide(self._m[0], 1.0 + self._h[0][:, None], out=out[s])
        return out

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays by name, the very objects."""
        return {"information": self.information, "theta": self.theta, "member_rounds": self.rounds}


class KnownEffect:
    """What columns that are known in advance do to all series: moves explained by the columns' moves, row by row."""

    def __init__(self, series: int, columns: int) -> None:
        self.information = layout.fresh(columns, np.array([KNOWN_REG]))
        self.theta = np.zeros((1, columns, series))
        self.rounds = np.zeros(1)

    def learn(self, step: Vector, moves: Vector) -> None:
        """Learn one row: the scaled moves of the columns, and the moves of the series, NaN where missing."""
        if np.isnan(moves).all():
            return
        m, h = np.empty((1, 1, len(moves))), np.empty((1, 1))
        labels = np.clip(moves, -INPUT_LIMIT, INPUT_LIMIT)[None, :]
        status = kernels.vaw_outputs_play(
            self.information, self.theta, BETAS[3:4], int(self.rounds[0]), step[None, :], labels, m, h
        )
        _check.raise_on_status("Forecaster", status, len(step))
        self.rounds[0] += 1.0

    def explain(self, steps: Matrix) -> Matrix:
        """Return the part of the series' moves that these moves of the columns explain (rows, series)."""
        m, h = np.empty((len(steps), 1, self.theta.shape[2])), np.empty((len(steps), 1))
        rounds = int(self.rounds[0])
        status = kernels.vaw_outputs_predict(self.information, self.theta, BETAS[3:4], rounds, steps, m, h)
        _check.raise_on_status("Forecaster", status, steps.shape[1])
        return np.asarray(m[:, 0] / (1.0 + h))

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays by name, the very objects."""
        return {"known_information": self.information, "known_theta": self.theta, "known_rounds": self.rounds}

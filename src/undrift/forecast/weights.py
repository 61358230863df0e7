r"""Weights of the candidates for every step, judged on the forecasts that were served.

The forecast of step h made at origin t - h is judged when row t comes. A candidate's loss is its discounted sum of
squared residuals; in place of it counts

$$A_i=L_i-L_0+\max(0,S_i-S_r),\qquad S_i=\sqrt{h\,\sum_s\beta^{t-s}(\ell_{i,s}-\ell_{0,s})^2},$$

its difference to "same as last time" plus one standard error: neighbouring forecasts of step h overlap, so that n of
them say as much as n / h. Whoever wants to be listened to must be better than no change by more than chance, which is
why series that cannot be forecast (exchange rates) cost next to nothing. Here r is the better of "same as last time"
and "same as last season": neither learns anything that could be chance, so once the season leads, its own standard
error counts against nobody, and it is listened to when it has come back once. Before any loss r is believed as much as
all others together. Weights are
$\exp(-A_i/(10\sqrt h\,v))$, v the mean loss of the best candidate.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix
from undrift.kernels.definitions import WILD

MEMORY = 1000.0
"""Rows over which losses are remembered."""
BETA = 1.0 - 1.0 / MEMORY
STANDARD_ERRORS = 1.0
"""Standard errors that count against a candidate, besides its losses."""
TEMPERATURE = 10.0
"""Mean losses of one step ahead by which a candidate must be worse for its weight to fall by e."""

Cube = NDArray[np.float64]


class StepWeights:
    """Losses of all candidates (series, candidates, steps); the first two are "same as last time" and "... season"."""

    def __init__(self, series: int, candidates: int, horizon: int) -> None:
        shape = (series, candidates, horizon)
        self.losses, self.squares = np.zeros(shape), np.zeros(shape)
        self.counts = np.zeros((series, horizon))
        self.steps = np.sqrt(np.arange(1.0, horizon + 1.0))
        self.bonus = math.log(max(1, candidates - 1))
        """Log-weight by which the better naive forecast is believed beforehand: as much as all others together."""

    def judge(self, residuals: Cube, judged: NDArray[np.bool_]) -> None:
        """Count the residuals (series, candidates, steps) of the forecasts that the newest row decides.

        A loss counts at most WILD^2 mean losses of the best candidate, so that a spike in the data does not decide who
        is listened to for the next thousand rows. What is not `judged` is left out.
        """
        best = self.losses.min(axis=1) / np.maximum(self.counts, 1.0)
        most = np.where(best > 0.0, WILD * WILD * best, np.inf)[:, None, :]
        loss = np.minimum(residuals * residuals, most)
        excess = loss - loss[:, :1]
        here = judged[:, None, :]
        self.losses = np.where(here, BETA * self.losses + loss, self.losses)
        self.squares = np.where(here, BETA * self.squares + excess * excess, self.squares)
        self.counts = np.where(judged, BETA * self.counts + 1.0, self.counts)

    def weights(self) -> Cube:
        """Return the weights of the candidates (series, candidates, steps), which add up to 1."""
        mean = self.losses.min(axis=1) / np.maximum(self.counts, 1.0)
        season_leads = self.losses[:, 1] < self.losses[:, 0]
        error = STANDARD_ERRORS * self.steps * np.sqrt(self.squares)
        error = np.maximum(error - np.where(season_leads, error[:, 1], 0.0)[:, None, :], 0.0)
        excess = self.losses - self.losses[:, :1] + error
        prior = np.zeros_like(excess)
        prior[:, 0], prior[:, 1] = self.bonus * ~season_leads, self.bonus * season_leads
        with np.errstate(over="ignore"):
            score = prior - excess / np.maximum(TEMPERATURE * self.steps * mean, 1e-300)[:, None, :]
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def replace(self, other: StepWeights, count: int) -> None:
        """Take over the losses of the first `count` candidates, which were judged again on the same rows."""
        self.losses[:, :count], self.squares[:, :count], self.counts = other.losses, other.squares, other.counts

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays by name."""
        return {"losses": self.losses, "squares": self.squares, "counts": self.counts}

    def load(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        """Take over saved arrays."""
        self.losses, self.squares, self.counts = arrays["losses"], arrays["squares"], arrays["counts"]


def mix(weights: Cube, answers: Cube) -> Matrix:
    """Return the weighted mean of the candidates' answers (series, steps), exact where all say the same."""
    first = answers[:, :1]
    return np.asarray(first[:, 0] + (weights * (answers - first)).sum(axis=1))


def speak_for_silent(weights: Cube, answers: Cube) -> None:
    """Let a candidate that says nothing of a step (NaN) say what the others together do, in place.

    The forecast is then theirs, and so is its loss: whoever is silent neither gains nor loses. The first one never is.
    """
    silent = np.isnan(answers)
    if silent.any():
        heard = np.where(silent, 0.0, weights)
        said = np.where(silent, answers[:, :1], answers)
        together = mix(heard / np.maximum(heard.sum(axis=1, keepdims=True), 1e-300), said)
        answers[...] = np.where(silent, together[:, None, :], answers)

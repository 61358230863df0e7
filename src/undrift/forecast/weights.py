r"""Weights of the candidates for every step, judged on the forecasts that were served.

The forecast of step h made at origin t - h is judged when row t comes. Candidates are mixed by BOA on gradient losses:
a candidate that says a where the mixture says p gains $r=2(p-y)(p-a)$, in units of the recent mean squared error, and
with sums R, V of r and r squared and E the largest |r|, all discounted, its weight is

$$w\propto\pi\,\eta\,e^{\eta R-\eta^2V},\qquad\eta=\min\{1/2E,\ \sqrt{\ln C/V}\}.$$

What is served trusts the mixture only as far as it is better than chance. Let x be the move that it forecast away
from the last value, and z the one that came, both in units of recent errors; let b be the slope of z on x and t that
slope in standard errors, n overlapping forecasts of step h counting as n / h. Then $J=\max\{0,1-1/t^2\}$, half of it
the mean over the steps, and the forecast served is J times the last value plus b x, and 1 - J times the naive
forecast that has lost least. So series that cannot be forecast (exchange rates) cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import StepSum

Cube = NDArray[np.float64]


class StepWeights:
    """Regrets and losses of all candidates of all series, step by step.

    Parameters
    ----------
    series
        How many series.
    prior
        How much each candidate counts before anything is known.
    followed
        Candidates whose own losses are kept, by number: first the naive ones.
    naive
        How many of them are naive; the first is "same as last time".
    horizon
        Steps ahead.
    """

    def __init__(self, series: int, prior: Sequence[float], followed: Sequence[int], naive: int, horizon: int) -> None:
        self.prior = np.asarray(prior) / np.sum(prior)
        self.followed, self.naive = np.array(followed, np.int64), naive
        self.regrets = np.zeros((series, 3, len(self.prior), horizon))
        self.sums = np.zeros((series, len(StepSum), horizon))
        self.losses = np.zeros((series, len(followed), horizon))

    def judge(self, answers: NDArray[np.float64], mixed: Cube, row: int, y: Vector) -> None:
        """Judge what was said of a row.

        Parameters
        ----------
        answers
            What all candidates said after the last origins, at the place `origin % horizon` (origins, series,
            candidates, steps).
        mixed
            What the mixture said (origins, series, steps); NaN where there was nothing to forecast from.
        row
            The number of the row.
        y
            Its values (series), NaN where missing.
        """
        kernels.steps_judge(self.regrets, self.sums, self.losses, self.followed, answers, mixed, row, y)

    def mix(self, answers: Cube) -> tuple[Matrix, Matrix]:
        """Return what the mixture says, and what is served (series, steps).

        Where a candidate has no forecast of a step (NaN), the mixture's takes its place in `answers`, so that its
        regret there is 0. Candidate 0 always has one.
        """
        mixed, served = np.empty((2, answers.shape[0], answers.shape[2]))
        self._mix(answers, np.empty_like(answers), mixed, served)
        return mixed, served

    def weights(self) -> Cube:
        """Return the weights of the candidates in the mixture (series, candidates, steps), which add up to 1."""
        shape = self.regrets[:, 0].shape
        weights, unused = np.empty(shape), np.empty((shape[0], shape[2]))
        self._mix(np.zeros(shape), weights, unused, unused.copy())
        return weights

    def _mix(self, answers: Cube, weights: Cube, mixed: Matrix, served: Matrix) -> None:
        kernels.steps_mix(self.regrets, self.sums, self.losses, self.prior, self.naive, answers, weights, mixed, served)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays by name, the very objects."""
        return {"regrets": self.regrets, "sums": self.sums, "losses": self.losses}

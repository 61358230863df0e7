"""How good forecasts were, beside the two naive ones, over the origins and steps that have become known."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.forecast import Forecast
from undrift.forecast.recent_rows import fill_forward

PREDICTORS = ("undrift", "same as last time", "same as last season")
PARTS = ("squares", "sizes", "counts", "inside", "pinball", "buffer", "rows")
"""Names of the arrays of `StepScores`."""
Cube = NDArray[np.float64]


class ForecastScores(NamedTuple):
    """Scores of all predictors over the same origins, steps and series."""

    judged: int
    """Forecasts that could be judged."""
    mse: Vector
    """Mean squared errors of PREDICTORS, NaN without a season."""
    mae: Vector
    """Mean absolute errors."""
    mase: Vector
    """Mean absolute errors in units of the mean absolute difference of values `mase_rows` apart."""
    mase_rows: int
    """The season; 1 without one."""
    pinball: float
    """Mean pinball loss of both ends of the intervals."""
    mse_by_step: Matrix
    """(predictors, steps)."""
    coverage_by_step: Vector
    """Part of the values inside their intervals."""

    def as_dict(self) -> dict[str, Any]:
        """Return the scores for JSON; what is not a number is None."""

        def plain(values: Any) -> Any:
            if isinstance(values, np.ndarray):
                return [plain(one) for one in values.tolist()] if values.ndim == 1 else [plain(one) for one in values]
            return values if not isinstance(values, float) or math.isfinite(values) else None

        return {"predictors": list(PREDICTORS)} | {name: plain(value) for name, value in self._asdict().items()}


class ScoreSums:
    """Sums by step of the errors of PREDICTORS, over the values for which all of them have a forecast.

    Parameters
    ----------
    steps
        How many.
    level
        Level of the intervals.
    """

    def __init__(self, steps: int, level: float) -> None:
        self.level = level
        self.squares, self.sizes = np.zeros((2, len(PREDICTORS), steps))
        self.counts, self.inside, self.pinball = np.zeros((3, steps))

    def add(self, steps: slice, y: Matrix, guesses: Cube, lower: Matrix, upper: Matrix) -> None:
        """Add forecasts (predictors, steps, n) and intervals (steps, n) of values y (steps, n); NaN: there is none."""
        there = ~(np.isnan(y) | np.isnan(guesses).any(axis=0))
        off = np.where(there, guesses - y, 0.0)
        self.squares[:, steps] += np.sum(off * off, axis=2)
        self.sizes[:, steps] += np.sum(np.abs(off), axis=2)
        self.counts[steps] += np.count_nonzero(there, axis=1)
        self.inside[steps] += np.count_nonzero(there & (lower <= y) & (y <= upper), axis=1)
        bounded = there & np.isfinite(lower) & np.isfinite(upper)
        for end, p in ((lower, (1.0 - self.level) / 2.0), (upper, (1.0 + self.level) / 2.0)):
            below = np.where(bounded, y, 0.0) - np.where(bounded, end, 0.0)
            self.pinball[steps] += np.sum(np.maximum(p * below, (p - 1.0) * below), axis=1) / 2.0

    def scores(self, season: int, unit: float | None = None) -> ForecastScores:
        """Return the mean scores.

        Parameters
        ----------
        season
            Of "same as last season"; 0: there is none.
        unit
            Of MASE; None: the mean absolute error, one step ahead, of the naive forecast of the season, or of the last
            value without one.
        """
        judged, each = self.counts.sum(), np.where(self.counts > 0, self.counts, np.nan)
        total = judged if judged else math.nan
        has = np.array([1.0, 1.0, 1.0 if season else math.nan])
        mae = has * self.sizes.sum(axis=1) / total
        if unit is None:
            unit = float(self.sizes[2 if season else 1, 0] / each[0])
        return ForecastScores(
            int(judged),
            has * self.squares.sum(axis=1) / total,
            mae,
            mae / unit if unit > 0.0 else np.full(len(PREDICTORS), np.nan),
            season or 1,
            float(self.pinball.sum()) / total,
            has[:, None] * self.squares / each,
            self.inside / each,
        )


class StepScores(ScoreSums):
    """Scores of one series, judged as the values come: a state that can be saved.

    "Same as last season" is by the season known when the forecast was made.
    """

    def __init__(self, horizon: int, level: float) -> None:
        super().__init__(horizon, level)
        self.horizon = horizon
        self.buffer = np.full((horizon, len(PREDICTORS) + 2, horizon), np.nan)
        """What was forecast at the last origins, at the place `origin % horizon`: PREDICTORS, lower and upper ends."""
        self.rows = np.zeros(1)

    def observe(self, value: float, said: Forecast | None, naive: Matrix | None) -> None:
        """Judge what was forecast of a value, NaN where it is missing, and keep what is forecast after it."""
        t, h = int(self.rows[0]), np.arange(1, self.horizon + 1)
        *guesses, lower, upper = self.buffer[(t - h) % self.horizon, :, h - 1].T[:, :, None]
        self.add(slice(None), np.full((self.horizon, 1), value), np.stack(guesses), lower, upper)
        place = t % self.horizon
        self.buffer[place] = np.nan
        if said is not None and naive is not None:
            self.buffer[place] = np.stack([said.yhat, *naive, said.lower, said.upper])
        self.rows[0] += 1.0

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays by name, the very objects."""
        return {name: getattr(self, name) for name in PARTS}

    def load(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        """Take over saved arrays."""
        for name, own in self.arrays().items():
            own[...] = arrays[name]


def score(
    values: Matrix, yhat: Cube, lower: Cube, upper: Cube, *, every: int, season: int, level: float
) -> ForecastScores:
    """Return the scores of forecasts (origins, series, steps) made after the rows 0, every, 2 every, ... of `values`.

    A forecast counts if its value is known, if it was made from at least one value, and with a season only where the
    season before is known too: all predictors are judged on the same forecasts.
    """
    apart, rows, origin = season or 1, len(values), np.arange(len(yhat)) * every
    last, before = fill_by_season(values, 1), fill_by_season(values, apart)
    sums = ScoreSums(yhat.shape[2], level)
    for h in range(1, yhat.shape[2] + 1):
        at = origin[origin + h < rows]
        place = (at + h - apart * -(-h // apart))[:, None]
        naive = last[at], np.where(place >= 0, before[np.maximum(place[:, 0], 0)], np.nan)
        ours, low, high = (part[: len(at), :, h - 1].reshape(1, -1) for part in (yhat, lower, upper))
        guesses = np.stack([ours, *(guess.reshape(1, -1) for guess in naive)])
        sums.add(slice(h - 1, h), values[at + h].reshape(1, -1), guesses, low, high)
    moves = np.abs(values[apart:] - before[:-apart])
    known = moves[~np.isnan(moves)]
    return sums.scores(season, float(known.mean()) if len(known) else 0.0)


def fill_by_season(values: Matrix, season: int) -> Matrix:
    """Return the last known value with each row's place in the season; NaN before the first."""
    filled = np.empty_like(values)
    for place in range(min(season, len(values))):
        filled[place::season] = fill_forward(values[place::season])
    return filled


class CandidateScore(NamedTuple):
    """How good a candidate's own forecasts were, and ours where it forecast."""

    name: str
    judged: int
    """Forecasts of the candidate that could be judged."""
    mse: float | None
    """Mean squared error of the candidate; None where nothing was judged."""
    mae: float | None
    """Mean absolute error."""
    undrift_mse: float | None
    """Mean squared error of the forecasts served for the same values."""
    undrift_mae: float | None
    """Their mean absolute error."""


def score_candidates(
    values: Matrix, yhat: Cube, own: Cube, *, every: int, names: tuple[str, ...]
) -> list[CandidateScore]:
    """Return the scores of own forecasts (origins, series, candidates, steps), each over all values it speaks of."""
    origin, rows = np.arange(len(yhat)) * every, len(values)
    totals, counts = np.zeros((len(names), 4)), np.zeros(len(names))
    for h in range(1, yhat.shape[2] + 1):
        at = origin[origin + h < rows]
        truth, served = values[at + h], yhat[: len(at), :, h - 1]
        for k in range(len(names)):
            said = own[: len(at), :, k, h - 1]
            there = ~(np.isnan(truth) | np.isnan(served) | np.isnan(said))
            counts[k] += np.count_nonzero(there)
            for j, guess in enumerate((said, served)):
                off = (guess - truth)[there]
                totals[k, 2 * j] += np.sum(off * off)
                totals[k, 2 * j + 1] += np.sum(np.abs(off))
    scores = []
    for name, count, total in zip(names, counts, totals, strict=True):
        means = [float(one) / float(count) if count else None for one in total]
        scores.append(CandidateScore(name, int(count), *means))
    return scores

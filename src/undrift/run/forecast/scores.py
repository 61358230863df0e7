"""How good forecasts were, beside the two naive ones, over the origins and steps that have become known."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.forecast.recent_rows import fill_forward

PREDICTORS = ("undrift", "same as last time", "same as last season")
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
    """The same in units of the mean absolute move from row to row."""
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


def score(
    values: Matrix, yhat: Cube, lower: Cube, upper: Cube, *, every: int, season: int, level: float
) -> ForecastScores:
    """Return the scores of forecasts (origins, series, steps) made after the rows 0, every, 2 every, ... of `values`.

    A forecast counts if its value is known, if it was made from at least one value, and with a season only where the
    season before is known too: all predictors are judged on the same forecasts.
    """
    filled = fill_forward(values)
    rows, steps = len(values), yhat.shape[2]
    origin = np.arange(len(yhat)) * every
    squares, sizes = np.zeros((len(PREDICTORS), steps)), np.zeros((len(PREDICTORS), steps))
    counts, inside, pinball = np.zeros(steps), np.zeros(steps), 0.0
    low, high = (1.0 - level) / 2.0, (1.0 + level) / 2.0
    for h in range(1, steps + 1):
        at = origin[origin + h < rows]
        n, truth = len(at), values[at + h]
        before = at + h - season * -(-h // season) if season else at
        there = ~np.isnan(truth) & ~np.isnan(filled[at]) & ~np.isnan(yhat[:n, :, h - 1])
        there &= (before >= 0)[:, None] & ~np.isnan(filled[np.maximum(before, 0)])
        guesses = (yhat[:n, :, h - 1], filled[at], filled[np.maximum(before, 0)])
        counts[h - 1] = np.count_nonzero(there)
        for k, guess in enumerate(guesses):
            off = (guess - truth)[there]
            squares[k, h - 1], sizes[k, h - 1] = np.sum(off * off), np.sum(np.abs(off))
        ends = [end[:n, :, h - 1][there] for end in (lower, upper)]
        y = truth[there]
        inside[h - 1] = np.count_nonzero((ends[0] <= y) & (y <= ends[1]))
        bounded = np.isfinite(ends[0]) & np.isfinite(ends[1])
        for end, p in zip(ends, (low, high), strict=True):
            off = (y - end)[bounded]
            pinball += float(np.sum(np.maximum(p * off, (p - 1.0) * off)))
    if not season:
        squares[2] = sizes[2] = np.nan
    judged, each = counts.sum(), np.where(counts > 0, counts, np.nan)
    total = judged if judged else math.nan
    moves = np.abs(np.diff(filled, axis=0))
    usual = float(np.nanmean(moves)) if moves.size and not np.isnan(moves).all() else 0.0
    mae = sizes.sum(axis=1) / total
    return ForecastScores(
        int(judged),
        squares.sum(axis=1) / total,
        mae,
        mae / usual if usual > 0.0 else np.full(len(PREDICTORS), np.nan),
        pinball / (2.0 * total),
        squares / each,
        inside / each,
    )


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

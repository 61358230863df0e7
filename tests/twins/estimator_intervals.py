"""NumPy twin of an online regressor's intervals: quantiles whose distances follow the row and the time.

    spread   s = unit exp(w'c): the mean |residual| times what columns c of the row and its context say (`SpreadColumn`)
    quantile   yhat + s (m - a e f) below the median, yhat + s (m + b e g) above it; f, g by the fifth of the prediction

The coefficients w are those of a Kalman filter for the logarithm of |residual|. The median's m, the widths a and b of
every level, and the factors f and g of predictions of about this size follow by adaptive conformal inference: each
label moves them by how often the quantile should have been missed, against whether it was. So levels are kept, for
large predictions as for small ones, whatever the spread model says. The factor e of a level answers misses that follow
each other closely: it rises with the misses of the last rounds beyond those expected, and returns to 1 within about
MISS_ROUNDS.

Residuals often differ in size by the place of the row in a season, such as the hour of the day. For every length of
`SeasonLength` the mean |residual| at each place is kept, and the length that predicted best so far gives a column.
Places are counted in judged rows, so a row that is served while labels are late is taken to be as many rows ahead as
the last label was late.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tests.twins.constants import (
    CUT_ROUNDS,
    CUT_STEP,
    FIFTH_STEP,
    FIRST_CUT_STEP,
    FIRST_RESPONSE,
    FIRST_STEP,
    LARGEST_FACTOR,
    LAST_RESIDUALS,
    LATE_POWER,
    LATE_ROUNDS,
    LATE_STEP,
    LEAST_RATIO,
    LEAST_RESPONSE,
    LEAST_STEP,
    MEDIAN_STEP,
    MISS_ROUNDS,
    MOST_LOG_SPREAD,
    MOST_SPREAD_INPUT,
    MOST_SURPRISE,
    RECENT_RESIDUALS,
    RESPONSE_ROUNDS,
    SEASON_LOSS_ROUNDS,
    SEASON_VISITS,
    SPREAD_DRIFT,
    STEP_ROUNDS,
    STEP_TAIL,
)
from tests.twins.estimator_candidates import CandidateStages
from tests.twins.estimator_context import ScaledRow
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import (
    FIFTHS,
    INTERVAL_ROUNDS,
    LARGEST_WIDTH,
    SMALLEST_WIDTH,
    SPREAD_PRIOR,
    WILD,
    SeasonLength,
    SpreadColumn,
)
from undrift.kernels.definitions import EstimatorNumber as N
from undrift.kernels.definitions import IntervalState as I
from undrift.kernels.definitions import LabelContext as L

CUTS = (SpreadColumn.FIRST_CUT, SpreadColumn.SECOND_CUT, SpreadColumn.THIRD_CUT, SpreadColumn.FOURTH_CUT)


class IntervalParts(NamedTuple):
    """The parts of a state that intervals are made of, as views."""

    intervals: Vector
    """The numbers of `IntervalState`, then widths below, widths above, excess misses and hits of all levels."""
    fifths: Vector
    """The cuts between fifths of predictions, in label scales, and the logarithms of the factors f, then g, of each."""
    seasons: Vector
    """The mean loss without a season and by each; the sums of the places of each; the mean |residual| at each place."""
    coefficients: Vector
    """Of the spread model: the columns of `SpreadColumn`, then the first scaled features, perhaps none."""
    covariance: Matrix
    """Their covariance."""
    tails: Vector
    """The share of labels that lies beyond either end, level by level."""

    def split(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Return the widths below and above the median, the excess misses and the hits, as views."""
        below, above, excess, hits = np.split(self.intervals[len(I) :], 4)
        return below, above, excess, hits

    def split_seasons(self) -> tuple[Vector, Vector, list[Vector]]:
        """Return the losses, without a season first, and the sums and the places of each season, as views."""
        losses, sums, places = np.split(self.seasons, np.cumsum([1 + len(SeasonLength), len(SeasonLength)]))
        return losses, sums, np.split(places, np.cumsum([*SeasonLength])[:-1])

    def split_fifths(self) -> tuple[Vector, Vector, Vector]:
        """Return the cuts and the logarithms of the factors below and above the median, as views."""
        cuts, below, above = np.split(self.fifths, [FIFTHS - 1, 2 * FIFTHS - 1])
        return cuts, below, above


class IntervalStages(CandidateStages):
    """Quantiles of the labels around the predictions of the candidates' mixture."""

    @property
    def quantiles(self) -> int:
        """How many quantiles there are: two of every level and the median; none of two classes."""
        return 2 * len(self.tails) + 1 if len(self.tails) else 0

    @property
    def interval_numbers(self) -> int:
        """How many numbers of a record are about intervals: the quantiles, the unit, the first spread columns."""
        return self.quantiles + 1 + len(SpreadColumn) if self.quantiles else 0

    def interval_parts(self, state: Vector) -> IntervalParts:
        """Return what intervals are made of."""
        names = ("intervals", "fifths", "seasons", "spread.coefficients", "spread.covariance")
        intervals, fifths, seasons, coefficients, covariance = (self.part(state, name) for name in names)
        covariance = covariance.reshape(2 * coefficients.shape)
        return IntervalParts(intervals, fifths, seasons, coefficients, covariance, self.tails)

    def serve_intervals(self, state: Vector, row: ScaledRow, yhat: float, candidates: Vector) -> Vector:
        """Return the numbers of a record that are about intervals."""
        if not self.quantiles:
            return np.empty(0)
        parts, numbers = self.interval_parts(state), self.part(state, "numbers")
        center, scale = float(numbers[N.CENTER]), float(numbers[N.LABEL_SCALE]) or 1.0
        learned = candidates[: len(self.families) + 1]  # all but the naive baselines
        served = spread_columns(parts, yhat, learned, float(row.labels[L.LAST]), center, scale)
        return np.concatenate([serve_quantiles(parts, served, row.x, yhat), served])

    def read_quantiles(self, numbers: Vector, bounded: bool) -> Vector:
        """Return the quantiles of a record; without an interval they are infinite, and the median is the prediction."""
        quantiles = numbers[: self.quantiles].copy()
        if not bounded:
            quantiles[: len(self.tails)], quantiles[len(self.tails) + 1 :] = -np.inf, np.inf
        return quantiles


def has_interval(intervals: Vector, label_min: float, label_max: float, late: float) -> bool:
    """Return whether there is an interval for a row `late` rows after the last one whose label is known.

    Two different labels were settled, some prediction was found wrong, and at least `late` of them were judged, since
    that many neighbours tell little more than one.
    """
    if not len(intervals):
        return False
    wrong, enough = intervals[I.UNIT] > 0.0, intervals[I.RESIDUALS] >= late
    return bool(label_min < label_max and wrong and enough)


def log_ratio(part: float, unit: float) -> float:
    """Return the logarithm of part / unit + LEAST_RATIO, cut at MOST_SPREAD_INPUT."""
    with np.errstate(over="ignore"):
        return cut(math.log(float(np.float64(part) / max(unit, 1e-300)) + LEAST_RATIO), MOST_SPREAD_INPUT)


def cut(x: float, most: float) -> float:
    """Return a number brought into [-most, most]."""
    return min(max(x, -most), most)


def spread_columns(
    parts: IntervalParts, yhat: float, candidates: Vector, last_label: float, center: float, scale: float
) -> Vector:
    """Return the unit and the columns of `SpreadColumn` of a row; `last_label` is in label scales from the centre."""
    n, size = parts.intervals, (yhat - center) / scale
    unit, distances = float(n[I.UNIT]), candidates - yhat
    with np.errstate(over="ignore"):
        disagreement = math.sqrt(float(np.sum(distances * distances)) / len(candidates))
    row = int(n[I.RESIDUALS] + max(n[I.LATE], 1.0)) - 1
    season = season_sizes(parts, row)[int(np.argmin(parts.split_seasons()[0]))]
    size_cut = cut(size, MOST_SPREAD_INPUT)
    steps = [0.5 if size_cut > one else -0.5 for one in parts.split_fifths()[0]]
    columns = {
        SpreadColumn.CONSTANT: 1.0,
        SpreadColumn.PREDICTION: size_cut,
        **dict(zip(CUTS, steps, strict=True)),
        SpreadColumn.DISAGREEMENT: log_ratio(disagreement, unit),
        SpreadColumn.RECENT: log_ratio(float(n[I.RECENT]), unit),
        SpreadColumn.LAST: log_ratio(float(n[I.LAST]), unit),
        SpreadColumn.MOVE: log_ratio(abs(size - last_label) * scale, unit),
        SpreadColumn.SEASON: math.log(season),
    }
    return np.array([unit, *(columns[which] for which in SpreadColumn)])


def season_sizes(parts: IntervalParts, row: int) -> Vector:
    """Return the relative size of a row's residual that is predicted without a season, 1, and by each season.

    A season predicts the mean |residual| at the row's place over that of all its places. Without the division the
    season that follows the level of the last residuals most quickly would be preferred.
    """
    _, sums, places = parts.split_seasons()
    sizes = (means[row % len(means)] * len(means) / total for means, total in zip(places, sums, strict=True))
    return np.array([1.0, *(min(max(size, LEAST_RATIO), 1.0 / LEAST_RATIO) for size in sizes)])


def learn_seasons(parts: IntervalParts, size: float) -> None:
    """Learn a |residual| in units, at least LEAST_RATIO; the loss of a predicted size m is ln m + size / m."""
    size = max(size, LEAST_RATIO)
    losses, sums, places = parts.split_seasons()
    row = int(parts.intervals[I.RESIDUALS])
    predicted = season_sizes(parts, row)
    losses += (np.log(predicted) + size / predicted - losses) / min(row + 1.0, SEASON_LOSS_ROUNDS)
    for k, means in enumerate(places):
        move = (size - means[row % len(means)]) / min(row // len(means) + 2.0, SEASON_VISITS)
        means[row % len(means)] += move
        sums[k] += move


def miss_factors(parts: IntervalParts) -> Vector:
    """Return the factor e of every level.

    With z excess misses in standard deviations, cut at MOST_SPREAD_INPUT,

        ln e = response (z + max(z - 1, 0)^2)

    The response falls with the rounds, and is divided by how late labels are: misses that are known late say little
    of the next row.
    """
    n, excess, share = parts.intervals, parts.split()[2], 2.0 * parts.tails
    response = max(LEAST_RESPONSE, FIRST_RESPONSE / (1.0 + float(n[I.ROUNDS]) / RESPONSE_ROUNDS))
    deviations = np.sqrt(0.5 * MISS_ROUNDS * share * (1.0 - share))
    z = np.clip(excess / deviations, -MOST_SPREAD_INPUT, MOST_SPREAD_INPUT)
    return np.asarray(np.exp(response / max(float(n[I.LATE]), 1.0) * (z + np.maximum(z - 1.0, 0.0) ** 2)))


def spread_row(parts: IntervalParts, columns: Vector, x: Vector) -> Vector:
    """Return the spread model's row: its columns and as many scaled features as it sees."""
    seen = x[: len(parts.coefficients) - len(SpreadColumn)]
    return np.concatenate([columns, np.clip(seen, -MOST_SPREAD_INPUT, MOST_SPREAD_INPUT)])


def serve_quantiles(parts: IntervalParts, served: Vector, x: Vector, yhat: float) -> Vector:
    """Return the quantiles of a row for which `served`, the unit and the columns of `SpreadColumn`, holds.

    Widths of rarer levels are no smaller: the cumulative maximum from the most frequent level on.
    """
    n, (below, above, *_), factors = parts.intervals, parts.split(), miss_factors(parts)
    log_spread = cut(float(parts.coefficients @ spread_row(parts, served[1:], x)), MOST_LOG_SPREAD)
    spread, (_, f, g), fifth = float(served[0]) * math.exp(log_spread), parts.split_fifths(), fifth_of(served)
    median = yhat + spread * float(n[I.MEDIAN])
    low = spread * math.exp(f[fifth]) * np.maximum.accumulate(below * factors)
    high = spread * math.exp(g[fifth]) * np.maximum.accumulate(above * factors)
    return np.concatenate([median - low[::-1], [median], median + high])


def fifth_of(served: Vector) -> int:
    """Return the fifth of predictions that a row's belongs to, 0 for the smallest."""
    return sum(served[1 + which] > 0.0 for which in CUTS)


def step_size(rounds: float, late: float) -> float:
    """Return the step of the quantile with tail STEP_TAIL after so many rounds, for a label that came `late` rows late.

    Many late labels come to bear before the first one shows: LATE_STEP / late^LATE_POWER is the most.
    """
    step = max(LEAST_STEP, FIRST_STEP / math.sqrt(1.0 + rounds / STEP_ROUNDS))
    return float(min(step, LATE_STEP / late**LATE_POWER))


def follow_quantiles(
    parts: IntervalParts, numbers: Vector, x: Vector, bounded: bool, yhat: float, y: float, late: float
) -> None:
    """Update the intervals with a label whose row was served this prediction and, if `bounded`, an interval.

    `numbers` are those of its record, x is the row in the scales of now. A label beyond a quantile with tail tau
    adds step (1 - tau) to the logarithm of its width, any other takes step tau from it. With r = y - yhat,

        unit <- unit + (min(|r|, WILD unit) - unit) / min(residuals, max(INTERVAL_ROUNDS, LATE_ROUNDS late))
    """
    if not len(parts.tails):
        return
    n, late, residual = parts.intervals, max(late, 1.0), abs(y - yhat)
    quantiles, served = np.split(numbers, [2 * len(parts.tails) + 1])
    if bounded:
        _move_quantiles(parts, quantiles, fifth_of(served), y, late)
        _learn_spread(parts, served, x, residual, late)
        n[I.ROUNDS] += 1.0
    unit = float(n[I.UNIT])
    counted = min(residual, WILD * unit) if unit > 0.0 else residual
    if unit > 0.0:
        learn_seasons(parts, counted / unit)
    n[I.LATE] = late
    n[I.RESIDUALS] += 1.0
    count, longest = float(n[I.RESIDUALS]), max(INTERVAL_ROUNDS, LATE_ROUNDS * late)
    cuts, size = parts.split_fifths()[0], float(served[1 + SpreadColumn.PREDICTION])
    for k in range(FIFTHS - 1):  # running quantiles
        cuts[k] += max(CUT_STEP, min(FIRST_CUT_STEP, CUT_ROUNDS / count)) * ((k + 1) / FIFTHS - (size < cuts[k]))
    for which, rounds in ((I.UNIT, longest), (I.RECENT, RECENT_RESIDUALS), (I.LAST, LAST_RESIDUALS)):
        n[which] += (counted - n[which]) / min(count, rounds)


def _move_quantiles(parts: IntervalParts, quantiles: Vector, fifth: int, y: float, late: float) -> None:
    n, (below, above, excess, hits), levels = parts.intervals, parts.split(), len(parts.tails)
    _, f, g = parts.split_fifths()
    step = step_size(float(n[I.ROUNDS]), late)
    slow_step = step / late**LATE_POWER  # of what neighbouring rows push the same way
    for k, tail in enumerate(parts.tails.tolist()):
        under, over = y < quantiles[levels - 1 - k], y > quantiles[levels + 1 + k]
        own = step * math.sqrt(STEP_TAIL / tail)
        below[k] = min(max(below[k] * math.exp(own * (under - tail)), SMALLEST_WIDTH), LARGEST_WIDTH)
        above[k] = min(max(above[k] * math.exp(own * (over - tail)), SMALLEST_WIDTH), LARGEST_WIDTH)
        f[fifth] = cut(f[fifth] + FIFTH_STEP * slow_step * (under - tail), LARGEST_FACTOR)
        g[fifth] = cut(g[fifth] + FIFTH_STEP * slow_step * (over - tail), LARGEST_FACTOR)
        excess[k] += (under or over) - 2.0 * tail - excess[k] / MISS_ROUNDS
        hits[k] += not (under or over)
    side = float(y > quantiles[levels]) - float(y < quantiles[levels])
    n[I.MEDIAN] += 0.5 * MEDIAN_STEP * slow_step * side


def _learn_spread(parts: IntervalParts, served: Vector, x: Vector, residual: float, late: float) -> None:
    """Learn |residual| = s times a number whose mean is 1, by a Kalman step linearised at the spread s of now.

    Late labels count late^LATE_POWER times less. No variance grows beyond SPREAD_PRIOR: what rows never show is as
    unknown as at first, and no more.
    """
    w, P, c = parts.coefficients, parts.covariance, spread_row(parts, served[1:], x)
    spread = float(served[0]) * math.exp(cut(float(w @ c), MOST_LOG_SPREAD))
    surprise = min(residual / spread, MOST_SURPRISE) - 1.0
    k = P @ c
    gain = 1.0 / (late**LATE_POWER + float(c @ k))
    w += k * (surprise * gain)
    P -= np.outer(k, k) * gain
    variances = np.diagonal(P)
    P[np.diag_indices(len(P))] = np.where(variances < SPREAD_PRIOR, variances + SPREAD_DRIFT, variances)

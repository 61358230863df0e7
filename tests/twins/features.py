r"""NumPy twin of the kernel that watches features: all features at once, a row at a time.

**Runs.** Something that happens in runs, a hole or a repeated value, is betted on to go on for ever: with
$p$ the share of rows in which it happened after what the row before was, each row multiplies by RUN_ALWAYS / p where
it happens and by (1 - RUN_ALWAYS) / (1 - p) where it does not, in a Shiryaev-Roberts sum R <- (1 + R) ratio (see
`undrift.events.change_test`). A run is counted in p when it is over. What was so from the first row on is no change,
and one run is reported once.

**Levels.** The value is regressed on the one before it, over all pairs so far. What that leaves unexplained is ranked
among the last FEATURE_WINDOW of its kind; the rank's normal score x is about standard normal while nothing changes, and
$e^{\pm\delta x-\delta^2/2}$ bets on a rise or a fall by $\delta$ deviations. Features that repeat the value before them
in more than MOST_REPEATS of the rows are not judged. For the sentence, Page's test finds since when the level may have
been another one: since the last row in which the sum of log bets on a change of PAGE_SHIFT, never below 0, was 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.twins.constants import (
    FEATURE_LEAST,
    LEAST_SHIFT,
    MOST_BETS,
    MOST_REPEATS,
    PAGE_SHIFT,
    RUN_ALWAYS,
    USUAL_ROWS,
)
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import FEATURE_WINDOW, FeatureChange, FeatureNumber, RunNumber
from undrift.kernels.layout import State

Flags = NDArray[np.bool_]


def watch_features(
    state: Matrix, Z: Matrix, scores: Vector, limit: float, found: NDArray[np.int64], levels: State
) -> int:
    """Take rows in; write what was found in each cell, and of shifts the level before and since, up and down.

    Parameters
    ----------
    state
        (features, numbers): the `FeatureNumber`s of each feature, then the window of its surprises; changed in place.
    Z
        Rows (n, features), NaN where a feature is missing.
    scores
        Normal scores of ranks at equal distances in (0, 1).
    limit
        Sums of bets that reach it are a change.
    found
        (n, features): sums of `FeatureChange`s.
    levels
        (n, features, 4), written where a shift was found.

    Returns
    -------
    int
        In how many cells something was found.
    """
    features = state.T  # a view: features[NUMBER] has an entry for each feature
    for t, values in enumerate(Z):
        found[t] = _add(features, values, scores, limit, levels[t])
    return int(np.count_nonzero(found))


def _add(f: Matrix, values: Vector, scores: Vector, limit: float, levels: Matrix) -> NDArray[np.int64]:
    there = ~np.isnan(values)
    found = FeatureChange.MISSING * _add_run(f[FeatureNumber.MISSING :], ~there, np.ones(len(values), bool), limit)
    before = f[FeatureNumber.LAST].copy()
    f[FeatureNumber.LAST, there] = values[there]
    pair = there & ~np.isnan(before)
    same = pair & (values == before)
    found += FeatureChange.FROZEN * _add_run(f[FeatureNumber.FROZEN :], same, pair, limit)
    judged = np.flatnonzero(pair & ~same & (_share(f[FeatureNumber.FROZEN :]) <= MOST_REPEATS))
    if len(judged):
        part, shown = f[:, judged], levels[judged]  # copies
        found[judged] += _add_values(part, before[judged], values[judged], scores, limit, shown)
        f[:, judged], levels[judged] = part, shown
    return found


def _add_run(f: Any, happened: Flags, given: Flags, limit: float) -> NDArray[np.int64]:
    counts = f[RunNumber.NO_NO : RunNumber.YES_YES + 1]
    after = f[RunNumber.LENGTH] > 0.0
    no, yes = np.where(after, counts[2:], counts[:2])
    ratio = np.where(happened, RUN_ALWAYS / (yes / (no + yes)), (1.0 - RUN_ALWAYS) / (no / (no + yes)))
    ends = given & ~happened
    counts[0] += ends & ~after
    over = ends & after
    counts[1] += over
    counts[2] += over
    counts[3] += np.where(over, f[RunNumber.LENGTH] - 1.0, 0.0)
    f[RunNumber.ROWS] += given
    f[RunNumber.STOPPED, ends], f[RunNumber.REPORTED, ends] = 1.0, 0.0
    length = np.where(happened, f[RunNumber.LENGTH] + 1.0, 0.0)
    f[RunNumber.LENGTH] = np.where(given, length, f[RunNumber.LENGTH])
    judged = given & (f[RunNumber.ROWS] > FEATURE_LEAST) & (f[RunNumber.STOPPED] > 0.0) & (f[RunNumber.REPORTED] == 0.0)
    bets = np.minimum((1.0 + f[RunNumber.SUM]) * ratio, MOST_BETS)
    f[RunNumber.SUM] = np.where(judged, bets, f[RunNumber.SUM])
    reached = judged & (f[RunNumber.SUM] >= limit)
    f[RunNumber.SUM, reached] = 0.0
    f[RunNumber.REPORTED, reached & happened] = 1.0
    return (reached & happened).astype(np.int64)


def _share(f: Any) -> Vector:
    counts = f[RunNumber.NO_NO : RunNumber.YES_YES + 1]
    return np.asarray((counts[1] + counts[3]) / counts.sum(axis=0))


def _add_values(
    f: Matrix, before: Vector, values: Vector, scores: Vector, limit: float, levels: Matrix
) -> NDArray[np.int64]:
    window, kept = f[FeatureNumber.END :], f[FeatureNumber.KEPT].copy()
    surprise = values - _foretell(f, before, values)
    filled = np.arange(FEATURE_WINDOW)[:, None] < kept
    below = ((window < surprise) & filled).sum(axis=0) + 0.5 * ((window == surprise) & filled).sum(axis=0)
    ranks = np.arange(1, len(scores) + 1) / (len(scores) + 1)
    score = np.interp((below + 0.5) / (kept + 1.0), ranks, scores)
    window[f[FeatureNumber.PLACE].astype(np.intp), np.arange(len(values))] = surprise
    f[FeatureNumber.PLACE] = (f[FeatureNumber.PLACE] + 1.0) % FEATURE_WINDOW
    f[FeatureNumber.KEPT] = np.minimum(kept + 1.0, FEATURE_WINDOW)
    ranked = kept >= FEATURE_LEAST
    _add_levels(f, before, values, np.where(ranked, score, 0.0))
    bets = f[FeatureNumber.BETS : FeatureNumber.USUAL].reshape(2, 3, -1)
    shifts = LEAST_SHIFT * np.arange(1.0, 4.0)[:, None]
    ratios = np.exp(np.stack([shifts * score, -shifts * score]) - shifts**2 / 2.0)
    bets[:] = np.where(ranked, np.minimum((1.0 + bets) * ratios, MOST_BETS), bets)
    up, down = shifted = ranked & (bets.mean(axis=1) >= limit)
    now = f[FeatureNumber.TOTAL : FeatureNumber.FROZEN] / np.maximum(f[FeatureNumber.SINCE : FeatureNumber.TOTAL], 1.0)
    each = np.stack([f[FeatureNumber.BEFORE : FeatureNumber.SINCE], now], axis=1)  # (ways, 2, features)
    levels.reshape(-1, 2, 2)[:] = np.where(shifted.T[:, :, None], each.transpose(2, 0, 1), levels.reshape(-1, 2, 2))
    either = up | down
    f[FeatureNumber.ROUNDS : FeatureNumber.USUAL, either] = 0.0
    f[FeatureNumber.LEVEL_ROWS, either] = f[FeatureNumber.PAGE, either] = f[FeatureNumber.PAGE + 1, either] = 0.0
    return np.asarray(FeatureChange.UP * up + FeatureChange.DOWN * down)


def _foretell(f: Matrix, before: Vector, values: Vector) -> Vector:
    moments = f[FeatureNumber.ROUNDS : FeatureNumber.COVARIANCE + 1]
    _, mean_before, mean_now, variance, covariance = moments
    slope = np.clip(covariance / np.where(variance > 0.0, variance, 1.0), -1.0, 1.0)
    expected = mean_now + slope * (before - mean_before)
    away = before - mean_before
    moments[0] += 1.0
    moments[1] += away / moments[0]
    moments[2] += (values - moments[2]) / moments[0]
    moments[3] += away * (before - moments[1])
    moments[4] += away * (values - moments[2])
    return np.asarray(expected)


def _add_levels(f: Matrix, before: Vector, values: Vector, score: Vector) -> None:
    usual = np.where(f[FeatureNumber.LEVEL_ROWS] == 0.0, before, f[FeatureNumber.USUAL])
    for way, sign in enumerate((1.0, -1.0)):
        anew = f[FeatureNumber.PAGE + way] <= 0.0
        f[FeatureNumber.BEFORE + way] = np.where(anew, usual, f[FeatureNumber.BEFORE + way])
        f[FeatureNumber.SINCE + way] = np.where(anew, 0.0, f[FeatureNumber.SINCE + way]) + 1.0
        f[FeatureNumber.TOTAL + way] = np.where(anew, 0.0, f[FeatureNumber.TOTAL + way]) + values
        bets = f[FeatureNumber.PAGE + way] + PAGE_SHIFT * sign * score - PAGE_SHIFT**2 / 2.0
        f[FeatureNumber.PAGE + way] = np.maximum(bets, 0.0)
    f[FeatureNumber.LEVEL_ROWS] += 1.0
    f[FeatureNumber.USUAL] = usual + (values - usual) / np.minimum(f[FeatureNumber.LEVEL_ROWS], USUAL_ROWS)

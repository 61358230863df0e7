"""The row of a forecast: what is known of a series, and of those beside it, at the origin of its forecast."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.forecast.calendar import calendar_columns
from undrift.kernels.definitions import CLIP, ROUNDING

LAGS = (1, 2, 3, 4, 5, 6, 8, 11, 12, 17, 22, 23, 24, 47)
"""Distances of the values that a row holds for a series without a season."""
SHORT = (1, 2, 3, 4, 5, 6, 8, 12)
ALL_LAGS = 24
"""A season up to this long is in the row whole."""
MOST_OTHERS = 16
"""A row holds every other series' last value and move up to this many; beyond, their means."""
HARMONICS = 3

Cube = NDArray[np.float64]
"""Rows by origin and series (origins, series, columns)."""


class History(NamedTuple):
    """The past as rows are made of it."""

    values: Matrix
    """Values, oldest first (rows, series); what is missing is what was expected of it."""
    first: int
    """The number of the first of these rows."""
    times: Vector | None
    """Seconds since 1970 of each row, if times were given."""


def choose_lags(seasons: tuple[int, ...]) -> tuple[int, ...]:
    """Return the distances of values in a row: neighbours, and what surrounds a season ago."""
    if not seasons:
        return LAGS
    lags = set(SHORT)
    for season in seasons:
        if season <= ALL_LAGS:
            lags.update(range(1, season + 1))
        else:
            lags.update((season // 2 - 1, season // 2, (17 * season) // 24, season - 2, season - 1, season))
        lags.add(2 * season - 1)
    return tuple(sorted(lag for lag in lags if lag > 0))


class RowDesign:
    """How rows are made and scaled.

    Parameters
    ----------
    seasons
        In rows.
    spacing
        Seconds from row to row; 0 without times.
    center, scale
        By series and column.
    """

    def __init__(self, seasons: tuple[int, ...], spacing: int, center: Matrix, scale: Matrix) -> None:
        self.seasons, self.spacing, self.center, self.scale = seasons, spacing, center, scale
        self._lags = np.array(choose_lags(seasons))
        self._waves = [_season_waves(season) for season in seasons]

    @classmethod
    def fit(cls, history: History, seasons: tuple[int, ...], spacing: int) -> RowDesign:
        """Return the design whose columns have mean 0 and spread 1 over the past."""
        raw = cls(seasons, spacing, np.zeros((1, 1)), np.ones((1, 1)))
        X = raw.columns(history, np.arange(len(history.values)))
        center, scale = X.mean(axis=0), X.std(axis=0)
        constant = scale <= ROUNDING * np.max(np.abs(X), axis=0)
        center[:, 0], scale[constant] = 0.0, 1.0
        return cls(seasons, spacing, center, scale)

    @property
    def width(self) -> int:
        """Columns of a row."""
        return int(self.center.shape[1])

    def rows(self, history: History, at: NDArray[np.int64]) -> Cube:
        """Return the scaled rows of some origins, given by their index in `history`."""
        with np.errstate(over="ignore"):
            scaled = (self.columns(history, at) - self.center) / self.scale
        return np.ascontiguousarray(np.clip(scaled, -CLIP, CLIP))

    def columns(self, history: History, at: NDArray[np.int64]) -> Cube:
        """Return the rows before scaling: 1, differences to the last value, the last value, other series, calendar."""
        values, series = history.values, history.values.shape[1]
        now = values[at]
        past = values[np.maximum(at[:, None] - self._lags, 0)]
        parts: list[Cube] = [
            np.ones((len(at), series, 1)),
            (past - now[:, None, :]).transpose(0, 2, 1),
            now[:, :, None],
        ]
        if series > 1:
            parts.extend(_others(now, now - values[np.maximum(at - 1, 0)]))
        rows = history.first + at
        shared = [waves[rows % len(waves)] for waves in self._waves]
        shared.append(calendar_columns(history.times, at, self.spacing))
        parts.extend(np.repeat(one[:, None, :], series, axis=1) for one in shared if one.shape[1])
        return np.concatenate(parts, axis=2)


def count_columns(seasons: tuple[int, ...], spacing: int, series: int, *, timed: bool) -> int:
    """Return how many columns `RowDesign.columns` has, before any room is made for them."""
    now = np.zeros((1, series))
    others = sum(part.shape[2] for part in _others(now, now)) if series > 1 else 0
    waves = sum(2 * min(HARMONICS, season // 2) for season in seasons)
    calendar = calendar_columns(np.zeros(1) if timed else None, np.zeros(1, np.int64), spacing).shape[1]
    return int(2 + len(choose_lags(seasons)) + others + waves + calendar)


def _season_waves(season: int) -> Matrix:
    """Return where in the season each of its rows is, as sines and cosines (season, waves)."""
    turns = 2.0 * math.pi * np.arange(season) / season
    k = np.arange(1, min(HARMONICS, season // 2) + 1)
    return np.concatenate([np.sin(np.outer(turns, k)), np.cos(np.outer(turns, k))], axis=1)


def _others(now: Matrix, move: Matrix) -> list[Cube]:
    """Return, for every series, the last values and moves of the others, or their means where there are many."""
    series = now.shape[1]
    if series - 1 <= MOST_OTHERS:
        other = np.arange(series - 1) + (np.arange(series - 1) >= np.arange(series)[:, None])
        return [now[:, other], move[:, other]]
    mean = [(one.sum(axis=1, keepdims=True) - one) / (series - 1) for one in (now, move)]
    return [one[:, :, None] for one in mean]

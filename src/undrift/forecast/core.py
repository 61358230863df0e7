"""The round of a forecaster: a row comes, what it decides is judged and learned, and the next steps are forecast."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.forecast.calendar import usual_season
from undrift.forecast.design import RowDesign
from undrift.forecast.intervals import LEVELS, StepIntervals
from undrift.forecast.members import BETAS, KnownEffect, Members
from undrift.forecast.recent_rows import RecentRows
from undrift.forecast.season import LEAST_CYCLES, find_seasons
from undrift.forecast.weights import StepWeights, mix, speak_for_silent
from undrift.kernels.definitions import CLIP

REFITS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
"""Rows after which seasons and scales are found again, and members learn all rows so far with them; then no more."""
CHECKS = frozenset(round(REFITS[0] * 1.2**k) for k in range(1, 31))
"""Rows after which seasons are looked for in between; others than before are a refit too."""
LONGEST_FOUND = 700
"""Seasons that are found from REFITS[-1] rows are shorter than this."""
NAIVE = ("same as last time", "same as last season", "last season and its growth", "same as last short season")
"""Candidates that learn nothing; the members follow them, and last come forecasts of the user's own."""
BUILT_IN = len(NAIVE) + 2 * len(BETAS)
"""Candidates that are not the user's own."""

Arrays = dict[str, NDArray[np.float64]]
Cube = NDArray[np.float64]


class Shape(NamedTuple):
    """What is fixed when the first row comes."""

    series: int
    columns: int
    """Columns known in advance."""
    timed: bool
    own: int
    """Candidates of the user's own."""


class ForecastCore:
    """Everything a forecaster knows.

    Parameters
    ----------
    horizon
        Steps ahead.
    seasons
        Given seasons, or None to find them.
    shape
        How many series and columns there are.
    """

    def __init__(self, horizon: int, seasons: tuple[int, ...] | None, shape: Shape) -> None:
        self.horizon, self.given, self.shape = horizon, seasons, shape
        self.spacing = 0
        longest = max(seasons) if seasons else LONGEST_FOUND
        self.rows = RecentRows(shape.series, shape.columns, max(REFITS[-1], 2 * longest + horizon + 2))
        self.fitted: tuple[RowDesign, Members] | None = None
        self.effect = KnownEffect(shape.series, shape.columns)
        self.column_scale = np.ones(shape.columns)
        candidates = BUILT_IN + shape.own
        self.weights = StepWeights(shape.series, candidates, horizon)
        self.intervals = StepIntervals(shape.series, horizon)
        self.least, self.most = np.zeros((2, shape.series, horizon))
        self.nonnegative = np.zeros(shape.series)  # 1: forecasts below 0 are served as 0
        # What was served at the last `horizon` origins, at the place `origin % horizon`.
        self.answers = np.zeros((horizon, shape.series, candidates, horizon))
        self.served = np.full((horizon, shape.series, horizon), np.nan)
        self.half = np.full((horizon, shape.series, len(LEVELS), horizon), np.inf)
        self.ahead = np.zeros((horizon, shape.columns))
        self.own = np.full((shape.series, shape.own, horizon), np.nan)

    @property
    def seasons(self) -> tuple[int, ...]:
        """The seasons in use."""
        return self.fitted[0].seasons if self.fitted is not None else self.given or ()

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which series have had a value."""
        return np.asarray(~np.isnan(self.rows.filled[-1]))

    def advance(self, raw: Vector, seconds: float, ahead: Matrix, own: Cube) -> None:
        """Take in the next row.

        Parameters
        ----------
        raw
            Values, NaN where missing.
        seconds
            Its time.
        ahead
            Known columns of this row and the steps after it.
        own
            The user's own forecasts of these steps (series, candidates, steps), NaN where there are none.
        """
        self.rows.append(raw, seconds, ahead[0], self._guess(raw))
        self.ahead[...], self.own[...] = ahead[1:], own
        self._judge(raw)
        if self._is_refit_due():
            self._refit()
        else:
            self._learn_newest()
        self.serve()

    def _guess(self, raw: Vector) -> Vector:
        """Return what stands in for missing values of the row that comes; NaN where they are not, or nothing is known.

        It is what the last row with a value forecast of this one, and beyond the horizon the value a season ago. The
        last value in its place, repeated, would break the season in all rows that look back at a gap.
        """
        guess = np.full(self.shape.series, np.nan)
        missing = np.flatnonzero(np.isnan(raw))
        if not len(missing) or not self.rows.total:
            return guess
        t, step = self.rows.total, self.rows.missing_for()[missing]
        near = step < self.horizon
        place = (t - 1 - step[near]) % self.horizon
        guess[missing[near]] = self.served[place, missing[near], step[near]]
        if self.seasons and self.rows.last + 1 >= self.seasons[-1]:
            guess[missing[~near]] = self.rows.clean[-self.seasons[-1], missing[~near]]
        return guess

    def _is_refit_due(self) -> bool:
        """Whether scales are to be found again, or the rows so far show other seasons."""
        if self.rows.total in REFITS:
            return True
        if self.given is not None or self.rows.total not in CHECKS:
            return False
        return self._choose_seasons(self.rows.history(timed=self.shape.timed).values) != self.seasons

    def _judge(self, raw: Vector) -> None:
        """Judge the forecasts of this row: of step h, made h rows ago."""
        h, t = np.arange(1, self.horizon + 1), self.rows.total - 1
        place, step = (t - h) % self.horizon, h - 1
        served = self.served[place, :, step].T
        judged = ~(np.isnan(served) | np.isnan(raw)[:, None])
        if not judged.any():
            return
        y = np.where(np.isnan(raw), 0.0, raw)[:, None]
        half = self.half[place, :, :, step].transpose(1, 2, 0)
        self._judge_candidates(self.weights, self.answers, t, raw, judged)
        self.intervals.judge(np.where(judged, served, 0.0) - y, half, judged)
        move = self.rows.clean[-1][:, None] - self.rows.clean[np.maximum(self.rows.last - h, 0)].T
        move = np.where(judged, move, 0.0)
        self.least, self.most = np.minimum(self.least, move), np.maximum(self.most, move)

    def _judge_candidates(
        self, weights: StepWeights, answers: Cube, t: int, raw: Vector, judged: NDArray[np.bool_]
    ) -> None:
        """Judge what the candidates said of row t; `answers` has the last origins at `origin % horizon`."""
        h = np.arange(1, self.horizon + 1)
        said = answers[(t - h) % self.horizon, :, :, h - 1].transpose(1, 2, 0)
        weights.judge(said - np.where(np.isnan(raw), 0.0, raw)[:, None, None], judged)

    def _learn_newest(self) -> None:
        """Learn the origin whose last step has just become known, and what the known columns did in this row."""
        if self.shape.columns and self.rows.last > 0:
            self._learn_effect(self.rows.last)
        origin = self.rows.last - self.horizon
        if self.fitted is not None and origin >= 0:
            design, members = self.fitted
            Z = design.rows(self.rows.history(timed=self.shape.timed), np.array([origin]))[0]
            self._settle(members, origin, Z)

    def _settle(self, members: Members, origin: int, Z: Matrix) -> None:
        """Let the members learn one origin from its row; `origin` is an index of the recent rows."""
        steps = slice(origin + 1, origin + 1 + self.horizon)
        base = self.rows.clean[origin]
        labels = (self.rows.labels(steps) - base).T
        if self.shape.columns:
            labels = labels - self._effect(origin, self.rows.columns[steps])
        if self.seasons:
            season = self._season_values(origin, self.seasons[-1]) - base[:, None]
            labels = np.concatenate([labels, labels - season], axis=1)
        members.settle(Z, labels)

    def _season_values(self, origin: int, season: int, *, spikes: bool = False) -> Matrix:
        """Return the last value known at the origin that has each step's place in the season (series, steps)."""
        h, values = np.arange(1, self.horizon + 1), self.rows.clean
        at = origin + h - season * -(-h // season)
        at = np.where(at >= 0, at, origin)
        there = values[at].T
        if spikes:
            values, came = self.rows.filled, self.rows.raw[at].T
            there = np.where(np.isnan(came), there, came)
        return np.asarray(np.where(np.isnan(there), values[origin][:, None], there))

    def _learn_effect(self, at: int) -> None:
        step = self._column_moves(self.rows.columns[at - 1], self.rows.columns[at][None, :])[0]
        self.effect.learn(step, self.rows.labels(slice(at, at + 1))[0] - self.rows.clean[at - 1])

    def _effect(self, origin: int, columns: Matrix) -> Matrix:
        """Return what the known columns explain of the moves from an origin to each step (series, steps)."""
        return self.effect.explain(self._column_moves(self.rows.columns[origin], columns)).T

    def _column_moves(self, base: Vector, columns: Matrix) -> Matrix:
        with np.errstate(over="ignore"):
            return np.clip((columns - base) / self.column_scale, -CLIP, CLIP)

    def _refit(self) -> None:
        """Find seasons and scales from all rows so far, and let fresh members learn these rows.

        Where seasons change, the candidates mean something else: their losses are counted again from the first row on,
        by what they would have said. Forecasts of the user's own know no seasons, and keep theirs.
        """
        history = self.rows.history(timed=self.shape.timed)
        before, first = self.seasons, self.fitted is None
        seasons = self._choose_seasons(history.values)
        design = RowDesign.fit(history, seasons, self.spacing)
        members = Members(self.shape.series, design.width, (2 if seasons else 1) * self.horizon)
        self.fitted = design, members
        if self.shape.columns:
            spread = np.diff(self.rows.columns, axis=0).std(axis=0)
            self.column_scale = np.where(spread > 0.0, spread, 1.0)
            self.effect = KnownEffect(self.shape.series, self.shape.columns)
            for at in range(1, self.rows.last + 1):
                self._learn_effect(at)
        Z = design.rows(history, np.arange(len(history.values)))
        if first or seasons != before:
            self._replay(members, Z)
        else:
            for origin in range(max(0, self.rows.last - self.horizon + 1)):
                self._settle(members, origin, Z[origin])

    def _choose_seasons(self, values: Matrix) -> tuple[int, ...]:
        """Return the seasons given or found; before the calendar's usual one was seen three times, that one."""
        if self.given is not None:
            return self.given
        usual = usual_season(self.spacing)
        return (usual,) if len(values) < LEAST_CYCLES * usual else find_seasons(values)

    def _replay(self, members: Members, Z: Cube) -> None:
        """Go through all rows again: judge the candidates, learn, and answer, each row from those before it."""
        weights = StepWeights(self.shape.series, BUILT_IN, self.horizon)
        answers = np.zeros((self.horizon, self.shape.series, BUILT_IN, self.horizon))
        h, filled = np.arange(1, self.horizon + 1), self.rows.filled
        for t in range(len(Z)):
            known = ~np.isnan(filled[np.maximum(t - h, 0)]).T & (t - h >= 0)
            judged = known & ~np.isnan(self.rows.raw[t])[:, None]
            if judged.any():
                self._judge_candidates(weights, answers, t, self.rows.raw[t], judged)
            if t >= self.horizon:
                self._settle(members, t - self.horizon, Z[t - self.horizon])
            ahead = self.rows.columns[np.minimum(t + h, self.rows.last)] if t < self.rows.last else self.ahead
            self._answer(members, t, Z[t], ahead, answers[t % self.horizon])
        self.weights.replace(weights, BUILT_IN)
        self.answers[:, :, :BUILT_IN] = answers

    def serve(self) -> None:
        """Forecast the next steps, and keep what every candidate said."""
        t, place, known = self.rows.last, (self.rows.total - 1) % self.horizon, self.known
        answers = self.answers[place]
        if self.fitted is None:
            answers[...] = np.where(known, self.rows.filled[-1], 0.0)[:, None, None]
        else:
            design, members = self.fitted
            Z = design.rows(self.rows.history(timed=self.shape.timed), np.array([t]))[0]
            self._answer(members, t, Z, self.ahead, answers[:, :BUILT_IN])
        weights = self.weights.weights()
        if self.shape.own:
            answers[:, BUILT_IN:] = np.where(known[:, None, None], self.own, 0.0)
            speak_for_silent(weights, answers)
        served = np.maximum(mix(weights, answers), np.where(self.nonnegative > 0.0, 0.0, -np.inf)[:, None])
        self.served[place] = np.where(known[:, None], served, np.nan)
        self.half[place] = self.intervals.half_widths()

    def _answer(self, members: Members, t: int, Z: Matrix, ahead: Matrix, answers: Cube) -> None:
        """Fill what the candidates say of the steps after row t, in the units of the series; 0 before any value."""
        filled, clean = self.rows.filled, self.rows.clean
        known = ~np.isnan(filled[t])
        base = np.where(known, clean[t], 0.0)[:, None]
        answers[...] = np.where(known, filled[t], 0.0)[:, None, None]
        season = base
        if self.seasons:
            answers[:, 1] = self._season_values(t, self.seasons[-1], spikes=True)
            answers[:, 2] = answers[:, 1] + self._growth(t, self.seasons[-1])
            answers[:, 3] = self._season_values(t, self.seasons[0], spikes=True)
            season = self._season_values(t, self.seasons[-1])
        moves = members.answer(Z)
        if self.shape.columns:
            explained = self._effect(t, ahead)[:, None, :]
            moves = moves + (np.concatenate([explained, explained], axis=2) if self.seasons else explained)
        relative = moves[:, :, self.horizon :] + (season - base)[:, None, :] if self.seasons else moves
        both = np.concatenate([moves[:, :, : self.horizon], relative], axis=1)
        answers[:, len(NAIVE) :] = base[:, None, :] + np.clip(both, self.least[:, None, :], self.most[:, None, :])
        answers[~known] = 0.0

    def _growth(self, t: int, season: int) -> Matrix:
        """Return how much the last season was above the one before, times the seasons until each step."""
        if t + 1 < 2 * season:
            return np.zeros((self.shape.series, self.horizon))
        values = self.rows.clean
        change = values[t + 1 - season : t + 1].mean(axis=0) - values[t + 1 - 2 * season : t + 1 - season].mean(axis=0)
        turns = -(-np.arange(1, self.horizon + 1) // season)
        return np.asarray(np.nan_to_num(change)[:, None] * turns)

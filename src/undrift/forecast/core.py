"""The round of a forecaster: a row comes, what it decides is judged and learned, and the next steps are forecast."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.forecast.calendar import calendar_seasons, usual_season
from undrift.forecast.design import RowDesign
from undrift.forecast.intervals import LEVELS, StepIntervals
from undrift.forecast.members import BETAS, KnownEffect, Members
from undrift.forecast.recent_rows import RecentRows
from undrift.forecast.season import LEAST_CYCLES, find_seasons
from undrift.forecast.smoothers import OUTPUTS, SmootherBanks, season_sets
from undrift.forecast.weights import StepWeights
from undrift.kernels.definitions import CLIP

REFITS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
"""Rows after which seasons and scales are found again, and members learn all rows so far with them; then no more."""
CHECKS = frozenset(round(REFITS[0] * 1.2**k) for k in range(1, 31))
"""Rows after which seasons are looked for in between; others than before are a refit too."""
LONGEST_FOUND = 700
"""Seasons that are found from REFITS[-1] rows are shorter than this."""
NAIVE = (
    "same as last time",
    "same as last season",
    "last season and its growth",
    "same as last short season",
    "same as the calendar's last season",
    "same as the calendar's last long season",
)
"""Candidates that learn nothing; then come members, anchored members, smoothers, and forecasts of the user's own."""
SMOOTHED = len(NAIVE) + 2 * len(BETAS)
BUILT_IN = SMOOTHED + 2 * OUTPUTS
"""Candidates that are not the user's own."""
ANCHORS = (SMOOTHED, SMOOTHED + OUTPUTS)
"""The smoothers, and those of logarithms: anchored members learn what the former leave, or the latter if ..."""
CLEARLY = 0.99
"""... they lose less than this part of it, so that rounding does not decide."""
FAMILIES = ((1, 0.5), (len(NAIVE) - 1, 0.5), (len(BETAS), 1.0), (len(BETAS), 1.0), (2 * OUTPUTS, 2.0))
"""How many candidates of a kind there are, and how much they count together beforehand.

The kinds are "same as last time", other naive forecasts, members, anchored members, and smoothers. Each of the user's
own forecasts counts 1.
"""

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
        self.banks: SmootherBanks | None = None
        prior = [share / count for count, share in FAMILIES for _ in range(count)] + [1.0] * shape.own
        followed = (*range(len(NAIVE)), *ANCHORS)
        self.weights = StepWeights(shape.series, prior, followed, len(NAIVE), horizon)
        self.intervals = StepIntervals(shape.series, horizon)
        self.least, self.most = np.zeros((2, shape.series, horizon))
        self.nonnegative = np.zeros(shape.series)  # 1: forecasts below 0 are served as 0
        # What was said and served at the last `horizon` origins, at the place `origin % horizon`.
        self.answers = np.zeros((horizon, shape.series, len(prior), horizon))
        self.mixed = np.full((horizon, shape.series, horizon), np.nan)
        self.anchor = np.zeros((horizon, shape.series, horizon))
        self.served = np.full((horizon, shape.series, horizon), np.nan)
        self.half = np.full((horizon, shape.series, len(LEVELS), horizon), np.inf)
        self.ahead = np.zeros((horizon, shape.columns))
        self.own = np.full((shape.series, shape.own, horizon), np.nan)
        self.own_before = np.empty((0, *self.own.shape))
        """The user's own forecasts of all rows so far, as long as these may have to be gone through again."""

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
        self._keep_own(own)
        self._judge_intervals(raw)
        self._judge(self.rows.last)
        if self._is_refit_due():
            self._refit()
        else:
            self._learn(self.rows.last)
        self.serve()

    def _keep_own(self, own: Cube) -> None:
        n, room = self.rows.total, len(self.own_before)
        if not self.shape.own or n > REFITS[-1]:
            self.own_before = self.own_before[:0]
            return
        if n > room:
            more = np.full((max(REFITS[0], room), *own.shape), np.nan)
            self.own_before = np.concatenate([self.own_before, more])
        self.own_before[n - 1] = own

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

    def _judge_intervals(self, raw: Vector) -> None:
        """Judge the intervals of this row: of step h, made h rows ago."""
        h, t = np.arange(1, self.horizon + 1), self.rows.total - 1
        place, step = (t - h) % self.horizon, h - 1
        served = self.served[place, :, step].T
        judged = ~(np.isnan(served) | np.isnan(raw)[:, None])
        if judged.any():
            y = np.where(np.isnan(raw), 0.0, raw)[:, None]
            half = self.half[place, :, :, step].transpose(1, 2, 0)
            self.intervals.judge(np.where(judged, served, 0.0) - y, half, judged)

    def _judge(self, t: int) -> None:
        """Judge what the candidates said of row t, an index of the recent rows; members stay within past moves."""
        raw, clean = self.rows.raw[t], self.rows.clean
        if np.isnan(raw).all():
            return
        self.weights.judge(self.answers, self.mixed, self._number(t), np.ascontiguousarray(raw))
        h = np.arange(1, min(self.horizon, t) + 1)
        move = np.zeros((self.shape.series, self.horizon))
        move[:, : len(h)] = (clean[t] - clean[t - h]).T
        move[np.isnan(move) | np.isnan(raw)[:, None]] = 0.0
        self.least, self.most = np.minimum(self.least, move), np.maximum(self.most, move)

    def _number(self, t: int) -> int:
        """Return the number of the row with this index among the recent ones."""
        return self.rows.total - 1 - self.rows.last + t

    def _learn(self, t: int, Z: Cube | None = None) -> None:
        """Learn what row t shows: the effect of known columns, the origin whose last step it is, and smoothers.

        `Z` has the rows of all origins, if they are at hand.
        """
        if self.fitted is None or self.banks is None:
            return
        if self.shape.columns and t > 0:
            self._learn_effect(t)
        origin = t - self.horizon
        if origin >= 0:
            design, members = self.fitted
            row = (
                design.rows(self.rows.history(timed=self.shape.timed), np.array([origin])) if Z is None else Z[[origin]]
            )
            self._settle(members, origin, row[0])
        if Z is None:
            self.banks.play(self._number(t), self.rows.labels(slice(t, t + 1)))

    def _settle(self, members: Members, origin: int, Z: Matrix) -> None:
        """Let the members learn one origin from its row: moves from its last value, and what the anchor left."""
        steps = slice(origin + 1, origin + 1 + self.horizon)
        labels = self.rows.labels(steps).T
        if self.shape.columns:
            labels = labels - self._effect(origin, self.rows.columns[steps])
        base, anchor = self.rows.clean[origin][:, None], self.anchor[self._number(origin) % self.horizon]
        members.settle(Z, np.concatenate([labels - base, labels - anchor], axis=1))

    def _season_values(self, origin: int, season: int) -> Matrix:
        """Return the last value known at the origin that has each step's place in the season (series, steps)."""
        h = np.arange(1, self.horizon + 1)
        at = origin + h - season * -(-h // season)
        at = np.where(at >= 0, at, origin)
        came = self.rows.raw[at].T
        there = np.where(np.isnan(came), self.rows.clean[at].T, came)
        return np.asarray(np.where(np.isnan(there), self.rows.filled[origin][:, None], there))

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
        """Find seasons and scales from all rows so far, and go through these rows again with fresh candidates.

        Each row is judged, learned and answered from those before it, as if the seasons had been known.
        """
        history = self.rows.history(timed=self.shape.timed)
        seasons = self._choose_seasons(history.values)
        design = RowDesign.fit(history, seasons, self.spacing)
        self.fitted = design, Members(self.shape.series, design.width, 2 * self.horizon)
        self.banks = self.make_banks(seasons)
        if self.shape.columns:
            spread = np.diff(self.rows.columns, axis=0).std(axis=0)
            self.column_scale = np.where(spread > 0.0, spread, 1.0)
            self.effect = KnownEffect(self.shape.series, self.shape.columns)
        for array in (*self.weights.arrays().values(), self.answers, self.anchor, self.least, self.most):
            array[...] = 0.0
        self.mixed[...] = np.nan
        Z = design.rows(history, np.arange(len(history.values)))
        smoothed = self.banks.play(self._number(0), self.rows.labels(slice(0, len(Z))))
        h = np.arange(1, self.horizon + 1)
        for t in range(len(Z)):
            self._judge(t)
            self._learn(t, Z)
            if t < self.rows.last:
                self._answer(t, Z[t], self.rows.columns[np.minimum(t + h, self.rows.last)], smoothed[t])
                self._mix(t, self.own_before[t] if self.shape.own else self.own)

    def make_banks(self, seasons: tuple[int, ...]) -> SmootherBanks:
        """Return fresh smoothers for these seasons and, unless seasons were given, for the calendar's."""
        calendar = calendar_seasons(self.spacing) if self.given is None else ()
        return SmootherBanks(self.shape.series, season_sets(seasons, calendar), self.horizon)

    def _choose_seasons(self, values: Matrix) -> tuple[int, ...]:
        """Return the seasons given or found; before the calendar's usual one was seen three times, that one."""
        if self.given is not None:
            return self.given
        usual = usual_season(self.spacing)
        return (usual,) if len(values) < LEAST_CYCLES * usual else find_seasons(values)

    def serve(self) -> None:
        """Forecast the next steps, and keep what every candidate said."""
        t, place, known = self.rows.last, (self.rows.total - 1) % self.horizon, self.known
        answers = self.answers[place]
        if self.fitted is None or self.banks is None:
            answers[...] = np.where(known, self.rows.filled[-1], 0.0)[:, None, None]
        else:
            Z = self.fitted[0].rows(self.rows.history(timed=self.shape.timed), np.array([t]))[0]
            self._answer(t, Z, self.ahead, self.banks.outputs)
        served = np.maximum(self._mix(t, self.own), np.where(self.nonnegative > 0.0, 0.0, -np.inf)[:, None])
        self.served[place] = np.where(known[:, None], served, np.nan)
        self.half[place] = self.intervals.half_widths()

    def _mix(self, t: int, own: Cube) -> Matrix:
        """Mix what the candidates and the user's own said after row t, and return what is served (series, steps)."""
        place, unknown = self._number(t) % self.horizon, np.isnan(self.rows.filled[t])
        self.answers[place, :, BUILT_IN:] = np.where(unknown[:, None, None], 0.0, own)
        mixed, served = self.weights.mix(self.answers[place])
        self.mixed[place] = np.where(unknown[:, None], np.nan, mixed)
        return served

    def _answer(self, t: int, Z: Matrix, ahead: Matrix, smoothed: Cube) -> None:
        """Fill what the candidates say of the steps after row t, in the units of the series; 0 before any value."""
        assert self.fitted is not None
        seasons, filled, clean = self.seasons, self.rows.filled, self.rows.clean
        known, place = ~np.isnan(filled[t]), self._number(t) % self.horizon
        base = np.where(known, clean[t], 0.0)[:, None]
        answers = self.answers[place]
        answers[...] = np.where(known, filled[t], 0.0)[:, None, None]
        if seasons:
            answers[:, 1] = self._season_values(t, seasons[-1])
            answers[:, 2] = answers[:, 1] + self._growth(t, seasons[-1])
            answers[:, 3] = self._season_values(t, seasons[0])
        for k, season in enumerate(calendar_seasons(self.spacing)):
            answers[:, 4 + k] = self._season_values(t, season)
        losses = self.weights.losses[:, len(NAIVE) :]
        anchor = np.where(losses[:, 1] < CLEARLY * losses[:, 0], smoothed[:, OUTPUTS], smoothed[:, 0])
        self.anchor[place] = anchor
        moves = self.fitted[1].answer(Z)
        moves = np.concatenate(
            [moves[:, :, : self.horizon], moves[:, :, self.horizon :] + (anchor - base)[:, None, :]], axis=1
        )
        if self.shape.columns:
            moves = moves + self._effect(t, ahead)[:, None, :]
        answers[:, len(NAIVE) : SMOOTHED] = base[:, None, :] + np.clip(
            moves, self.least[:, None, :], self.most[:, None, :]
        )
        answers[:, SMOOTHED:BUILT_IN] = smoothed
        answers[~known] = 0.0

    def _growth(self, t: int, season: int) -> Matrix:
        """Return how much the last season was above the one before, times the seasons until each step."""
        if t + 1 < 2 * season:
            return np.zeros((self.shape.series, self.horizon))
        values = self.rows.clean
        change = values[t + 1 - season : t + 1].mean(axis=0) - values[t + 1 - 2 * season : t + 1 - season].mean(axis=0)
        turns = -(-np.arange(1, self.horizon + 1) // season)
        return np.asarray(np.nan_to_num(change)[:, None] * turns)

"""Forecaster: the next steps of one or several series, with intervals, learned row by row."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check, kernels, store
from undrift._internal import thread_lock
from undrift._typing import Arrays, Matrix
from undrift.errors import InputError
from undrift.forecast import forecast_file
from undrift.forecast.calendar import Seconds, later_times
from undrift.forecast.core import NAIVE, ForecastCore, Shape
from undrift.forecast.forecast_input import (
    MOST_STEPS,
    check_level,
    check_names,
    check_quantiles,
    check_seasons,
    find_gaps,
    is_frame,
    known_ahead,
    known_windows,
    read_long_frame,
    read_matrix,
    read_own_forecasts,
    read_row,
    read_seconds,
    refuse_times,
    require_memory,
)
from undrift.forecast.intervals import LEVELS, level_half_width, quantile_distances
from undrift.forecast.members import MEMORIES
from undrift.forecast.smoothers import NAMES as SMOOTHERS
from undrift.forecast.step_certificates import Comparator, StepCertificate, certify_steps, check_steps, read_run
from undrift.learners.save_point import SavePoint
from undrift.learners.serializable import Construction, Serializable, read_model
from undrift.regret import comparators

NO_QUANTILES = np.empty((0, 0, 0))


class Forecast(NamedTuple):
    """The next steps of a series; with several series all fields have an axis of series in front."""

    yhat: NDArray[np.float64]
    """Forecasts by step (H,)."""
    lower: NDArray[np.float64]
    """Lower ends of the intervals (H,); -inf while nothing has been judged, 0 where forecasts are not negative."""
    upper: NDArray[np.float64]
    """Upper ends (H,)."""


class ForecastTrace(NamedTuple):
    """The forecasts of many origins, each made before any of its steps was seen."""

    yhat: NDArray[np.float64]
    """Forecasts by origin and step (T, H), or (T, series, H)."""
    lower: NDArray[np.float64]
    """Lower ends of the intervals."""
    upper: NDArray[np.float64]
    """Upper ends."""
    known: NDArray[np.bool_]
    """Whether the series had a value by then (T,) or (T, series); if not, the forecast says nothing."""
    quantiles: NDArray[np.float64] = NO_QUANTILES
    """Quantiles that were asked for (T, quantiles, H), or (T, series, quantiles, H)."""


class Forecaster(Serializable):
    r"""Forecast the next `horizon` steps of one or several series, learning from every row.

    Parameters
    ----------
    horizon
        Steps ahead, from 1 on.
    season
        Rows after which the series repeat, or several such numbers (24, 168). None: found from the data after 8, 16,
        32, ..., 2048 rows, and until then what is usual for the times (a day of hours); 0: none.
    level
        Level of the intervals, in [0.5, 0.98].
    every
        Seconds from row to row where times are given. None: the usual distance in the first call that has two times.
    candidates
        Names of forecasts of your own, made elsewhere, that come with the rows and are weighed beside all others.
    nonnegative
        Whether forecasts and both ends of intervals below 0 are served as 0. None: those of a series that has had no
        value below 0 so far; True: always; False: never.

    Notes
    -----
    Candidates are naive forecasts, banks of smoothers of level, trend and season, members that are linear in past
    values, other series, calendar and season and remember 131, 387, 1146, 3385 rows or all, and the same members once
    more on what the smoothers leave. They are mixed by what they would have gained in the forecasts that were really
    served, step by step, and the mixture is trusted as far as it beats no change by more than chance. A step is judged
    when its value comes and learned when the whole window is known, so nothing leaks. Intervals are adaptive conformal
    ones, step by step. A value may be missing (NaN). For S series, d columns and H steps a row costs $O(S(d^2+dH))$.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(300)
    >>> y = np.sin(2 * np.pi * t / 12) + 0.01 * t
    >>> model = Forecaster(horizon=6)
    >>> trace = model.play(y)
    >>> model.seasons
    (12,)
    >>> truth = np.sin(2 * np.pi * np.arange(300, 306) / 12) + 0.01 * np.arange(300, 306)
    >>> bool(np.abs(model.forecast().yhat - truth).max() < 0.05)
    True
    """

    def __init__(
        self,
        horizon: int = 24,
        season: int | Sequence[int] | None = None,
        *,
        level: float = 0.9,
        every: float | None = None,
        candidates: Sequence[str] | None = None,
        nonnegative: bool | None = None,
    ) -> None:
        self.horizon = _check.integer(self, "horizon", horizon, 1, MOST_STEPS)
        self.level = check_level(self, level)
        self.given_seasons = check_seasons(self, season)
        self.every = None if every is None else int(_check.interval(self, "every", every, "[1, 1e12]"))
        self.own = check_names(self, candidates)
        self.nonnegative = None if nonnegative is None else _check.flag(self, "nonnegative", nonnegative)
        self.names: list[str] | None = None
        """Names of the series, once a frame was played."""
        self._core: ForecastCore | None = None
        self._flat = True
        self._exclusive_lock = kernels.Lock()
        self._shared_lock = self._exclusive_lock.shared

    @property
    def rows(self) -> int:
        """Rows taken in so far, missing ones between two times included."""
        return 0 if self._core is None else self._core.rows.total

    @property
    def seasons(self) -> tuple[int, ...]:
        """The seasons in use, in rows."""
        return (self.given_seasons or ()) if self._core is None else self._core.seasons

    @property
    def lower_limits(self) -> NDArray[np.float64]:
        """The least value that forecasts of each series can have: 0 or -inf."""
        if self._core is None:
            return np.empty(0)
        return np.where((self._core.nonnegative > 0.0) & self._core.known, 0.0, -np.inf)

    @property
    def design_width(self) -> int:
        """Columns of the rows that members are linear in; 0 before they begin."""
        return 0 if self._core is None or self._core.fitted is None else self._core.fitted[0].width

    @property
    def candidates(self) -> list[str]:
        """Names of what is mixed, in the order of `weights`."""
        memories = [f"{memory:g} rows" if np.isfinite(memory) else "all rows" for memory in MEMORIES]
        return [*NAIVE, *memories, *(f"{memory}, from smoothers" for memory in memories), *SMOOTHERS, *self.own]

    @thread_lock.hold_exclusive
    def observe(
        self, y: ArrayLike, *, known: ArrayLike | None = None, time: Any = None, candidates: ArrayLike | None = None
    ) -> None:
        """Take in the next row.

        Parameters
        ----------
        y
            The value, or one for each series; NaN where missing.
        known
            Columns that are known in advance (H + 1, k): their values in this row and the next H.
        time
            When it was. Rows that are missing since the last time are filled in.
        candidates
            Your own forecasts of the next H steps, made from what is known by this row: (candidates, H), with several
            series (series, candidates, H); the axis of candidates may be left out where there is one. NaN, or None for
            all of them: not forecast.
        """
        values = _check.within_limit(self, "y", read_row(self, y), nan=True)
        ahead = known_ahead(self, known, self.horizon)
        times = None if time is None else read_seconds(self, time, 1)
        flat = np.ndim(_check.fill_masked(y)) == 0
        own = read_own_forecasts(self, candidates, (len(values), len(self.own), self.horizon), flat=flat)
        self._take(values[None, :], ahead[None], times, own[None], (), flat=flat)

    @thread_lock.hold_exclusive
    def play(
        self, Y: Any, *, known: ArrayLike | None = None, times: ArrayLike | None = None,
        candidates: ArrayLike | None = None, quantiles: Sequence[float] | None = None,
    ) -> ForecastTrace:  # fmt: skip
        """Take in rows (T,) or (T, series), and return the forecasts made after each; the same as row by row.

        `known` has a row for each row of `Y`, and for those that follow as far as they are known; or (T, H + 1, k) what
        was known at each row of itself and the next H. `times` has one for each. `quantiles`, each in [0.01, 0.99], are
        returned as well: ends of the interval that leaves as much out on either side.
        `Y` may also be a frame in long format with its own times: unique_id, ds and y (pandas, polars, Arrow).
        `candidates` are your own forecasts, made after each row, as in `observe` with an axis of rows in front:
        (T, candidates, H) or (T, series, candidates, H); `undrift.forecast.align_candidate` makes them from a column.
        """
        wanted = check_quantiles(self, quantiles)
        if is_frame(Y):
            rows = read_long_frame(Y, self.names)
            seen = _check.within_limit(self, "y", rows.values, nan=True)
            ahead = known_windows(self, known, len(seen), self.horizon)
            own = read_own_forecasts(self, candidates, (*seen.shape, len(self.own), self.horizon), flat=False)
            trace = self._take(seen, ahead, read_seconds(self, rows.times, len(seen)), own, wanted, flat=False)
            self.names = rows.names
            return trace
        refuse_times(Y)
        array = _check._real_array(self, "Y", Y)
        flat = array.ndim == 1
        values = _check.within_limit(self, "y", array[:, None] if flat else read_matrix(self, array), nan=True)
        ahead = known_windows(self, known, len(values), self.horizon)
        seconds = None if times is None else read_seconds(self, times, len(values))
        own = read_own_forecasts(self, candidates, (*values.shape, len(self.own), self.horizon), flat=flat)
        return self._take(np.ascontiguousarray(values), ahead, seconds, own, wanted, flat=flat)

    @thread_lock.hold_shared
    def forecast(self, *, level: float | None = None, known: ArrayLike | None = None) -> Forecast:
        """Return the next H steps after the last row; nothing changes.

        `level` is another one for the intervals. `known` (H, k) says more about the columns known in advance than was
        known when the last row came. A series that has had no value yet gets 0, and an interval without ends.
        """
        core, at = self._core, self.level if level is None else check_level(self, level)
        if core is None or not core.known.any():
            raise InputError("Forecaster: there is no value to forecast from yet; observe one first")
        if known is not None:
            return self._forecast_with(known, at)
        place = (core.rows.total - 1) % self.horizon
        half = np.where(core.known[:, None], level_half_width(core.half[place], at), np.inf)
        yhat = np.where(core.known[:, None], core.served[place], 0.0)
        one = Forecast(yhat.copy(), np.maximum(yhat - half, self.lower_limits[:, None]), yhat + half)
        return Forecast(*(part[0] for part in one)) if self._flat else one

    @thread_lock.hold_shared
    def quantiles(self, quantiles: Sequence[float]) -> NDArray[np.float64]:
        """Return quantiles of the next H steps, as `play` (quantiles, H); with several series their axis in front."""
        wanted = check_quantiles(self, quantiles)
        if self._core is None:
            raise InputError("Forecaster: there is no value to forecast from yet; observe one first")
        found = self._quantiles(self._core, wanted)
        return found[0] if self._flat else found

    def _quantiles(self, core: ForecastCore, quantiles: tuple[float, ...]) -> NDArray[np.float64]:
        """Return quantiles of the steps after the last row (series, quantiles, steps)."""
        place, known = (core.rows.total - 1) % self.horizon, core.known[:, None, None]
        distances = quantile_distances(np.where(known, core.half[place], np.inf), quantiles)
        yhat = np.where(known[:, 0], core.served[place], 0.0)
        return np.asarray(np.maximum(yhat[:, None] + distances, self.lower_limits[:, None, None]))

    def _forecast_with(self, known: ArrayLike, level: float) -> Forecast:
        """Serve the last row once more, in a copy that knows the columns to come."""
        again = self.copy()
        core, ahead = again._core, _check.finite_array(self, "known", known, (self.horizon, None))
        if core is None or ahead.shape[1] != core.shape.columns:
            raise InputError(f"Forecaster: known must have as many columns as before, got {ahead.shape[1]}")
        core.ahead[...] = ahead
        core.serve()
        return again.forecast(level=level)

    @thread_lock.hold_shared
    def naive_forecasts(self) -> NDArray[np.float64]:
        """Return what "same as last time" and "same as last season" say of the next steps (2, H); NaN: no value yet."""
        if self._core is None:
            raise InputError("Forecaster: there is no value to forecast from yet; observe one first")
        place = (self._core.rows.total - 1) % self.horizon
        naive = np.where(self._core.known[:, None, None], self._core.answers[place, :, :2], np.nan)
        return naive[0] if self._flat else naive

    @property
    def spacing(self) -> int:
        """Seconds from row to row; 0 without times, and before two of them."""
        return 0 if self._core is None else self._core.spacing

    @thread_lock.hold_shared
    def times(self) -> NDArray[np.datetime64]:
        """Return the times of the next H steps, if times were given."""
        core = self._core
        if core is None or not core.shape.timed or not core.spacing:
            raise InputError("Forecaster: the times of the next steps follow from those of at least two rows")
        ahead = later_times(int(core.rows.seconds[-1]), np.arange(1, self.horizon + 1), core.spacing)
        return ahead.astype("datetime64[s]")

    def forecast_table(self, *, level: float | None = None) -> dict[str, Any]:
        """Return the next H steps as columns of a long table (unique_id, ds, yhat, lower, upper) for any library."""
        yhat, lower, upper = (np.atleast_2d(part) for part in self.forecast(level=level))
        names = self.names or [str(s) for s in range(len(yhat))]
        timed = self._core is not None and self._core.shape.timed and self._core.spacing
        when = self.times() if timed else np.arange(self.rows, self.rows + self.horizon)
        return {
            "unique_id": [name for name in names for _ in when],
            "ds": np.tile(when, len(names)),
            "yhat": yhat.ravel(),
            "lower": lower.ravel(),
            "upper": upper.ravel(),
        }

    @thread_lock.hold_shared
    def weights(self) -> NDArray[np.float64]:
        """Return how much each candidate counts in each of the next steps (candidates, H)."""
        weights = (
            np.zeros((1, len(self.candidates), self.horizon)) if self._core is None else self._core.weights.weights()
        )
        return weights[0] if self._flat else weights

    @thread_lock.hold_shared
    def coverage(self) -> NDArray[np.float64]:
        """Return how often values lay in their intervals so far, by step (H,); 0 where none was judged."""
        if self._core is None:
            return np.zeros(self.horizon)
        at = int(np.argmin(np.abs(LEVELS - self.level)))
        measured = self._core.intervals.coverage()[:, at]
        return measured[0] if self._flat else measured

    @thread_lock.hold_shared
    def certify(
        self, Y: ArrayLike, trace: ForecastTrace, *, times: ArrayLike | None = None,
        steps: Iterable[int] | None = None, u: Comparator = comparators.fixed,
    ) -> list[StepCertificate]:  # fmt: skip
        """Return, for each series and step, the regret against linear forecasts from the same rows, and bounds on it.

        Parameters
        ----------
        Y, trace
            All rows since the first, and what `play` returned for them.
        times
            Of these rows, if they were given.
        steps
            Which steps, from 1 on; None: all.
        u
            Finds the linear forecast to be compared with, from rows and moves; the best that never changes by default.
            Its rows are the forecaster's own, without columns known in advance and candidates made elsewhere.
        """
        values, served = read_run(self, Y, trace)
        seconds = None if times is None else read_seconds(self, times, len(values)).astype(np.float64)
        return certify_steps(self, values, served, seconds, check_steps(self, steps, self.horizon), u)

    def _take(
        self, values: Matrix, ahead: NDArray[np.float64], times: Seconds | None, own: NDArray[np.float64],
        quantiles: tuple[float, ...], *, flat: bool,
    ) -> ForecastTrace:  # fmt: skip
        """Check rows against what came before, and play them."""
        core, every = self._core, 0
        shape = Shape(values.shape[1], ahead.shape[2], times is not None, len(self.own))
        if core is not None and shape != core.shape:
            raise InputError(f"Forecaster: rows must have {_describe(core.shape)} as before, got {_describe(shape)}")
        if core is None:
            require_memory(shape.series, self.horizon, len(self.candidates))
        fresh = core if core is not None else ForecastCore(self.horizon, self.given_seasons, shape)
        seconds = skipped = np.zeros(len(values), np.int64)
        if times is not None:
            seconds, (every, skipped) = times, find_gaps(fresh, times, self.every)
        with SavePoint(self):
            if core is None:
                self._core, self._flat = fresh, flat
                fresh.nonnegative[:] = self.nonnegative is not False
            fresh.spacing = fresh.spacing or every
            size = (len(values), shape.series, self.horizon)
            ends = np.zeros((3, *size))
            asked = np.zeros((*size[:2], len(quantiles), size[2]))
            out = ForecastTrace(ends[0], ends[1], ends[2], np.zeros(size[:2], bool), asked)
            for i, row in enumerate(values):
                for missing in range(int(skipped[i])):
                    last = int(seconds[i]) - (int(skipped[i]) - missing) * fresh.spacing
                    fresh.advance(np.full(shape.series, np.nan), float(last), ahead[i], np.full(own.shape[1:], np.nan))
                if self.nonnegative is None:
                    fresh.nonnegative[row < 0.0] = 0.0
                fresh.advance(row, float(seconds[i]), ahead[i], own[i])
                place = (fresh.rows.total - 1) % self.horizon
                half = level_half_width(fresh.half[place], self.level)
                out.known[i] = fresh.known
                out.yhat[i] = np.where(fresh.known[:, None], fresh.served[place], 0.0)
                out.lower[i] = np.maximum(out.yhat[i] - half, self.lower_limits[:, None])
                out.upper[i] = out.yhat[i] + half
                if quantiles:
                    out.quantiles[i] = self._quantiles(fresh, quantiles)
        return ForecastTrace(*(part[:, 0] for part in out)) if self._flat else out  # type: ignore[arg-type]

    def _construction(self) -> Construction:
        named = {"level": self.level, "every": self.every, "candidates": self.own, "nonnegative": self.nonnegative}
        return Construction((self.horizon, self.given_seasons), named)

    @thread_lock.hold_shared
    def snapshot(self) -> tuple[store.Header, Arrays]:
        """Return everything the forecaster is: a JSON header and its arrays, copied."""
        return forecast_file.describe(self)

    def _load_snapshot(self, header: store.Header, arrays: Arrays) -> None:
        forecast_file.load_state(self, header, arrays)

    @classmethod
    def _from_snapshot(cls, header: store.Header, arrays: Arrays) -> Self:
        return forecast_file.restore(cls, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the forecaster that `save` wrote to `path`; it goes on with the same bits."""
        return read_model(cls, _check.path("Forecaster", path))

    def __repr__(self) -> str:
        own = f", candidates={list(self.own)}" if self.own else ""
        limit = "" if self.nonnegative is None else f", nonnegative={self.nonnegative}"
        return f"Forecaster(horizon={self.horizon}, season={self.given_seasons}, level={self.level:g}{own}{limit})"


def _describe(shape: Shape) -> str:
    timed = "a time" if shape.timed else "no time"
    return f"{shape.series} series, {shape.columns} known columns and {timed}"

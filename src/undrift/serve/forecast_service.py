"""ForecastService: the next steps of some series at any moment, and new values learned as they come."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from undrift._typing import Matrix
from undrift.errors import InputError, RequestSizeError
from undrift.forecast import Forecaster
from undrift.forecast.calendar import count_steps, usual_spacing
from undrift.run.forecast.panel import PanelPlan
from undrift.run.service.journal import Journal
from undrift.run.service.journaled_service import JournaledService
from undrift.run.service.served_forecasts import ServedForecasts
from undrift.run.service.served_models import Cell, Row
from undrift.stream.cells import LIMIT, UnreadableCell, parse_texts, parse_times

MOST_ROWS = 10_000
"""Rows of one request, those that were learned before included."""
MOST_STEPS = 500
"""Steps that one request may bring, missing ones between two times included: a fraction of a second of work."""
PLACE = "row"
"""Where rows have no time: their number, from 1 on."""


class LearnedRows(NamedTuple):
    """What became of rows."""

    learned: int
    """Rows learned now."""
    repeated: int
    """Rows that are not later than the last one: they were learned before, and nothing is learned twice."""


class _SeriesRows(NamedTuple):
    values: Matrix
    """(n, series), NaN where missing."""
    times: list[int] | None
    """Seconds since 1970."""
    known: list[list[float | str | None]]
    """Cells of the columns known in advance."""
    ahead: list[tuple[int, list[float | str | None]]]
    """The same of rows to come, with their times or numbers."""


class ForecastService(JournaledService):
    """The forecaster of a folder, and the journal of the rows that came since the folder was committed.

    Parameters
    ----------
    served
        The forecaster.
    journal
        Where rows are written before they are acknowledged.
    """

    def __init__(self, served: ServedForecasts, journal: Journal) -> None:
        super().__init__(journal)
        self._served = served
        self._restore()

    @property
    def model(self) -> Forecaster:
        """The forecaster."""
        return self._served.model

    @property
    def plan(self) -> PanelPlan:
        """The series, and how times are written."""
        return self._served.plan

    @property
    def last(self) -> int | None:
        """Seconds since 1970 of the last row; None without times."""
        return self._served.last

    def forecast(self, level: float | None = None) -> dict[str, Any]:
        """Return the next steps of every series, as JSON values."""
        self.require_restored()
        found = self.model.forecast(level=level)
        yhat, lower, upper = (np.atleast_2d(part) for part in found)
        steps = [{"step": k + 1, **self._name_step(k)} for k in range(self.model.horizon)]
        series = {
            name: [
                {**step, "yhat": y, "lower": _finite(low), "upper": _finite(high)}
                for step, y, low, high in zip(steps, *(one.tolist() for one in ends), strict=True)
            ]
            for name, *ends in zip(self.plan.names, yhat, lower, upper, strict=True)
        }
        return {"level": self.model.level if level is None else level, "last": self._show_last(), "forecasts": series}

    def learn(self, rows: Sequence[Row]) -> LearnedRows:
        """Learn rows that have come, later than the last one; they are in the journal when this returns.

        Rows at the end that have cells of columns known in advance alone are still to come.
        """
        self.require_restored()
        if not rows:
            raise InputError("a request needs a row at least")
        if len(rows) > MOST_ROWS:
            raise RequestSizeError(f"a request holds 1 to {MOST_ROWS:,} rows, got {len(rows):,}; split it")
        new = self._read(rows)
        if len(new.values) or new.ahead:
            with self._undo_if_refused():
                self._served.learn(*new, self.journal)
        return LearnedRows(len(new.values), sum(map(self._has_come, rows)) - len(new.values))

    def _has_come(self, row: Row) -> bool:
        """Whether a row has the value of a series."""
        return any(name in row for name in self.plan.names)

    def _tend(self) -> None:
        """Commit the folder when many rows have come since the last commit, or some a while ago."""
        if self._served.is_due():
            self.save()

    def save(self) -> None:
        """Commit the folder: what was learned is in its tables, its forecaster and its next steps."""
        self._served.save(self.journal)

    def facts(self) -> dict[str, Any]:
        """Return how it is doing, as JSON values."""
        self.require_restored()
        return {
            "series": list(self.plan.names),
            "horizon": self.model.horizon,
            "rounds": self.model.rows,
            "last": self._show_last(),
            "coverage": float(np.mean(self.model.coverage())),
            "entries": self.journal.last,
            "seconds": time.time() - self.started,
        }

    def close(self) -> None:
        """End in order: everything is in the folder, and the journal is gone."""
        if self.is_restored:
            self.save()
        self.journal.close()
        if self.is_restored:
            self._served.end()

    def _read_journal(self) -> None:
        """Become what the folder holds, and what the journal says after it."""
        self._served.restore(self.journal)

    def _read(self, rows: Sequence[Row]) -> _SeriesRows:
        """Return those rows that are later than the last one, as numbers."""
        place = PLACE if self.plan.time is None else self.plan.time
        names = {place, *self.plan.names, *self._served.known}
        for row in rows:
            strange = next((name for name in row if name not in names), None)
            if strange is not None:
                raise InputError(f"there is no series '{strange:.60}'; a row has '{place}' and {self._list_series()}")
            if not self._has_come(row) and not any(name in row for name in self._served.known):
                raise InputError(f"a row needs the value of a series: {self._list_series()}")
        every = rows
        rows = [row for row in every if self._has_come(row)]
        if any(map(self._has_come, every[len(rows) :])):
            raise InputError("rows to come, with columns known in advance alone, must follow those with values")
        known = [[self._read_known(name, row.get(name)) for name in self._served.known] for row in every]
        Z = np.array([[read_number(name, row.get(name)) for name in self.plan.names] for row in rows])
        Z = Z.reshape(-1, len(self.plan.names))
        if self.plan.time is None:
            following = self._find_new(rows)
            if len(following) > MOST_STEPS:
                raise RequestSizeError(
                    f"a request brings at most {MOST_STEPS:,} new rows, got {len(following):,}; split it"
                )
            begin, ahead = self.model.rows + len(following), []
            for k, row in enumerate(every[len(rows) :]):
                number = row.get(PLACE, begin + k + 1)
                if isinstance(number, bool) or not isinstance(number, int) or number > begin + MOST_STEPS:
                    most = f"at most {begin + MOST_STEPS}"
                    raise InputError(f"'{PLACE}' of a row to come must be its number, {most}, got {number!r:.60}")
                ahead.append((number - 1, known[len(rows) + k]))
            return _SeriesRows(Z[following], None, [known[i] for i in following], ahead)
        times = self._parse_times([row.get(place) for row in every], place)
        new = [i for i, one in enumerate(times) if self.last is None or one > self.last]
        self._check_times([times[i] for i in new], place)
        come = [i for i in new if i < len(rows)]
        ahead = [(times[i], known[i]) for i in new if i >= len(rows)]
        return _SeriesRows(Z[come], [times[i] for i in come], [known[i] for i in come], ahead)

    def _read_known(self, name: str, cell: Cell) -> float | str | None:
        """Return a cell of a column known in advance, None where missing."""
        if name not in self.plan.texts:
            number = read_number(name, cell)
            return None if math.isnan(number) else number
        if cell is not None and not isinstance(cell, str):
            raise InputError(f"'{name:.60}' must be a text, or null, got {cell!r:.60}")
        return parse_texts([cell], frozenset(self._served.recorder.settings.na))[0]

    def _check_times(self, times: list[int], place: str) -> None:
        """Refuse times that are between two rows, or too far ahead for one request."""
        if self.last is None or not times:
            return
        back = next((one for before, one in itertools.pairwise(times) if one <= before), None)
        if back is not None:
            raise InputError(f"'{place}' goes back to {show_time(back)}; sort the rows and drop those that come twice")
        spacing = self.plan.spacing or usual_spacing(np.array([self.last, *times]))
        steps, fits = count_steps(self.last, np.array(times), spacing)
        every = f"rows are {spacing} seconds apart, the last one was at {self._show_last()}"
        if not fits.all():
            wrong = times[int(np.argmin(fits))]
            raise InputError(f"'{place}' is {show_time(wrong)}, between two rows: {every}; correct it")
        if steps.max() > MOST_STEPS:
            far = times[int(np.argmax(steps > MOST_STEPS))]
            raise RequestSizeError(
                f"'{place}' is {show_time(far)}, more than {MOST_STEPS:,} rows ahead: {every}; correct it, or send the "
                "rows between in several requests, null where values are missing"
            )

    def _find_new(self, rows: Sequence[Row]) -> list[int]:
        """Return which rows without times are new: those without a number, and those whose number comes next."""
        following, new = self.model.rows + 1, []
        for i, row in enumerate(rows):
            number = row.get(PLACE, following)
            if isinstance(number, bool) or not isinstance(number, int) or number > following:
                raise InputError(f"'{PLACE}' must be the number of a row, {following} for the next, got {number!r:.60}")
            if number == following:
                new.append(i)
                following += 1
        return new

    def _parse_times(self, cells: list[Cell], place: str) -> list[int]:
        try:
            found = parse_times(cells, self.plan.clock, frozenset())
        except UnreadableCell as bad:
            raise InputError(f"'{place}' should be a time like those of the file, got {bad.cell!r:.60}") from None
        if np.isnat(found).any():
            raise InputError(f"every row needs its time, as '{place}'")
        return [int(one) for one in found.astype("datetime64[s]").astype(np.int64)]

    def _name_step(self, step: int) -> dict[str, str]:
        return {} if self.plan.time is None else {"time": str(self.model.times()[step]).replace("T", " ")}

    def _show_last(self) -> str | int:
        """Return the time of the last row, or its number."""
        return self.model.rows if self.last is None else show_time(self.last)

    def _list_series(self) -> str:
        names = ", ".join(f"'{name:.40}'" for name in self.plan.names[:5])
        return names if len(self.plan.names) <= 5 else f"{names} and {len(self.plan.names) - 5} more"


def read_number(name: str, cell: Cell) -> float:
    """Return a cell as a number, NaN for null."""
    if cell is None:
        return math.nan
    if isinstance(cell, (int, float)) and abs(cell) <= LIMIT:
        return float(cell)
    raise InputError(f"'{name:.60}' must be a number of at most {LIMIT:g} in size, or null, got {cell!r:.60}")


def show_time(seconds: int) -> str:
    """Return seconds since 1970 as people write times."""
    return str(np.datetime64(seconds, "s")).replace("T", " ")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

"""The last rows of all series, in one array that never grows beyond twice what must be kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.forecast.design import History

SPIKE = 1000.0
"""Members do not learn a jump of more than this many mean jumps, ..."""
LONGEST_SPIKE = 2
"""... unless it stays for more than this many rows: then it is no spike."""
JUMP_ROWS = 5000.0
"""Rows over which jumps are averaged: more than a sensor is stuck for, as a rule."""


class RecentRows:
    """Values as they came, filled and without spikes, the time, and the columns known in advance, row by row.

    Parameters
    ----------
    series
        How many series.
    columns
        How many columns are known in advance.
    keep
        Rows that are kept at least.
    """

    def __init__(self, series: int, columns: int, keep: int) -> None:
        self.series, self.keep = series, keep
        self.total = 0
        self.jumps = np.zeros((3, series))
        """The running mean of |jumps|, how many it has seen, and how many of the last ones were cut."""
        self._data = np.zeros((16, 3 * series + 1 + columns))
        self._size = 0

    def append(self, raw: Vector, seconds: float, columns: Vector, guess: Vector) -> None:
        """Add a row; where a value is missing, `filled` repeats the one before, and `clean` holds the guess, if any."""
        if self._size == len(self._data):
            self._make_room()
        row, s = self._data[self._size], self.series
        before = self._data[self._size - 1] if self._size else np.full(3 * s, np.nan)
        row[:s] = raw
        row[s : 2 * s] = np.where(np.isnan(raw), before[s : 2 * s], raw)
        row[2 * s : 3 * s] = self._cut_spikes(raw, before[2 * s : 3 * s], guess)
        row[3 * s] = seconds
        row[3 * s + 1 :] = columns
        self._size += 1
        self.total += 1

    def _cut_spikes(self, raw: Vector, before: Vector, guess: Vector) -> Vector:
        """Return the row as members see it: what jumps out of all proportion is cut, but not for long."""
        mean, count, cuts = self.jumps
        jump = raw - before
        there = ~np.isnan(jump)
        size = np.where(there, np.abs(jump), 0.0)
        cut = (mean > 0.0) & (size > SPIKE * mean) & (cuts < LONGEST_SPIKE)
        clean = np.where(cut, before, raw)
        count += there
        mean += np.where(there & ~cut, (size - mean) / np.clip(count, 1.0, JUMP_ROWS), 0.0)
        cuts[...] = np.where(there, np.where(cut, cuts + 1.0, 0.0), cuts)
        return np.where(np.isnan(raw), np.where(np.isnan(guess), before, guess), clean)

    def missing_for(self) -> NDArray[np.int64]:
        """Return for how many rows the newest values of every series have been missing, as far as rows are kept."""
        known = ~np.isnan(self.raw[::-1])
        return np.where(known.any(axis=0), known.argmax(axis=0), self._size)

    def _make_room(self) -> None:
        """Drop what need not be kept, or grow while that is not enough."""
        kept = self._data[max(0, self._size - self.keep) : self._size]
        room = len(self._data) if len(kept) < len(self._data) else min(2 * len(self._data), 2 * self.keep)
        data = np.zeros((room, self._data.shape[1]))
        data[: len(kept)] = kept
        self._data, self._size = data, len(kept)

    @property
    def last(self) -> int:
        """The index of the newest row in the arrays below."""
        return self._size - 1

    @property
    def raw(self) -> Matrix:
        """Values as they came, NaN where missing (rows, series)."""
        return self._data[: self._size, : self.series]

    @property
    def filled(self) -> Matrix:
        """The same with the value before in place of what is missing."""
        return self._data[: self._size, self.series : 2 * self.series]

    @property
    def clean(self) -> Matrix:
        """The same without spikes, with what was expected in place of what is missing: what members learn from."""
        return self._data[: self._size, 2 * self.series : 3 * self.series]

    @property
    def columns(self) -> Matrix:
        """Columns known in advance (rows, columns)."""
        return self._data[: self._size, 3 * self.series + 1 :]

    @property
    def seconds(self) -> Vector:
        """Times in seconds since 1970."""
        return self._data[: self._size, 3 * self.series]

    def labels(self, steps: slice) -> Matrix:
        """Return the values of some rows as members learn them, NaN where missing (rows, series)."""
        return np.where(np.isnan(self.raw[steps]), np.nan, self.clean[steps])

    def history(self, *, timed: bool) -> History:
        """Return the past as designs want it; series that have no value yet are 0."""
        values = self.clean
        if np.isnan(values[0]).any():
            values = np.where(np.isnan(values), 0.0, values)
        return History(values, self.total - self._size, self.seconds if timed else None)

    def array(self) -> Matrix:
        """Return the rows to save."""
        return self._data[max(0, self._size - self.keep) : self._size]

    def load(self, rows: Matrix, total: int) -> None:
        """Take over saved rows."""
        self._data = np.zeros((max(16, len(rows)), rows.shape[1]))
        self._data[: len(rows)] = rows
        self._size, self.total = len(rows), total


def fill_forward(values: Matrix) -> Matrix:
    """Return the last known value of every row; NaN before the first."""
    known = ~np.isnan(values)
    at = np.maximum.accumulate(np.where(known, np.arange(len(values))[:, None], -1), axis=0)
    out = np.take_along_axis(values, np.maximum(at, 0), axis=0) if len(values) else values
    return np.where(at >= 0, out, np.nan)

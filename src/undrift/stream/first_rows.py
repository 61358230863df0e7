"""The first rows of a file, column by column: what columns and task are inferred from, for runs and for fleets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Vector
from undrift.errors import DataError, InputError
from undrift.stream.cells import (
    BATCH_ROWS,
    Cells,
    Lines,
    RowBatch,
    Times,
    UnreadableCell,
    count_numbers,
    find_holes,
    is_missing,
    parse_numbers,
    parse_times,
)
from undrift.stream.settings import Settings, did_you_mean

FIRST_BATCHES = 2
"""Batches that columns are inferred from."""


class RowOrigin:
    """Where rows come from, for sentences about them, and the settings they are read with."""

    row_word = "row"
    """What the number of a row is called."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name, self.settings, self.na = name, settings, frozenset(settings.na)
        self.notes: list[str] = []
        """What was found while reading that the user may want to know."""

    def at(self, line: int) -> str:
        """Return where something stands, for an error."""
        return f"{self.name}, {self.row_word} {line}"

    def leave_out(self, name: str) -> str:
        """Return how a column is left out, for an error."""
        return f"leave it out with --drop '{name}'"

    def mark_missing(self, text: str) -> str:
        """Return how a text is said to mean missing, for an error."""
        return f"pass --na {text[:20]!r} if it means missing"

    def sort(self) -> str:
        """Return how rows are brought into order, for an error."""
        return "pass --sort"

    def choose(self, setting: str, value: str) -> str:
        """Return how a setting is given a value, for an error."""
        return f"pass --{setting} {value}"


FIRST_ROWS = FIRST_BATCHES * BATCH_ROWS
"""Rows that columns of a table in memory are inferred from, as many as of a file."""


def first_rows_of(batch: RowBatch) -> RowBatch:
    """Return the first rows of a table, from which its columns are inferred."""
    return RowBatch(batch.lines[:FIRST_ROWS], {name: cells[:FIRST_ROWS] for name, cells in batch.columns.items()})


class FirstRows:
    """The first rows of a source.

    Parameters
    ----------
    source
        Where they come from; errors name it.
    batches
        The rows, at least one.
    whole
        Whether there are no others.
    """

    def __init__(self, source: RowOrigin, batches: Sequence[RowBatch], *, whole: bool) -> None:
        self.source, self.whole, self.na = source, whole, source.na
        names = dict.fromkeys(name for batch in batches for name in batch.columns)
        self.columns: dict[str, Cells] = {name: _join_column(name, batches) for name in names}
        self.lines: Lines = np.concatenate([batch.lines for batch in batches])

    @property
    def where(self) -> str:
        """Which rows these are, for an error."""
        return f"all {len(self.lines)} rows" if self.whole else f"the first {len(self.lines)} rows"

    def known_cells(self, name: str) -> list[tuple[int, object]]:
        """Return the lines and cells of a column where it is not missing."""
        cells = self.columns[name]
        values: Sequence[object] = cells if not isinstance(cells, np.ndarray) else cells.tolist()
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
            values = [None if np.isnat(cell) else cell for cell in cells]
        pairs = zip(self.lines.tolist(), values, strict=True)
        return [(line, cell) for line, cell in pairs if not is_missing(cell, self.na)]

    def count_numbers(self, name: str) -> tuple[int, int]:
        """Return how many known cells of a column are numbers, and how many are known."""
        cells = self.columns[name]
        if isinstance(cells, np.ndarray):
            return (0 if cells.dtype.kind == "M" else len(cells)), len(cells)
        return count_numbers(cells, self.na)

    def require(self, names: Iterable[str], option: str) -> None:
        """Refuse names that no column has."""
        for name in names:
            if name not in self.columns:
                what = f"{option} '{name}': {self.source.name} has no such column"
                raise InputError(what + did_you_mean(name, self.columns))

    def numbers(self, name: str) -> Vector:
        """Return a column of numbers, NaN where missing; refuse it at the first cell that is none."""
        try:
            return parse_numbers(self.columns[name], self.na)
        except UnreadableCell as bad:
            error = not_a_number(self.source, int(self.lines[bad.row]), name, bad.cell)
            raise error if bad.row else DataError(f"{error}; if the line holds units, delete it") from None

    def holes(self, name: str) -> NDArray[np.bool_]:
        """Return in which rows a column of numbers is missing."""
        cells = self.columns[name]
        if isinstance(cells, np.ndarray):
            return np.isnan(cells.astype(np.float64, copy=False))
        return find_holes(cells, self.na)

    def holes_of_any_kind(self, name: str) -> NDArray[np.bool_]:
        """Return in which rows a column of any kind is missing."""
        cells = self.columns[name]
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
            return np.isnat(cells)
        return self.holes(name)

    def times(self, name: str, time_format: str) -> Times:
        """Return a column of times, NaT where missing; refuse it at the first cell that is none."""
        try:
            return parse_times(self.columns[name], time_format, self.na)
        except UnreadableCell as bad:
            raise DataError(
                f"{self.source.at(int(self.lines[bad.row]))}: '{name}' should be a time, got {bad.cell!r:.60}; "
                "correct it, or say how times are written with --time-format"
            ) from None


def not_a_number(source: RowOrigin, line: int, name: str, cell: object) -> DataError:
    """Return the error for a text in a number column."""
    text = str(cell)
    hint = "correct the cell"
    if text.count(",") == 1 and text.replace(",", "").lstrip("+-").isdigit():
        hint = "write a decimal point, not a comma"
    last = "drop the row" if name == source.settings.target else source.leave_out(name)
    return DataError(
        f"{source.at(line)}: '{name}' is a column of numbers, got {text[:60]!r}; "
        f"{hint}, {source.mark_missing(text)}, or {last}"
    )


def _join_column(name: str, batches: Sequence[RowBatch]) -> Cells:
    """Return the cells of a column in all batches."""
    parts = [batch.columns.get(name, [None] * len(batch.lines)) for batch in batches]
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)  # type: ignore[arg-type]  # arrays, as just checked
    return [cell for part in parts for cell in part]

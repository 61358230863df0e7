"""The rows of a source in the order in which they are learned: that of the file, or of their times with `--sort`.

`read_rows` yields them in batches, `load_rows` returns all of them at once, as a model sees them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undrift.errors import DataError, InputError
from undrift.run.read.source import Source
from undrift.stream.cells import Cells, RowBatch
from undrift.stream.features import Features, Rows
from undrift.stream.first_rows import FIRST_BATCHES, FirstRows
from undrift.stream.schema import Schema, find_time_column, infer_schema, with_default_lags
from undrift.stream.settings import Settings


def read_first_rows(source: Source) -> tuple[FirstRows, Iterator[RowBatch]]:
    """Return the first rows of a source, and all its batches, those of the first rows included."""
    batches = source.batches()
    head = list(islice(batches, FIRST_BATCHES + 1))
    if not head:
        raise DataError(f"{source.name} has no rows, only a header; there is nothing to learn")
    return FirstRows(source, head[:FIRST_BATCHES], whole=len(head) <= FIRST_BATCHES), chain(head, batches)


def read_rows(source: Source) -> tuple[FirstRows, Iterator[RowBatch]]:
    """Return the first rows to be learned, and all batches, those of the first rows included.

    Sorting reads the whole source into memory. Rows of one time stay in order, and those without a time come last.
    """
    first, batches = read_first_rows(source)
    if not source.settings.sort:
        return first, batches
    ordered = _sort(source, list(batches))
    return FirstRows(source, ordered[:FIRST_BATCHES], whole=len(ordered) <= FIRST_BATCHES), iter(ordered)


def _sort(source: Source, batches: Sequence[RowBatch]) -> list[RowBatch]:
    """Return the rows in order of their times, in batches of the same sizes."""
    everything, settings = FirstRows(source, batches, whole=True), source.settings
    others = [name for name in everything.columns if name != settings.target and name not in settings.drop]
    time, time_format = find_time_column(everything, others, [])
    if time is None:
        raise InputError("--sort needs a column with times; none was found, name it with --time")
    return reorder(everything, batches, np.argsort(everything.times(time, time_format), kind="stable"))  # NaT last


def reorder(everything: FirstRows, batches: Sequence[RowBatch], order: NDArray[np.int64]) -> list[RowBatch]:
    """Return the rows of batches, which are in `everything`, in another order, in batches of the same sizes."""
    whole = take_rows(RowBatch(everything.lines, everything.columns), order)
    ends = np.cumsum([len(batch.lines) for batch in batches]).tolist()
    return [take_rows(whole, slice(b - len(batch.lines), b)) for b, batch in zip(ends, batches, strict=True)]


def take_rows(batch: RowBatch, rows: slice | NDArray[np.int64]) -> RowBatch:
    """Return some rows of a batch: a slice of them, or those with these numbers, in their order."""

    def take(cells: Cells) -> Cells:
        if isinstance(rows, slice):
            return cells[rows]
        return cells[rows] if isinstance(cells, np.ndarray) else [cells[k] for k in rows.tolist()]

    return RowBatch(batch.lines[rows], {name: take(cells) for name, cells in batch.columns.items()})


def load_rows(source: Source, rounds: int) -> tuple[list[str], Rows, Schema]:
    """Return the names of the features, rows of a source up to so many labelled ones, and what the columns are."""
    first, batches = read_rows(source)
    schema = infer_schema(first)
    features = Features(source.settings, schema)
    rows = encode_rows(features, ((source, batch) for batch in batches), rounds)
    return features.names, rows, schema


def encode_rows(features: Features, batches: Iterable[tuple[Source, RowBatch]], rounds: int) -> Rows:
    """Return the rows of batches, each from its source, as a model sees them, up to so many labelled ones.

    The feature of a text that first appears further down is 0 in the rows before.
    """
    parts, left, name = [], rounds, ""
    for source, batch in batches:
        rows, name = features.encode(batch, source), source.name
        reached = np.flatnonzero(np.cumsum(~np.isnan(rows.y)) == left)
        count = int(reached[0]) + 1 if len(reached) else len(rows.y)
        parts.append(rows.between(0, count))
        left -= int(np.count_nonzero(~np.isnan(parts[-1].y)))
        if left <= 0:
            break
    if left == rounds:
        raise DataError(f"{name}: no row is left to learn from; see --missing")
    return _join(parts, len(features.names))


def _join(parts: Sequence[Rows], width: int) -> Rows:
    """Return rows one after the other, with 0 for features that the earlier ones lack."""
    wide = [part._replace(Z=np.pad(part.Z, ((0, 0), (0, width - part.Z.shape[1])))) for part in parts]
    columns: Iterator[Any] = zip(*wide, strict=True)
    return Rows._make(None if column[0] is None else np.concatenate(column) for column in columns)


def add_default_lags(path: str, settings: Settings) -> Settings:
    """Return settings with lags, and the calendar where there are times, if the file has no other column to learn from.

    Whoever names features, lags or the calendar gets these and nothing else; the standard input is read only once, and
    left alone.
    """
    if path == "-" or not settings.may_have_lags:
        return settings
    source = Source(path, settings)
    batch = next(iter(source.batches()), None)
    return settings if batch is None else with_default_lags(FirstRows(source, [batch], whole=False))

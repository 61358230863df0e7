"""Parquet: typed columns, read a slice at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from undrift.errors import DataError
from undrift.run.read.parquet_pages import row_bytes
from undrift.stream.cells import BATCH_CHARACTERS, BATCH_ROWS, MAX_COLUMNS, Cells, RowBatch, describe_kind
from undrift.stream.extras import LITERAL, polars

if TYPE_CHECKING:
    from polars import DataFrame, Series

    from undrift.run.read.source import Source

SLICE = 16 * BATCH_ROWS
"""Rows unpacked at a time, fewer where they are long."""


def parquet_batches(source: Source) -> Iterator[RowBatch]:
    """Yield the rows of a Parquet file."""
    assert source.file is not None  # the standard input has no end to begin at, which Parquet needs
    pl = polars(source.name)
    drop = source.settings.drop
    longest = row_bytes(source.file, drop, MAX_COLUMNS)
    step = max(1, min(SLICE, int(16 * BATCH_CHARACTERS / max(longest, 1.0))))
    try:
        rows = pl.scan_parquet(source.path.absolute(), **LITERAL)
        names = list(rows.collect_schema())
        wanted = [name for name in names if name not in drop]
        first, count = 0, int(rows.select(pl.len()).collect().item())
        count = min(count, source.settings.limit or count)
        while first < count:
            source.file.require_unchanged()
            part = rows.select(wanted).slice(first, min(step, count - first)).collect()
            source.file.require_unchanged()
            for some in _cut(part, len(names)):
                lines = np.arange(first + 1, first + 1 + len(some), dtype=np.int64)
                cells = {
                    name: typed_cells(source, some[name]) if name in wanted else [None] * len(some) for name in names
                }
                yield RowBatch(lines, cells)
                first += len(some)
            if not len(part):
                raise DataError(f"{source.name}: not a Parquet file, or damaged (row {first + 1} is missing)")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        source.file.require_unchanged()
        raise DataError(f"{source.name}: not a Parquet file, or damaged ({str(error).splitlines()[0][:120]})") from None


def _cut(part: DataFrame, width: int) -> Iterator[DataFrame]:
    """Yield the rows of a slice in batches, smaller ones where rows are wide or their texts long."""
    pl = polars("Parquet")
    texts = part.select(pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String).str.len_bytes().fill_null(0))
    length = sum((column.to_numpy().astype(np.int64) for column in texts), start=np.zeros(len(part), np.int64))
    size = np.concatenate(([0], np.cumsum(length + width)))  # a number counts as one character
    a = 0
    while a < len(part):
        full = int(np.searchsorted(size, size[a] + BATCH_CHARACTERS, side="right")) - 1
        b = min(a + BATCH_ROWS, max(a + 1, full))
        yield part[a:b]
        a = b


def typed_cells(source: Source, column: Series) -> Cells:
    """Return the cells of a column of a data frame: numbers and times as arrays, texts as a list."""
    pl = polars(source.name)
    kind = column.dtype
    exact = column.name in source.exact
    if exact and (kind.is_numeric() or kind == pl.Boolean):
        return column.to_list()
    if kind.is_numeric() or kind in (pl.Boolean, pl.Null):
        return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    if kind.is_temporal() and kind not in (pl.Time, pl.Duration):
        zone = getattr(kind, "time_zone", None)
        plain = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if zone else column
        unit = kind.time_unit if exact and isinstance(kind, pl.Datetime) else None
        return plain.cast(pl.Datetime(unit or "us")).to_numpy()
    if kind in (pl.String, pl.Categorical, pl.Enum) or (exact and kind == pl.Time):
        return column.cast(pl.String).to_list()
    what = describe_kind(str(kind))
    raise DataError(f"{source.name}: column '{column.name}' holds {what}; {source.leave_out(column.name)}")

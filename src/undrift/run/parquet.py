"""Parquet: typed columns, read a slice at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from undrift.errors import DataError
from undrift.run.extras import LITERAL, polars
from undrift.run.source import BATCH, Batch, Cells, Source

if TYPE_CHECKING:
    from polars import Series

SLICE = 16 * BATCH


def parquet_batches(source: Source) -> Iterator[Batch]:
    """Yield the rows of a Parquet file."""
    pl = polars(source.name)
    try:
        rows = pl.scan_parquet(source.path.absolute(), **LITERAL)
        names = list(rows.collect_schema())
        first = 0
        while True:
            part = rows.slice(first, SLICE).collect()
            for a in range(0, len(part), BATCH):
                some = part[a : a + BATCH]
                lines = np.arange(first + a + 1, first + a + 1 + len(some), dtype=np.int64)
                yield Batch(lines, {name: _cells(source, some[name]) for name in names})
            first += len(part)
            if len(part) < SLICE:
                return
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{source.name}: not a Parquet file, or damaged ({str(error).splitlines()[0]})") from None


def _cells(source: Source, column: Series) -> Cells:
    pl = polars(source.name)
    kind = column.dtype
    if kind.is_numeric() or kind in (pl.Boolean, pl.Null):
        return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    if kind.is_temporal() and kind not in (pl.Time, pl.Duration):
        zone = getattr(kind, "time_zone", None)
        plain = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if zone else column
        return plain.cast(pl.Datetime("us")).to_numpy()
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return column.cast(pl.String).to_list()
    if column.name in source.settings.drop:
        return [None] * len(column)
    raise DataError(
        f"{source.name}: column '{column.name}' is {kind}, no number, text or time; pass --drop '{column.name}'"
    )

"""Spreadsheets: the first sheet of a workbook, whose first row names the columns."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from undrift.errors import DataError, InputError, MissingExtraError, UndriftError
from undrift.run.extras import polars
from undrift.run.read.parquet import typed_cells
from undrift.run.read.rows import BATCH_ROWS, MAX_COLUMNS, RowBatch

if TYPE_CHECKING:
    from undrift.run.read.source import Source

MOST_BYTES = 1 << 28
"""Bytes of a workbook when it is unpacked, which is read at once."""


def excel_batches(source: Source) -> Iterator[RowBatch]:
    """Yield the rows of the first sheet; the first row of the sheet is row 1."""
    assert source.file is not None  # the standard input is refused for this format
    pl = polars(source.name)
    _require_small(source)
    try:
        import fastexcel  # type: ignore[import-not-found, unused-ignore]  # noqa: F401  # polars reads sheets by it
    except ImportError:
        raise MissingExtraError(
            f"{source.name}: a spreadsheet, which needs fastexcel; install it with: pip install 'undrift[cli]', "
            "or save the sheet as CSV"
        ) from None
    if not source.settings.header:
        raise InputError(f"{source.name}: the first row of a sheet names its columns; leave out --no-header")
    try:
        frame = pl.read_excel(source.path.absolute(), engine="calamine", infer_schema_length=None, raise_if_empty=False)
    except UndriftError:
        raise
    except Exception as error:  # whatever its reader raises: the file is damaged, or none of its kind
        source.file.require_unchanged()
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(
            f"{source.name}: not a spreadsheet, or damaged ({why[0][:120]}); save the sheet as CSV"
        ) from None
    source.file.require_unchanged()
    if frame.width > MAX_COLUMNS:
        raise DataError(f"{source.name}: {frame.width:,} columns, more than {MAX_COLUMNS:,}; leave some out")
    if not frame.width:
        raise DataError(f"{source.name}: its first sheet is empty; put a row of names and rows of cells there")
    count = min(len(frame), source.settings.limit or len(frame))
    for first in range(0, count, BATCH_ROWS):
        part = frame.slice(first, min(BATCH_ROWS, count - first))
        lines = np.arange(first + 2, first + 2 + len(part), dtype=np.int64)
        yield RowBatch(lines, {name: typed_cells(source, part[name]) for name in part.columns})


def _require_small(source: Source) -> None:
    """Refuse a workbook that would fill the memory."""
    try:
        with zipfile.ZipFile(source.path) as book:
            size = sum(one.file_size for one in book.infolist())
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):
        size = source.size or 0  # an old one, which is not compressed, or a damaged one
    if size > MOST_BYTES:
        raise DataError(
            f"{source.name}: {size >> 20:,} MiB when unpacked, more than {MOST_BYTES >> 20}; save the sheet as CSV, "
            "which is read piece by piece"
        )

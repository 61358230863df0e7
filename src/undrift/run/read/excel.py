"""Spreadsheets: the first sheet of a workbook, whose first row names the columns."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from undrift.errors import DataError, InputError, MissingExtraError
from undrift.run.extras import polars
from undrift.run.read.parquet import typed_cells
from undrift.run.read.rows import BATCH_ROWS, MAX_COLUMNS, RowBatch
from undrift.run.read.verified_file import VerifiedReader
from undrift.run.read.workbook import damage_error, measure_workbook

if TYPE_CHECKING:
    from undrift.run.read.source import Source


def excel_batches(source: Source) -> Iterator[RowBatch]:
    """Yield the rows of the first sheet; the first row of the sheet is row 1. The sheet is read at once."""
    assert source.file is not None  # the standard input is refused for this format
    pl = polars(source.name)
    try:
        import fastexcel  # type: ignore[import-not-found, unused-ignore]  # noqa: F401  # polars reads sheets by it
    except ImportError:
        raise MissingExtraError(
            f"{source.name}: a spreadsheet, which needs fastexcel; install it with: pip install 'undrift[cli]', "
            "or save the sheet as CSV"
        ) from None
    if not source.settings.header:
        raise InputError(f"{source.name}: the first row of a sheet names its columns; leave out --no-header")
    file = io.BufferedReader(VerifiedReader(source.file))
    book = measure_workbook(file, source.name, source.settings.limit)
    try:
        frame = pl.read_excel(book, engine="calamine", infer_schema_length=None, raise_if_empty=False)
    except BaseException as error:  # whatever its reader raises: the file is damaged, or none of its kind
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of Rust, no Exception
            raise
        raise damage_error(source.name, error) from None
    if frame.width > MAX_COLUMNS:
        raise DataError(f"{source.name}: {frame.width:,} columns, more than {MAX_COLUMNS:,}; leave some out")
    if not frame.width:
        raise DataError(f"{source.name}: its first sheet is empty; put a row of names and rows of cells there")
    count = min(len(frame), source.settings.limit or len(frame))
    for first in range(0, count, BATCH_ROWS):
        part = frame.slice(first, min(BATCH_ROWS, count - first))
        lines = np.arange(first + 2, first + 2 + len(part), dtype=np.int64)
        yield RowBatch(lines, {name: typed_cells(source, part[name]) for name in part.columns})

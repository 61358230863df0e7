"""Tables as files: CSV or Parquet by the ending, whole or not at all."""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undrift import store
from undrift.folder import writing
from undrift.run.extras import polars
from undrift.run.formulas import escape_formula

if TYPE_CHECKING:
    from polars import DataFrame

ENDINGS = (".csv", ".csv.gz", ".parquet")


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns to a file."""
    frame, name = polars(str(path)).DataFrame(columns), path.name.lower()
    buffer = io.BytesIO()
    frame.write_parquet(buffer) if name.endswith(".parquet") else buffer.write(as_csv(frame).encode())
    payload = buffer.getvalue()
    with writing(path.parent):
        store.replace(path, gzip.compress(payload, mtime=0) if name.endswith(".gz") else payload)


def as_csv(frame: DataFrame) -> str:
    """Return a table as CSV that a spreadsheet opens without running anything."""
    pl = polars("a table")
    texts = frame.select(pl.col(pl.String))
    safe = [pl.Series(one.name, [escape_formula(text) for text in one], dtype=pl.String) for one in texts]
    return frame.with_columns(safe).write_csv()

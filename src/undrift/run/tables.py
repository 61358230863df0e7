"""Tables as files: CSV or Parquet by the ending, whole or not at all."""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from undrift import store
from undrift.run.directory import writing
from undrift.run.extras import polars

ENDINGS = (".csv", ".csv.gz", ".parquet")


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns to a file."""
    frame, name = polars(str(path)).DataFrame(columns), path.name.lower()
    buffer = io.BytesIO()
    frame.write_parquet(buffer) if name.endswith(".parquet") else frame.write_csv(buffer)
    payload = buffer.getvalue()
    with writing(path.parent):
        store.replace(path, gzip.compress(payload, mtime=0) if name.endswith(".gz") else payload)

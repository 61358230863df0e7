"""Rows of a file: cells by column, and the line every row stands on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BATCH_ROWS = 4096
"""Rows read at a time; part of what makes a resumed run the same, so fixed."""
MAX_LINE_BYTES = 1 << 22
"""Bytes of the longest line, and characters of the longest row: 4 MiB. More is a file of another kind, or a bomb."""
BATCH_CHARACTERS = 1 << 22
"""Characters of a batch, about: rows of more than a thousand come in smaller batches, so that memory stays bounded."""
MAX_COLUMNS = 10_000
"""Columns at most."""

Cells = Sequence[object] | NDArray[np.generic]
"""One column of a batch: texts or JSON values, None where missing; or an array of numbers or times."""
Lines = NDArray[np.int64]
"""Line numbers of a text file, row numbers of a Parquet file; from 1."""
Times = NDArray[np.datetime64]
"""Instants in microseconds, UTC where the source said so."""


class RowBatch(NamedTuple):
    """Some rows of a file."""

    lines: Lines
    """Where they stand."""
    columns: dict[str, Cells]
    """Their cells, by column."""

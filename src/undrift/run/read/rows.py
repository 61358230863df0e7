"""Rows of a file: cells by column, and the line every row stands on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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

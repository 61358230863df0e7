"""All rows of a source at once, as a model sees them."""

from __future__ import annotations

import numpy as np

from undrift._typing import Vector
from undrift.errors import DataError
from undrift.online import Table
from undrift.run.prepare.columns import ColumnRoles, infer_columns
from undrift.run.prepare.encoder import Encoder
from undrift.run.prepare.rows_in_order import read_rows
from undrift.run.read.source import Source


def load_rows(source: Source, rounds: int) -> tuple[Table, Vector, ColumnRoles]:
    """Return rows of a source up to so many labelled ones, their labels (NaN where missing), and what the columns are.

    The feature of a text that first appears further down is 0 in the rows before.
    """
    first, batches = read_rows(source)
    roles = infer_columns(first)
    encoder = Encoder(source, roles)
    Z, y, left = [], [], rounds
    for batch in batches:
        rows = encoder.encode(batch)
        reached = np.flatnonzero(np.cumsum(~np.isnan(rows.y)) == left)
        count = int(reached[0]) + 1 if len(reached) else len(rows.y)
        Z.append(rows.Z[:count])
        y.append(rows.y[:count])
        left -= int(np.count_nonzero(~np.isnan(y[-1])))
        if left <= 0:
            break
    if left == rounds:
        raise DataError(f"{source.name}: no row is left to learn from; see --missing")
    wide = np.zeros((sum(len(part) for part in Z), len(encoder.features)))
    at = 0
    for part in Z:
        wide[at : at + len(part), : part.shape[1]] = part
        at += len(part)
    return Table(encoder.features, wide), np.concatenate(y), roles

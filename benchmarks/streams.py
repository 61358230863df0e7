"""The streams of the data folder as plain arrays: missing cells carried forward, columns scaled by their beginning."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

BINARY = ("elec2", "weather_nebraska", "flights_late")
WARM = 500
"""Rows whose mean and spread set the scale; rows after them cannot peek."""


SPIKE = 5.0
"""Features of the binary streams are clipped at so many spreads."""


class Stream(NamedTuple):
    name: str
    Z: np.ndarray
    """Features and a constant, scaled by the first rows (T, d)."""
    y: np.ndarray
    """Labels scaled likewise, or -1 and +1 (T,)."""
    binary: bool


def folder() -> Path:
    return Path(os.environ.get("UNDRIFT_DATA", "../shared/data"))


def names() -> list[str]:
    """Return the streams there are; none when the folder is absent."""
    return sorted(file.name.removesuffix(".csv.gz") for file in folder().glob("*.csv.gz"))


def raw(name: str, rows: int | None = None) -> Stream:
    """Return a stream as it is in the file: no constant, no scaling, NaN where a cell is empty."""
    with gzip.open(folder() / f"{name}.csv.gz", "rt") as file:
        lines = list(csv.reader(file))[1:]
    table = np.array([[float(cell) if cell else np.nan for cell in line[1:]] for line in lines])[:rows]
    return Stream(name, table[:, :-1], table[:, -1], name in BINARY)


def carried(table: np.ndarray) -> np.ndarray:
    """Return a copy whose holes hold the last value of their column, 0 before the first."""
    out = table.copy()
    for column in out.T:
        known = np.flatnonzero(~np.isnan(column))
        last = np.searchsorted(known, np.arange(len(column)), side="right") - 1
        if len(known):
            column[:] = np.where(last >= 0, column[known[np.maximum(last, 0)]], 0.0)
        else:
            column[:] = 0.0
    return out


def load(name: str, rows: int | None = None) -> Stream:
    given = raw(name, rows)
    features, target = carried(given.Z), carried(given.y[:, None])[:, 0]
    binary = name in BINARY
    scaled = _scaled(features)
    if binary:
        scaled = np.clip(scaled, -SPIKE, SPIKE)  # one spike must not decide the margin of every comparator
    Z = np.column_stack([scaled, np.ones(len(target))])
    return Stream(name, Z, np.where(target > 0, 1.0, -1.0) if binary else _scaled(target[:, None])[:, 0], binary)


def _scaled(columns: np.ndarray) -> np.ndarray:
    head = columns[:WARM]
    spread = head.std(axis=0)
    spread[spread == 0.0] = np.maximum(np.abs(columns).max(axis=0), 1.0)[spread == 0.0]
    return (columns - head.mean(axis=0)) / spread

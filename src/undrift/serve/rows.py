"""Rows of many keys as JSON objects, on their way to the models of their keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from undrift._typing import Matrix
from undrift.errors import InputError
from undrift.run.service.served_models import Cell, Row, is_unicode
from undrift.stream.cells import LIMIT
from undrift.stream.settings import did_you_mean


def read_number(name: str, cell: Cell) -> float:
    """Return a cell as a number, NaN for null."""
    if cell is None:
        return math.nan
    if isinstance(cell, (int, float)) and abs(cell) <= LIMIT:
        return float(cell)
    raise InputError(f"'{name:.60}' must be a number of at most {LIMIT:g} in size, or null, got {cell!r:.60}")


LONGEST_KEY = 1000
"""Characters of a key."""


class KeyedBatch(NamedTuple):
    """Rows that have come."""

    keys: list[str]
    """Whose they are."""
    Z: Matrix
    """Features (n, d), NaN where missing."""


class KeyedRows:
    """Makes features of rows, and numbers of labels.

    Parameters
    ----------
    key
        Column that names the key.
    features
        Columns that are numbers.
    target
        What is predicted.
    unused
        Columns that rows may have and that nothing is learned from, such as a fleet's order.
    classes
        The two labels, the negative one first; None where the target is a number, or is given as 0 and 1.
    """

    def __init__(
        self,
        key: str,
        features: Sequence[str],
        *,
        target: str = "y",
        unused: Sequence[str] = (),
        classes: Sequence[str] | None = None,
    ) -> None:
        if key in features:
            raise InputError(f"--key '{key}': this is a feature of the model; name another column")
        self.key, self.target, self.classes = key, target, None if classes is None else list(classes)
        self._names, self._unused = list(features), {*unused}
        self._places = {name: j for j, name in enumerate(features)}

    def encode(self, rows: Sequence[Row]) -> KeyedBatch:
        """Return keys and features; a feature that a row does not name is missing."""
        Z, keys = np.full((len(rows), len(self._names)), math.nan), []
        for i, row in enumerate(rows):
            keys.append(self._read_key(row.get(self.key)))
            for name, cell in row.items():
                place = self._places.get(name)
                if place is not None:
                    Z[i, place] = read_number(name, cell)
                elif name != self.key and name not in self._unused:
                    raise InputError(f"the models have no feature '{name:.60}'{did_you_mean(name, self._names)}")
        return KeyedBatch(keys, Z)

    def _read_key(self, cell: Cell) -> str:
        if isinstance(cell, bool) or not isinstance(cell, (str, int)):
            raise InputError(f"every row needs its key, a text or an integer, as '{self.key}', got {cell!r:.60}")
        key = str(cell)
        if not is_unicode(key):
            raise InputError(f"a key must be a text that can be written, got {key!r:.60}")
        if not 1 <= len(key) <= LONGEST_KEY:
            raise InputError(f"a key has 1 to {LONGEST_KEY:,} characters, got {len(key):,}")
        return key

    def label(self, cell: Cell) -> float:
        """Return a label as models learn it."""
        if self.classes is None:
            return read_number("the label", cell)
        if str(cell) not in self.classes:
            named = " or ".join(map(repr, self.classes))
            raise InputError(f"'{self.target}' must be {named}, got {cell!r:.60}")
        return float(self.classes.index(str(cell)))

    def name_label(self, log_odds: float) -> Cell:
        """Return the likelier label as it was given."""
        return int(log_odds > 0.0) if self.classes is None else self.classes[int(log_odds > 0.0)]

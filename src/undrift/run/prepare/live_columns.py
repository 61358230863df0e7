"""What columns and labels are, where rows come one by one and nobody has seen the file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from undrift.errors import DataError
from undrift.online import Table
from undrift.run.read.cells import LIMIT, is_missing
from undrift.run.settings import Settings


class LiveColumns:
    """Features of rows whose columns become known as they come: numbers as they are, texts one feature for each."""

    def __init__(self, settings: Settings, id_column: str | None) -> None:
        self._left_out = {*settings.drop, settings.target, id_column, settings.time}
        self._chosen = None if settings.features is None else {*settings.features}
        self._most_texts, self._na = settings.most_texts, frozenset(settings.na)
        self.places: dict[str, int] = {}
        """Features and their places."""
        self._numbers: set[str] = set()
        self._texts: dict[str, int] = {}
        self.new_texts: list[tuple[str, str]] = []
        """Columns and texts that the last row brought."""

    def encode(self, number: int, row: Mapping[str, Any]) -> Table:
        """Return the features of a row, new ones last; what it does not have is missing."""
        cells = {name: cell for name, cell in row.items() if self._is_used(name)}
        for name, cell in cells.items():
            self._check(number, name, cell)
        self.new_texts = []
        values = {name: self._place_of(name, cell) for name, cell in cells.items() if not is_missing(cell, self._na)}
        z = np.zeros(len(self.places))
        z[[self.places[name] for name in self._numbers]] = math.nan
        for name, place in values.items():
            if place is not None:
                z[place] = float(cells[name]) if name in self._numbers else 1.0
        return Table(list(self.places), z[None])

    def _is_used(self, name: str) -> bool:
        return name not in self._left_out and (self._chosen is None or name in self._chosen)

    def _check(self, number: int, name: str, cell: object) -> None:
        """Refuse a cell that is not what its column is."""
        if is_missing(cell, self._na):
            return
        if isinstance(cell, (list, dict)):
            raise DataError(
                f"line {number}: '{name}' holds a list or an object; write plain columns, or --drop '{name}'"
            )
        if isinstance(cell, str):
            if name in self._numbers:
                raise DataError(f"line {number}: '{name}' is a column of numbers, got {cell!r:.60}")
        elif name in self._texts:
            raise DataError(f"line {number}: '{name}' is a column of texts, got {cell!r:.60}")
        elif not abs(cell) <= LIMIT:  # type: ignore[arg-type]  # a number, as nothing else is left
            raise DataError(f"line {number}: '{name}' must be at most {LIMIT:g} in size, got {cell!r:.60}")

    def _place_of(self, name: str, cell: object) -> int | None:
        """Return the feature of a cell, made if it is new; None for one text too many."""
        if not isinstance(cell, str):
            self._numbers.add(name)
            return self.places.setdefault(name, len(self.places))
        feature = f"{name}={cell}"
        if feature not in self.places:
            if self._texts.get(name, 0) >= self._most_texts:
                return None
            self._texts[name] = self._texts.get(name, 0) + 1
            self.new_texts.append((name, cell))
        return self.places.setdefault(feature, len(self.places))


class LiveLabels:
    """Labels as a model learns them: numbers, or 0 and 1 for two classes."""

    def __init__(self, settings: Settings, first: object) -> None:
        named = isinstance(first, (str, bool)) or settings.positive is not None
        self.binary = settings.task == "classification" or (settings.task == "auto" and named)
        self._target, self._negative, self._positive = settings.target, "", settings.positive

    def read(self, number: int, cell: object) -> float:
        """Return a label as a number."""
        if not self.binary:
            if isinstance(cell, bool) or not isinstance(cell, (int, float)) or not abs(cell) <= LIMIT:
                raise DataError(f"line {number}: '{self._target}' must be a number, got {cell!r:.60}; see --task")
            return float(cell)
        label = cell if isinstance(cell, str) else json.dumps(cell)
        if label == self._positive or (self._positive is None and self._negative not in ("", label)):
            self._positive = label
            return 1.0
        if self._negative in ("", label):
            self._negative = label
            return 0.0
        named = f"{self._negative!r} nor {self._positive!r}"
        raise DataError(f"line {number}: '{self._target}' is {cell!r:.40}, neither {named}")

    def name(self, log_odds: float) -> str:
        """Return the likelier label."""
        return self._positive if log_odds > 0.0 and self._positive is not None else self._negative

    def by_name(self, positive: float) -> dict[str, float]:
        """Return the probabilities of the labels that are known by now, from that of the positive one."""
        both = ((self._negative or None, 1.0 - positive), (self._positive, positive))
        return {label: p for label, p in both if label is not None}

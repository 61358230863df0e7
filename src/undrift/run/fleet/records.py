"""Rows of a file as records of a fleet: column by column where every cell is what it should be, else one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from undrift._typing import Vector
from undrift.fleet import Fleet
from undrift.fleet.keys_and_orders import MAX_ORDER
from undrift.fleet.outputs import ABSENT
from undrift.fleet.record_batch import RecordBatch, mark_unusable
from undrift.run.fleet.columns import MadeFeatures, instants
from undrift.run.fleet.orders import Orders, TimeColumn, parse_integers
from undrift.run.read.rows_in_order import reorder
from undrift.run.read.source import Source
from undrift.stream.cells import Cells, RowBatch, UnreadableCell, is_missing, parse_number, parse_numbers, parse_texts
from undrift.stream.first_rows import FirstRows


@dataclass(eq=False)
class RecordReader:
    """How the rows of a file become records."""

    fleet: Fleet
    time: TimeColumn | None
    """How times are written, if rows are ordered by time."""
    classes: list[str] | None
    """The two labels, the negative one first ("": not seen yet); None: the target is a number."""
    na: frozenset[str]
    """Texts that mean missing."""
    made: MadeFeatures
    """Features that are made of other columns."""

    def batches(self, source: Source) -> Iterator[RecordBatch]:
        """Yield rows as a fleet takes them; what is no number is reported as such."""
        fields, names = self.fleet.fields, dict[str, str]()
        for batch in self._rows(source):
            for name in fields.names:
                if name not in batch.columns and name not in self.made.names:  # it first appears further down
                    batch.columns[name] = [None] * len(batch.lines)
            keys = _key_texts(batch.columns[fields.key], names, self.na)
            if fields.order is None:
                orders: Orders | None = None
            elif self.time is None:
                orders = parse_integers(batch.columns[fields.order], self.na)
            else:
                orders = self.time.read(source, batch.lines, batch.columns[fields.order])
            times = None if self.made.calendar is None else instants(self.time, orders)
            batch.columns.update(self.made.columns(batch, self.na, times))
            yield self.by_column(batch, keys, orders) or self.row_by_row(batch, keys, orders)

    def _rows(self, source: Source) -> Iterable[RowBatch]:
        """Return the rows in order of their times if that was asked for, else as they stand in the file."""
        if not source.settings.sort or self.time is None:
            return source.batches()
        batches = list(source.batches())
        if not batches:
            return batches
        everything = FirstRows(source, batches, whole=True)
        orders = self.time.read(source, everything.lines, everything.columns[self.time.name])
        keys = np.array([math.inf if one is None else one for one in orders], dtype=object)
        return reorder(everything, batches, np.argsort(keys, kind="stable"))

    def by_column(self, batch: RowBatch, keys: list[str | None], orders: Orders | None) -> RecordBatch | None:
        """Return records made column by column; None if a cell is not what its column is."""
        fields, n = self.fleet.fields, len(keys)
        order, absent = np.full(n, ABSENT, np.int64), np.full(n, ABSENT, np.int64)
        try:
            Z = np.empty((n, len(fields.features)))
            for j, name in enumerate(fields.features):
                Z[:, j] = parse_numbers(batch.columns[name], self.na)
            y, unknown = self._targets(batch)
            if orders is not None:
                if not all(type(one) is int and -MAX_ORDER <= one <= MAX_ORDER for one in orders):
                    return None
                order[...] = orders  # type: ignore[assignment]  # integers, as just seen
        except UnreadableCell:
            return None
        if None in keys or unknown or not _can_be_written(keys):
            return None
        rows = RecordBatch(list(keys), order, Z, y, absent)
        mark_unusable(fields, self.fleet.accepted_input, rows)
        return rows

    def _targets(self, batch: RowBatch) -> tuple[Vector, dict[int, str]]:
        """Return the labels as numbers, and what is wrong with those that are none of the two classes."""
        cells = batch.columns[self.fleet.fields.target]
        if self.classes is None:
            return np.array(parse_numbers(cells, self.na)), {}
        unknown: dict[int, str] = {}
        y = np.full(len(batch.lines), math.nan)
        for i, label in enumerate(parse_texts(cells, self.na)):
            if label is None:
                continue
            if not self.classes[0] and label != self.classes[1]:
                self.classes[0] = label
            if label in self.classes:
                y[i] = self.classes.index(label)
            else:
                named = " nor ".join(repr(one) for one in self.classes)
                unknown[i] = f"target '{self.fleet.fields.target}' is {label!r:.40}, neither {named}"
        return y, unknown

    def row_by_row(self, batch: RowBatch, keys: list[str | None], orders: Orders | None) -> RecordBatch:
        """Return records made one by one, those that cannot be used marked with the reason."""
        fields = self.fleet.fields
        columns: dict[str, list[Any]] = {}
        unknown: dict[int, str] = {}
        for name in fields.names:
            cells = batch.columns[name]
            if name == fields.key:
                columns[name] = list(keys)
            elif name == fields.order and orders is not None:
                columns[name] = orders
            elif name == fields.target and self.classes is not None:
                y, unknown = self._targets(batch)
                columns[name] = y.tolist()
            elif isinstance(cells, np.ndarray):
                columns[name] = (
                    cells.astype(np.float64).tolist() if cells.dtype.kind != "M" else [str(one) for one in cells]
                )
            else:
                columns[name] = [_parse_value(cell, self.na) for cell in cells]
        rows = self.fleet.batch([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
        for i, why in unknown.items():
            rows.bad.setdefault(i, why)
            rows.Z[i] = 0.0
        return rows


def _key_texts(cells: Cells, names: dict[str, str], na: frozenset[str]) -> list[str | None]:
    """Return keys as texts, each text only once in memory."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        values: Any = [None if np.isnat(cell) else np.datetime_as_string(cell, unit="auto") for cell in cells]
    else:
        values = cells.tolist() if isinstance(cells, np.ndarray) else cells
    out: list[str | None] = []
    for cell in values:
        name = names.get(cell) if isinstance(cell, str) else None  # to a dictionary, True is 1
        if name is None:
            name = _key_text(cell, na)
            if name is not None:
                name = names.setdefault(name, name)
                if isinstance(cell, str):
                    names[cell] = name
        out.append(name)
    return out


def _key_text(cell: object, na: frozenset[str]) -> str | None:
    if is_missing(cell, na):
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _can_be_written(keys: list[str | None]) -> bool:
    """Whether all keys can be written to a file; half a character cannot."""
    text = "".join(key for key in keys if key is not None)
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _parse_value(cell: object, na: frozenset[str]) -> object:
    if is_missing(cell, na):
        return None
    found = parse_number(cell)
    return cell if found is None else found

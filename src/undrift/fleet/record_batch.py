"""RecordBatch: records as columns; a record that cannot be used is marked with the reason instead of raising."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._check import LIMIT
from undrift._internal.names import find_closest
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.fleet.keys_and_orders import (
    UnusableRecord,
    is_missing,
    key_column_values,
    parse_key,
    parse_order,
    parse_order_column,
    short_repr,
)
from undrift.fleet.outputs import ABSENT, Key


class Fields(NamedTuple):
    """Which columns of a record mean what."""

    key: str
    """Which stream the record belongs to: text or an integer."""
    order: str | None
    """Its place in the stream, an integer; None: records are in order of arrival."""
    features: tuple[str, ...]
    """z of the record."""
    target: str
    """y; missing in a record that only asks for a prediction."""
    label_of: str | None
    """In a record that brings a label only: the order of the record it belongs to."""
    unit: str = "us"
    """Of orders that are times: "us" or "ns"."""

    @property
    def names(self) -> list[str]:
        """All columns."""
        return [name for name in (self.key, self.order, *self.features, self.target, self.label_of) if name is not None]


@dataclass(eq=False)
class RecordBatch:
    """Records as columns, in order of arrival."""

    keys: list[Key]
    order: NDArray[np.int64]
    """ABSENT where there is none."""
    Z: Matrix
    y: Vector
    """NaN where there is no label."""
    label_of: NDArray[np.int64]
    """Order of the record that a label belongs to; ABSENT in ordinary records."""
    bad: dict[int, str] = field(default_factory=dict)
    """Row number -> why it cannot be used."""

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: Sequence[int] | NDArray[np.intp]) -> RecordBatch:
        """Return copies of some of the rows."""
        at = np.asarray(rows, dtype=np.intp)
        bad = {k: self.bad[i] for k, i in enumerate(at.tolist()) if i in self.bad} if self.bad else {}
        keys = [self.keys[i] for i in at.tolist()]
        return RecordBatch(keys, self.order[at], self.Z[at], self.y[at], self.label_of[at], bad)

    def rows(self, a: int, b: int) -> RecordBatch:
        """Return rows a to b as views."""
        bad = {i - a: self.bad[i] for i in range(a, b) if i in self.bad} if self.bad else {}
        return RecordBatch(self.keys[a:b], self.order[a:b], self.Z[a:b], self.y[a:b], self.label_of[a:b], bad)

    @classmethod
    def concat(cls, parts: Sequence[RecordBatch]) -> RecordBatch:
        """Return the rows of several batches, one after the other."""
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()
        return cls(
            [key for part in parts for key in part.keys],
            np.concatenate([part.order for part in parts]),
            np.concatenate([part.Z for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate([part.label_of for part in parts]),
            {a + i: why for a, part in zip(starts, parts, strict=False) for i, why in part.bad.items()},
        )


def rebatch(batches: Iterable[RecordBatch], size: int) -> Iterator[RecordBatch]:
    """Yield the rows of batches in batches of `size`; the last one may be smaller."""
    waiting: list[RecordBatch] = []
    count = 0
    for rest in batches:
        while count + len(rest) >= size:
            cut = size - count
            yield RecordBatch.concat([*waiting, rest.rows(0, cut)])
            waiting, count, rest = [], 0, rest.rows(cut, len(rest))
        if len(rest):
            waiting.append(rest)
            count += len(rest)
    if count:
        yield RecordBatch.concat(waiting)


class AcceptedInput(NamedTuple):
    """What the model of a fleet accepts."""

    missing: bool
    """Whether features may be missing."""
    binary: bool
    """Whether labels are two classes."""


def batch_from_records(fields: Fields, accepted: AcceptedInput, records: Iterable[Mapping[str, Any]]) -> RecordBatch:
    """Return mappings of column names to values as a batch; a wrong one is marked and harms no other."""
    rows = list(records)
    n = len(rows)
    keys: list[Key] = []
    order = np.full(n, ABSENT, np.int64)
    label_of = np.full(n, ABSENT, np.int64)
    Z, y = np.zeros((n, len(fields.features))), np.full(n, math.nan)
    bad: dict[int, str] = {}
    for i, row in enumerate(rows):
        key: Key = None
        try:
            if not isinstance(row, Mapping):
                raise UnusableRecord(f"a record must be a mapping of names to values, got a {type(row).__name__}")
            if fields.order is not None and row.get(fields.order) is not None:
                # known even if the rest is unusable, so that the order is not reported as missing
                order[i] = parse_order(fields.order, row[fields.order], fields.unit)
            key = parse_key(fields.key, row.get(fields.key))
            if fields.order is not None and order[i] == ABSENT:
                raise UnusableRecord(f"'{fields.order}' is missing")
            of = None if fields.label_of is None else row.get(fields.label_of)
            if not is_missing(of):
                label_of[i] = parse_order(str(fields.label_of), of, fields.unit)
            else:
                for j, name in enumerate(fields.features):
                    if name not in row:
                        raise UnusableRecord(f"feature '{name}' is not there")
                    Z[i, j] = _number(name, row[name])
            y[i] = _number(fields.target, row.get(fields.target))
        except UnusableRecord as why:
            bad[i] = str(why)
        keys.append(key)
    batch = RecordBatch(keys, order, Z, y, label_of, bad)
    mark_unusable(fields, accepted, batch)
    return batch


def mark_unusable(fields: Fields, accepted: AcceptedInput, batch: RecordBatch) -> None:
    """Mark rows whose numbers cannot be used: too large, infinite, missing where that is not allowed, no label."""
    Z, y, bad = batch.Z, batch.y, batch.bad
    labels = batch.label_of != ABSENT
    size = np.abs(Z)
    fine = size <= LIMIT
    if accepted.missing:
        fine |= np.isnan(size)
    for i in np.flatnonzero(~fine.all(axis=1) & ~labels).tolist():
        if i not in bad:
            j = int(np.argmin(fine[i]))
            value, name = float(Z[i, j]), fields.features[j]
            missing = value != value
            bad[i] = f"feature '{name}' is missing" if missing else f"feature '{name}' is {value:g}, beyond 1e75"
    known = ~np.isnan(y)
    right = (y == 1.0) | (y == 0.0) | (y == -1.0) if accepted.binary else np.abs(y) <= LIMIT
    for i in np.flatnonzero(known & ~right).tolist():
        what = "not -1, 0 or 1" if accepted.binary else "beyond 1e75"
        bad.setdefault(i, f"target '{fields.target}' is {float(y[i]):g}, {what}")
    for i in np.flatnonzero(labels & ~known).tolist():
        bad.setdefault(i, f"it has '{fields.label_of}' but no '{fields.target}'")
    Z[labels] = 0.0
    if bad:
        Z[list(bad)], y[list(bad)] = 0.0, math.nan


def _number(name: str, value: object) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, (int, float, np.number, np.bool_)) or isinstance(value, np.complexfloating):
        raise UnusableRecord(f"'{name}' must be a number, got {short_repr(value)}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def batch_from_frame(fields: Fields, accepted: AcceptedInput, frame: Any) -> RecordBatch:
    """Return a data frame as a batch; a missing column or one of a wrong type is refused as a whole."""
    import narwhals as nw

    table: Any = nw.from_native(frame, eager_only=True)
    columns = list(table.columns)
    for name in fields.names:
        if name not in columns:
            near = find_closest(name, columns)
            hint = f". Did you mean '{near}'?" if near else ""
            raise InputError(f"Fleet: column '{name}' not found; columns are {', '.join(columns)}{hint}")
    n = len(table)
    bad: dict[int, str] = {}

    def numbers(name: str) -> Vector:
        column = table[name]
        if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
            raise InputError(f"Fleet: column '{name}' must be numbers, got {column.dtype}; convert it first")
        return np.array(column.cast(nw.Float64).fill_null(math.nan).to_numpy(), np.float64)  # a copy: ours to change

    def integers(name: str, needed: bool) -> NDArray[np.int64]:
        return parse_order_column(table[name], fields.unit, needed=needed, bad=bad)

    order = np.full(n, ABSENT, np.int64) if fields.order is None else integers(fields.order, needed=True)
    keys = key_column_values(table[fields.key])
    for i, key in enumerate(keys):
        if not (type(key) is int or (type(key) is str and key.isascii())):
            try:
                keys[i] = parse_key(fields.key, key)
            except UnusableRecord as why:
                keys[i] = None
                bad.setdefault(i, str(why))
    label_of = np.full(n, ABSENT, np.int64) if fields.label_of is None else integers(fields.label_of, needed=False)
    Z = np.empty((n, len(fields.features)))
    for j, name in enumerate(fields.features):
        Z[:, j] = numbers(name)
    batch = RecordBatch(keys, order, Z, numbers(fields.target), label_of, bad)
    mark_unusable(fields, accepted, batch)
    return batch

"""KeyedRows: records as columns; a record that cannot be used is marked with the reason instead of raising."""

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
from undrift.learners.row_context import WEIGHT_LIMIT
from undrift.stream.cells import Cells, RowBatch, UnreadableCell, parse_number, parse_numbers, parse_texts
from undrift.stream.cells import is_missing as is_missing_cell
from undrift.stream.first_rows import RowOrigin
from undrift.stream.keyed.keys_and_orders import (
    MAX_ORDER,
    TimeColumn,
    UnusableRecord,
    is_missing,
    join_key,
    key_column_values,
    parse_integers,
    parse_keys,
    parse_order,
    parse_order_column,
    short_repr,
)
from undrift.stream.keyed.outputs import ABSENT, Key
from undrift.stream.labels import UNKNOWN, code_of_two


class Fields(NamedTuple):
    """Which columns of a row mean what."""

    key: tuple[str, ...]
    """Columns that say which stream a row is of: text or integers."""
    order: str | None
    """Its place in the stream, an integer; None: rows are in order of arrival."""
    features: tuple[str, ...]
    """z of the row: its number columns."""
    target: str
    """y; missing in a row that only asks for a prediction."""
    label_of: str | None
    """In a row that brings a label only: the order of the row it belongs to."""
    unit: str = "us"
    """Of orders that are times: "us" or "ns"."""
    texts: tuple[str, ...] = ()
    """Text columns."""
    weight: str | None = None
    """Column that says how often a row counts."""

    @property
    def names(self) -> list[str]:
        """All columns."""
        others = (self.order, *self.features, *self.texts, self.target, self.label_of, self.weight)
        return [*self.key, *(name for name in others if name is not None)]


@dataclass(eq=False)
class KeyedRows:
    """Rows of many streams as columns, in order of arrival."""

    keys: list[Key]
    order: NDArray[np.int64]
    """ABSENT where there is none."""
    Z: Matrix
    """Number columns, NaN where missing."""
    y: Vector
    """NaN where there is no label; of several classes 0 where there is one."""
    label_of: NDArray[np.int64]
    """Order of the row that a label belongs to; ABSENT in ordinary rows."""
    bad: dict[int, str] = field(default_factory=dict)
    """Row number -> why it cannot be used."""
    texts: dict[str, list[str | None]] = field(default_factory=dict)
    """Text columns by name."""
    weight: Vector | None = None
    """How often rows count; None: once."""
    labels: list[str | None] | None = None
    """Labels of several classes; None where labels are numbers."""

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: Sequence[int] | NDArray[np.intp]) -> KeyedRows:
        """Return copies of some of the rows."""
        at = np.asarray(rows, dtype=np.intp)
        places = at.tolist()
        bad = {k: self.bad[i] for k, i in enumerate(places) if i in self.bad} if self.bad else {}
        texts = {name: [cells[i] for i in places] for name, cells in self.texts.items()}
        weight = None if self.weight is None else self.weight[at]
        labels = None if self.labels is None else [self.labels[i] for i in places]
        keys = [self.keys[i] for i in places]
        return KeyedRows(keys, self.order[at], self.Z[at], self.y[at], self.label_of[at], bad, texts, weight, labels)

    def rows(self, a: int, b: int) -> KeyedRows:
        """Return rows a to b, numbers as views."""
        bad = {i - a: self.bad[i] for i in range(a, b) if i in self.bad} if self.bad else {}
        texts = {name: cells[a:b] for name, cells in self.texts.items()}
        weight = None if self.weight is None else self.weight[a:b]
        labels = None if self.labels is None else self.labels[a:b]
        numbers = self.order[a:b], self.Z[a:b], self.y[a:b], self.label_of[a:b]
        return KeyedRows(self.keys[a:b], *numbers, bad, texts, weight, labels)

    @classmethod
    def concat(cls, parts: Sequence[KeyedRows]) -> KeyedRows:
        """Return the rows of several batches, one after the other."""
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()
        first = parts[0]
        weights = [part.weight for part in parts if part.weight is not None]
        labels = [label for part in parts for label in part.labels or ()]
        return cls(
            [key for part in parts for key in part.keys],
            np.concatenate([part.order for part in parts]),
            np.concatenate([part.Z for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate([part.label_of for part in parts]),
            {a + i: why for a, part in zip(starts, parts, strict=False) for i, why in part.bad.items()},
            {name: [cell for part in parts for cell in part.texts[name]] for name in first.texts},
            np.concatenate(weights) if weights else None,
            None if first.labels is None else labels,
        )


def rebatch(batches: Iterable[KeyedRows], size: int) -> Iterator[KeyedRows]:
    """Yield the rows of batches in batches of `size`; the last one may be smaller."""
    waiting: list[KeyedRows] = []
    count = 0
    for rest in batches:
        while count + len(rest) >= size:
            cut = size - count
            yield KeyedRows.concat([*waiting, rest.rows(0, cut)])
            waiting, count, rest = [], 0, rest.rows(cut, len(rest))
        if len(rest):
            waiting.append(rest)
            count += len(rest)
    if count:
        yield KeyedRows.concat(waiting)


class AcceptedInput(NamedTuple):
    """What the models accept."""

    missing: bool
    """Whether features may be missing."""
    binary: bool
    """Whether labels are two classes."""
    candidates: int = 0
    """How many of the last number columns are predictions made elsewhere."""


def batch_from_records(fields: Fields, accepted: AcceptedInput, records: Iterable[Mapping[str, Any]]) -> KeyedRows:
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
            key = parse_keys(fields.key, [row.get(name) for name in fields.key])
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
    batch = KeyedRows(keys, order, Z, y, label_of, bad)
    mark_unusable(fields, accepted, batch)
    return batch


def mark_unusable(fields: Fields, accepted: AcceptedInput, batch: KeyedRows) -> None:
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
    given = Z[:, Z.shape[1] - accepted.candidates :]
    if accepted.binary and given.size:
        for i, j in np.argwhere((given < 0.0) | (given > 1.0)).tolist():
            name = fields.features[Z.shape[1] - accepted.candidates + j]
            bad.setdefault(i, f"candidate '{name}' is {given[i, j]:g}, not a probability in [0, 1]")
    if batch.weight is not None:
        for i in np.flatnonzero(~((batch.weight >= 0.0) & (batch.weight <= WEIGHT_LIMIT)) & ~labels).tolist():
            got = "missing" if np.isnan(batch.weight[i]) else f"{batch.weight[i]:g}"
            bad.setdefault(i, f"weight '{fields.weight}' is {got}, not in [0, {WEIGHT_LIMIT:g}]")
        batch.weight[list(bad)] = 1.0
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


def batch_from_frame(fields: Fields, accepted: AcceptedInput, frame: Any) -> KeyedRows:
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
    parts = [key_column_values(table[name]) for name in fields.key]
    keys: list[Key] = parts[0]
    for i, row in enumerate(zip(*parts, strict=True)):
        if not (len(row) == 1 and (type(row[0]) is int or (type(row[0]) is str and row[0].isascii()))):
            try:
                keys[i] = parse_keys(fields.key, row)
            except UnusableRecord as why:
                keys[i] = None
                bad.setdefault(i, str(why))
    label_of = np.full(n, ABSENT, np.int64) if fields.label_of is None else integers(fields.label_of, needed=False)
    Z = np.empty((n, len(fields.features)))
    for j, name in enumerate(fields.features):
        Z[:, j] = numbers(name)
    batch = KeyedRows(keys, order, Z, numbers(fields.target), label_of, bad)
    mark_unusable(fields, accepted, batch)
    return batch


class RowReader:
    """Turns the rows of tables into rows of many streams; a cell that is not what its column is spoils its row alone.

    Parameters
    ----------
    fields
        Which columns mean what.
    accepted
        What the models accept.
    time
        How times are written, if rows are ordered by time.
    classes
        The two labels, the negative one first ("": not seen yet, and filled in when it comes); none of several classes;
        None where the target is a number.
    ordered
        Whether every row must have its order.
    """

    def __init__(
        self,
        fields: Fields,
        accepted: AcceptedInput,
        time: TimeColumn | None,
        classes: list[str] | None,
        *,
        ordered: bool = True,
    ) -> None:
        self.fields, self.accepted, self.time, self.classes = fields, accepted, time, classes
        self.ordered = ordered
        self._names: dict[str, str] = {}  # so that each key is in memory once

    def read(self, batch: RowBatch, origin: RowOrigin) -> KeyedRows:
        """Return rows; `origin` says which texts mean missing, and is for errors about whole columns."""
        fields, n, na = self.fields, len(batch.lines), origin.na
        bad: dict[int, str] = {}
        columns = {name: batch.columns.get(name, [None] * n) for name in fields.names}
        keys = self._keys([columns[name] for name in fields.key], na, bad)
        order = np.full(n, ABSENT, np.int64)
        if fields.order is not None:
            found = (
                parse_integers(columns[fields.order], na)
                if self.time is None
                else self.time.read(origin, batch.lines, columns[fields.order])
            )
            if all(type(one) is int and -MAX_ORDER <= one <= MAX_ORDER for one in found):
                order[...] = found  # type: ignore[assignment]  # integers, as just seen
            else:
                for i, cell in enumerate(found):
                    if cell is None and not self.ordered:
                        continue
                    try:
                        order[i] = parse_order(fields.order, cell, fields.unit)
                    except UnusableRecord as why:
                        bad.setdefault(i, str(why))
        Z = np.empty((n, len(fields.features)))
        for j, name in enumerate(fields.features):
            Z[:, j] = _read_numbers(name, columns[name], na, bad)
        texts = {name: parse_texts(columns[name], na) for name in fields.texts}
        weight = None if fields.weight is None else _read_numbers(fields.weight, columns[fields.weight], na, bad)
        labels, y = None, self._targets(columns[fields.target], na, bad)
        if self.classes is not None and not self.accepted.binary:
            labels = parse_texts(columns[fields.target], na)
        rows = KeyedRows(keys, order, Z, y, np.full(n, ABSENT, np.int64), bad, texts, weight, labels)
        mark_unusable(fields, self.accepted, rows)
        return rows

    def _keys(self, columns: Sequence[Cells], na: frozenset[str], bad: dict[int, str]) -> list[Key]:
        """Return keys as texts, those of several columns joined."""
        parts = [_key_texts(cells, self._names, na) for cells in columns]
        for name, texts in zip(self.fields.key, parts, strict=True):
            if None in texts or not _can_be_written(texts):
                for i, text in enumerate(texts):
                    if text is None:
                        bad.setdefault(i, f"key '{name}' is missing")
                    elif not _can_be_written([text]):
                        bad.setdefault(i, f"key '{name}' must be text that can be encoded, got {text!a:.40}")
        if len(parts) == 1:
            keys: list[Key] = list(parts[0])
        else:
            joined = [None if None in row else join_key(row) for row in zip(*parts, strict=True)]
            keys = [None if key is None else self._names.setdefault(key, key) for key in joined]
        for i, why in bad.items():
            keys[i] = None if why.startswith("key ") else keys[i]
        return keys

    def _targets(self, cells: Cells, na: frozenset[str], bad: dict[int, str]) -> Vector:
        """Return labels as numbers: 0 and 1 of two classes; of several 0 for each that is known."""
        name = self.fields.target
        if self.classes is None:
            return _read_numbers(name, cells, na, bad)
        texts = parse_texts(cells, na)
        if not self.accepted.binary:
            return np.array([math.nan if text is None else 0.0 for text in texts])
        y, code = np.full(len(texts), math.nan), code_of_two(self.classes)
        for i, label in enumerate(texts):
            if label is None:
                continue
            if UNKNOWN in self.classes and label not in code:
                self.classes[self.classes.index(UNKNOWN)] = label
                code = code_of_two(self.classes)
            if label in code:
                y[i] = code[label]
            else:
                named = " nor ".join(repr(one) for one in self.classes)
                bad.setdefault(i, f"target '{name}' is {label!r:.40}, neither {named}")
        return y


def _read_numbers(name: str, cells: Cells, na: frozenset[str], bad: dict[int, str]) -> Vector:
    """Return a column of numbers, NaN where missing; note which rows have a cell that is none."""
    try:
        return np.array(parse_numbers(cells, na))
    except UnreadableCell:
        pass
    out = np.full(len(cells), math.nan)
    for i, cell in enumerate(cells):
        if not is_missing_cell(cell, na):
            number = parse_number(cell)
            if number is None:
                bad.setdefault(i, f"'{name}' must be a number, got {short_repr(cell)}")
            else:
                out[i] = number
    return out


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
    if is_missing_cell(cell, na):
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _can_be_written(keys: Sequence[str | None]) -> bool:
    """Whether all keys can be written to a file; half a character cannot."""
    text = "".join(key for key in keys if key is not None)
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False

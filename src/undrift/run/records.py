"""Rows of a file as records of a fleet: column by column where every cell is what it should be, else one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from undrift.errors import DataError
from undrift.fleet import Fleet
from undrift.fleet.batch import FARTHEST, judged
from undrift.fleet.batch import Batch as Rows
from undrift.fleet.outputs import ABSENT
from undrift.run.cells import Unreadable, is_missing, number, numbers, times
from undrift.run.source import Batch, Cells, Source


def batches(source: Source, fleet: Fleet, time: str | None, na: frozenset[str]) -> Iterator[Rows]:
    """Yield rows as a fleet takes them; what is no number is reported as such."""
    names: dict[str, str] = {}
    for batch in source.batches():
        keys = _keys(batch.columns[fleet.fields.key], names, na)
        stamps = _stamps(source, batch, time, na) if time is not None else None
        yield _clean(fleet, batch, keys, stamps, na) or _judged(fleet, batch, keys, stamps, na)


def _clean(
    fleet: Fleet, batch: Batch, keys: list[str | None], stamps: list[int | None] | None, na: frozenset[str]
) -> Rows | None:
    """Return rows column by column; None if a cell is not what its column is."""
    fields, n = fleet.fields, len(keys)
    order, absent = np.full(n, ABSENT, np.int64), np.full(n, ABSENT, np.int64)
    try:
        Z = np.stack([numbers(batch.columns[name], na) for name in fields.features], axis=1)
        y = np.array(numbers(batch.columns[fields.target], na))
        if stamps is not None:
            order[...] = stamps  # type: ignore[assignment]  # None fails right here
            if (np.abs(order) > FARTHEST).any():
                return None
        elif fields.order is not None:
            places = numbers(batch.columns[fields.order], na)
            if not (np.abs(places) <= FARTHEST).all() or (places != np.floor(places)).any():
                return None
            order[...] = places
    except (Unreadable, TypeError):
        return None
    if None in keys:
        return None
    rows = Rows(list(keys), order, Z, y, absent)
    judged(fields, fleet.judge, rows)
    return rows


def _judged(
    fleet: Fleet, batch: Batch, keys: list[str | None], stamps: list[int | None] | None, na: frozenset[str]
) -> Rows:
    """Return rows judged one by one."""
    columns: dict[str, list[Any]] = {}
    for name in fleet.fields.names:
        cells = batch.columns[name]
        if name == fleet.fields.key:
            columns[name] = keys
        elif name == fleet.fields.order and stamps is not None:
            columns[name] = stamps
        elif isinstance(cells, np.ndarray):
            columns[name] = (
                cells.astype(np.float64).tolist() if cells.dtype.kind != "M" else [str(one) for one in cells]
            )
        else:
            columns[name] = [_value(cell, na) for cell in cells]
    return fleet.batch([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])


def _stamps(source: Source, batch: Batch, time: str, na: frozenset[str]) -> list[int | None]:
    """Return times as integers."""
    try:
        stamps = times(batch.columns[time], source.settings.time_format or "iso", na)
    except Unreadable as bad:
        where = source.at(int(batch.lines[bad.row]))
        raise DataError(f"{where}: {bad.cell!r} in '{time}' is not a time; pass --time-format") from None
    if not np.isnat(stamps).any():
        return list(stamps.astype(np.int64).tolist())
    return [None if np.isnat(one) else int(one.astype(np.int64)) for one in stamps]


def _keys(cells: Cells, names: dict[str, str], na: frozenset[str]) -> list[str | None]:
    """Return keys as texts, each text only once in memory."""
    values = cells.tolist() if isinstance(cells, np.ndarray) else cells
    out: list[str | None] = []
    for cell in values:
        name = names.get(cell) if isinstance(cell, str) else None  # to a dictionary, True is 1
        if name is None:
            name = _name(cell, na)
            if name is not None:
                name = names.setdefault(name, name)
                if isinstance(cell, str):
                    names[cell] = name
        out.append(name)
    return out


def _name(cell: object, na: frozenset[str]) -> str | None:
    if is_missing(cell, na):
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _value(cell: object, na: frozenset[str]) -> object:
    if is_missing(cell, na):
        return None
    found = number(cell)
    return cell if found is None else found

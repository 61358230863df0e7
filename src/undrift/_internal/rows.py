"""Rows as people have them, arrays, dictionaries, data frames, with holes, as arrays in a given order of columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from undrift import _check
from undrift._check import ENCODE_TEXTS, LEAVE_TIMES
from undrift._internal.names import find_similar
from undrift._typing import Matrix
from undrift.errors import InputError

Rows = Any
"""An array (d,) or (n, d), a mapping of names to numbers, a list of mappings, a `Table`, or a data frame."""


class Table(NamedTuple):
    """Rows as an array with named columns: as quick as an array, and columns may be added later."""

    columns: Sequence[str]
    """Names."""
    values: Matrix
    """Numbers (n, names), NaN where missing."""


def is_named(z: Rows) -> bool:
    """Whether rows bring names: a mapping, mappings, or a data frame."""
    return isinstance(z, Mapping) or _are_mappings(z) or _is_frame(z)


def read_series(z: Rows) -> Rows:
    """Return one row of a pandas frame as a mapping, or as an array where its index holds no names; else `z` itself."""
    kind = getattr(getattr(z, "index", None), "inferred_type", None)
    if kind is None or z.ndim != 1:
        return z
    if kind == "string":
        return dict(zip(_names_of_index(z.index), z.tolist(), strict=True))
    return z.to_numpy() if isinstance(z.dtype, np.dtype) else z


_LAST_INDEX: list[tuple[object, list[str]]] = [(None, [])]
"""The last index read, and its names."""


def _names_of_index(index: Any) -> list[str]:
    """Return the names in an index. The rows of a frame share theirs, and reading it takes longer than a round."""
    last, names = _LAST_INDEX[0]
    if last is None or not index.is_(last):  # the same, or a view of it; an index never changes
        names = index.tolist()
        _LAST_INDEX[0] = index, names
    return names


def _are_mappings(z: Rows) -> bool:
    return isinstance(z, (list, tuple)) and len(z) > 0 and all(isinstance(row, Mapping) for row in z)


def _is_frame(z: Rows) -> bool:
    return hasattr(type(z), "columns") or "columns" in getattr(z, "__dict__", ())  # asking a lazy frame itself is slow


def names_in(who: object, z: Rows) -> list[str]:
    """Return the names rows bring, in order of appearance."""
    if _is_frame(z):
        if hasattr(z, "collect"):
            raise InputError(f"{_check.name_of(who)}: z is a {type(z).__name__}, which holds no rows yet; collect it")
        names: Iterable[object] = list(getattr(z, "column_names", z.columns))  # Arrow's columns are not their names
    elif isinstance(z, Mapping):
        names = z
    else:
        names = dict.fromkeys(name for row in z for name in row)
    found = list(names)
    bad = next((name for name in found if not isinstance(name, str)), None)
    if bad is not None:
        raise InputError(
            f"{_check.name_of(who)}: feature names must be text, got {_check.describe(bad)}; rename that column, or "
            "pass an array"
        )
    twice = next((name for name, count in Counter(found).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{_check.name_of(who)}: feature names must differ, {twice!r} comes twice; rename one column")
    return [str(name) for name in found]


def refuse_slips(who: object, z: Rows, known: Sequence[str], *, learned: bool) -> None:
    """Refuse an unknown name in a row that lacks a known one which it resembles: it would count as 0, silently.

    With `learned`, names become known row by row, so that a block is taken as its rows one after the other would be.
    """
    seen = set(known)
    each: Iterable[Collection[str]] = names_of_rows(z)
    for names in each:
        new = [name for name in names if name not in seen]
        if not new:
            continue
        lacking = seen.difference(names)
        for name in new:
            meant = find_similar(name, sorted(lacking))
            if meant is not None:
                raise InputError(
                    f"{_check.name_of(who)}: feature {name!r} is unknown and {meant!r} is missing. Did you mean "
                    f"{meant!r}? If {name!r} is new, give {meant!r} a value too (0 is what a missing name counts as)"
                )
        if learned:
            seen.update(new)


def names_of_rows(z: Rows) -> Iterable[Collection[str]]:
    """Return the names of each row; those of a frame once, as all its rows have the same."""
    if _is_frame(z):
        return [list(getattr(z, "column_names", z.columns))]
    return [z] if isinstance(z, Mapping) else list(z)


def read_matrix(who: object, z: Rows, names: Sequence[str]) -> Matrix:
    """Return named rows as an array (n, names): a name that a mapping lacks is 0, None or NaN is missing (NaN)."""
    if isinstance(z, Table):
        return _from_table(who, z, names)
    if _is_frame(z):
        return _from_frame(who, z, names)
    rows = [z] if isinstance(z, Mapping) else z
    out = np.zeros((len(rows), len(names)))
    place = {name: j for j, name in enumerate(names)}
    for t, row in enumerate(rows):
        for name, value in row.items():
            out[t, place[name]] = _number(who, name, value)
    return out


def _from_table(who: object, table: Table, names: Sequence[str]) -> Matrix:
    values = _check.as_rows(who, table.values, len(table.columns))
    if list(names) == list(table.columns):
        return values
    out = np.zeros((len(values), len(names)))
    place = {name: j for j, name in enumerate(names)}
    out[:, [place[name] for name in table.columns]] = values
    return out


def _number(who: object, name: str, value: object) -> float:
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NullScalar"):
        return math.nan
    if isinstance(value, (str, bytes)):
        raise InputError(f"{_check.name_of(who)}: feature '{name}' must be a number, got {value!r:.60}; {ENCODE_TEXTS}")
    try:
        return float("complex" if isinstance(value, complex) else value)  # type: ignore[arg-type]  # fails right here
    except (TypeError, ValueError, OverflowError):
        cure = f"; {LEAVE_TIMES}" if hasattr(value, "isoformat") or isinstance(value, np.datetime64) else ""
        kind = type(value).__name__
        raise InputError(f"{_check.name_of(who)}: feature '{name}' must be a number, got a {kind}{cure}") from None


def _from_frame(who: object, frame: Rows, names: Sequence[str]) -> Matrix:
    """Return a data frame's columns by name; one that is not there is 0 throughout, as in mappings."""
    import narwhals as nw

    table: Any = nw.from_native(frame, eager_only=True, pass_through=True)  # whichever library it came from
    if not isinstance(table, nw.DataFrame):
        raise InputError(f"{_check.name_of(who)}: z must be an array or a data frame, got a {type(frame).__name__}")
    out = np.zeros((len(table), len(names)))
    here = set(table.columns)
    for j, name in enumerate(names):
        if name in here:
            column = table[name]
            if column.dtype.is_numeric() or column.dtype == nw.Boolean:
                out[:, j] = column.cast(nw.Float64).fill_null(math.nan).to_numpy()
            elif column.dtype in (nw.Object, nw.Unknown):  # anything, or nothing but nulls
                out[:, j] = [_number(who, name, value) for value in column.to_list()]
            else:
                texts = column.dtype in (nw.String, nw.Categorical, nw.Enum)
                cure = ENCODE_TEXTS if texts else LEAVE_TIMES if column.dtype.is_temporal() else "leave it out"
                raise InputError(f"{_check.name_of(who)}: feature '{name}' must be numbers, got {column.dtype}; {cure}")
    return out

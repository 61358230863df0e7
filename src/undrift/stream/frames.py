"""Tables of Python: data frames of any library, lists of dicts and single dicts, as batches of rows.

Numbers and times become arrays, texts lists, exactly as a file with the same contents gives them.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
from msgspec.inspect import BoolType, LiteralType, VarTupleType

from undrift import _check
from undrift._internal.names import find_similar
from undrift.errors import InputError, UndriftError
from undrift.stream.cells import Cells, RowBatch, describe_kind
from undrift.stream.extras import log_sentence
from undrift.stream.settings import Settings, bare_type, describe_fields

Frame = Any
"""A data frame of pandas, polars, pyarrow, or any library that narwhals knows; a list of dicts; or one dict."""
TIME_INDEXES = ("DatetimeIndex", "PeriodIndex")
"""Indexes of pandas that become a column even without a name."""
UNNAMED_TIME = "time"
"""Name of the column that they become."""
_NUMBERS, _TEXTS = {float, int, type(None)}, {str, type(None)}
"""Cells that need no conversion."""
_KINDS = {name: bare_type(field.type) for name, field in describe_fields(Settings).items()}
_WORDS = [f"{word}" for kind in _KINDS.values() if isinstance(kind, LiteralType) for word in kind.values]
_VALUES = "|".join((*filter(str.isalpha, _WORDS), r"[A-Z]+\b", r"\d+", r"'[^']*'"))
_OPTION = re.compile(rf"--([a-z]+(?:-[a-z]+)*)(?:[ =]({_VALUES})(?![\w-]))?")


def in_python(sentence: str) -> str:
    """Return a sentence about options of the command line as one about arguments of Python.

    >>> in_python("add features, or --lag 1"), in_python("pass --sort to learn the oldest first, or --drop 't'")
    ('add features, or lag=[1]', "pass sort=True to learn the oldest first, or drop=['t']")
    """

    def argument(match: re.Match[str]) -> str:
        name, value = match[1].replace("-", "_"), match[2]
        if isinstance(_KINDS.get(name), BoolType):
            return f"{name}=True" + (match[0].removeprefix(f"--{match[1]}") if value else "")
        if value is None:
            return f"{name}="
        value = value if value[0] in "'0123456789" or value.isupper() else f"'{value}'"
        return f"{name}=[{value}]" if isinstance(_KINDS.get(name), VarTupleType) else f"{name}={value}"

    return _OPTION.sub(argument, sentence)


@contextmanager
def python_words() -> Iterator[None]:
    """Let errors about options of the command line be about arguments of Python."""
    try:
        yield
    except UndriftError as error:
        sentence = in_python(str(error))
        if sentence == str(error):
            raise
        raise type(error)(sentence) from None


def require_columns(table: Frame, batch: RowBatch, columns: Sequence[str], others: Collection[str]) -> None:
    """Refuse a data frame that lacks one of the learned columns, and rows that have none, or a slip for one.

    `others` are columns that may come with the rows and are not learned from. In rows that are dicts, a column that is
    not there is missing.
    """
    lacking = [name for name in columns if name not in batch.columns]
    if not lacking:
        return
    rows = _is_row(table) or isinstance(table, (list, tuple))
    if not rows or len(lacking) == len(columns):
        name, shown = lacking[0], ", ".join(batch.columns) or "no column"
        unknown = [other for other in batch.columns if other not in columns and other not in others]
        if (slip := find_similar(name, unknown)) is not None:
            cure = f"rename '{slip}' if that is it"
        elif is_series(table):
            cure = (
                "if it is the index of a frame, pass frame.iloc[[0]] in place of frame.iloc[0], which leaves that out"
            )
        else:
            cure = "add it, with missing values where it is not known"
        raise InputError(f"Stream: the table has no column '{name}', which was learned; it has {shown:.200}; {cure}")
    for name in batch.columns:
        if name not in columns and name not in others and (meant := find_similar(name, lacking)) is not None:
            raise InputError(f"Stream: column '{name}' is unknown and '{meant}' is missing. Did you mean '{meant}'?")


def _is_row(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) == 1


def is_series(table: Frame) -> bool:
    """Whether a table is one row, or one column, of a frame of pandas."""
    return getattr(table, "ndim", 0) == 1 and hasattr(table, "to_dict")


def _from_series(who: str, series: Any, time: str) -> dict[Any, Any]:
    """Return one row of a frame of pandas as a dict, the time that names it included."""
    row, name = dict(series.to_dict()), series.name
    if row and not any(isinstance(column, str) for column in row):
        label = _check.describe(next(iter(row)))
        raise InputError(
            f"{who}: a Series must be one row, its index the names of the columns, got {label} as a name; for a column "
            "of a frame pass frame[['temperature']]"
        )
    if isinstance(name, dt.date) or type(name).__name__ == "Period":
        row = row if time in row else {time: name, **row}
    return row


def read_table(who: str, table: Frame, drop: Collection[str] = (), time: str | None = None) -> RowBatch:
    """Return the rows of a table as a batch, numbered from 1; refuse what cannot be read, but for the columns `drop`.

    An index of pandas that has a name, or holds times, becomes a column. One row of a frame of pandas does not know the
    name of the index: if it is named by a time, that goes to the column `time`.
    """
    if is_series(table):
        table = _from_series(who, table, time or UNNAMED_TIME)
    if _is_row(table):
        if table and all(_is_list(cell) for cell in table.values()):
            raise InputError(
                f"{who}: a dict is one row, but this one holds lists; for columns pass pd.DataFrame(columns)"
            )
        return _from_rows(who, [table], drop)
    if isinstance(table, (list, tuple)):
        wrong = next((row for row in table if not _is_row(row)), None)
        if wrong is not None:
            raise InputError(
                f"{who}: rows must be a data frame, a list of dicts or one dict, got a list with "
                f"{_check.describe(wrong)}; write [{{'temperature': 3.5, ...}}, ...]"
            )
        return _from_rows(who, table, drop)
    return _from_frame(who, table, drop)


def _from_rows(who: str, rows: Any, drop: Collection[str]) -> RowBatch:
    names = dict.fromkeys(name for row in rows for name in row)
    _require_texts(who, list(names))
    cells = {name: [None] * len(rows) if name in drop else [row.get(name) for row in rows] for name in names}
    columns = {name: read_cells(who, name, column) for name, column in cells.items()}
    return RowBatch(np.arange(1, len(rows) + 1, dtype=np.int64), columns)


def read_cells(who: str, name: str, cells: list[Any]) -> Cells:
    """Return cells of any kind as numbers, texts and None; as an array if they are times."""
    kinds = {*map(type, cells)}
    if kinds <= _NUMBERS or kinds <= _TEXTS:
        return cells
    out = [_plain_cell(who, name, cell) for cell in cells]
    texts = sum(isinstance(cell, str) for cell in out)
    if texts and texts + out.count(None) < len(out):
        return [None if cell is None else str(cell) for cell in out]  # numbers among texts, as a file has them
    if any(isinstance(cell, np.datetime64) for cell in out):
        if not all(cell is None or isinstance(cell, np.datetime64) for cell in out):
            raise _unusable(who, name, "times among numbers")
        return np.array([np.datetime64("NaT") if cell is None else cell for cell in out], dtype="datetime64[us]")
    return out


def _plain_cell(who: str, name: str, cell: Any) -> Any:
    if isinstance(cell, np.generic) and not isinstance(cell, np.datetime64):
        cell = cell.item()
    if cell is None or isinstance(cell, (str, bool, int)):
        return cell
    kind = type(cell).__name__
    if kind in ("NAType", "NaTType", "NullScalar"):
        return None
    if kind == "Interval":  # of pandas.cut
        return str(cell)
    if kind == "Period":
        cell = cell.to_timestamp()
    if isinstance(cell, (float, Decimal)):
        return None if math.isnan(cell) else float(cell)
    if isinstance(cell, np.datetime64):
        return cell.astype("datetime64[us]")
    if isinstance(cell, dt.datetime):
        plain = cell if cell.tzinfo is None else cell.astimezone(dt.UTC).replace(tzinfo=None)
        return np.datetime64(plain.replace(fold=0), "us")
    if isinstance(cell, dt.date):
        return np.datetime64(cell, "us")
    raise _unusable(who, name, kind)


def _from_frame(who: str, frame: Frame, drop: Collection[str]) -> RowBatch:
    import narwhals as nw

    frame = _put_index_first(who, frame)
    try:
        table = nw.from_native(frame, eager_only=True)
        names = table.columns
    except nw.exceptions.DuplicateError:
        twice = next(name for name, count in Counter(frame.columns).items() if count > 1)
        raise InputError(f"{who}: column names must differ, {twice!r} comes twice; rename one of them") from None
    except TypeError:
        kind = type(frame).__name__
        if hasattr(frame, "collect"):
            cure = "collect it"
        elif isinstance(frame, (str, os.PathLike)):
            cure = "read the file first, for example with pd.read_csv"
        elif isinstance(frame, Iterator):
            cure = "for rows that are dicts pass list(rows)"
        else:
            cure = "for an array make one: pd.DataFrame(Z, columns=[...])"
        raise InputError(f"{who}: frame must be a data frame (pandas, polars, ...), got {kind}; {cure}") from None
    _require_texts(who, names)
    columns = {name: [None] * len(table) if name in drop else _read_column(who, nw, table[name]) for name in names}
    return RowBatch(np.arange(1, len(table) + 1, dtype=np.int64), columns)


def _require_texts(who: str, names: list[Any]) -> None:
    bad = next((name for name in names if not isinstance(name, str)), None)
    if bad is not None:
        raise InputError(
            f"{who}: column names must be texts, got {_check.describe(bad)}; rename the columns, for example with "
            "frame.columns = [str(name) for name in frame.columns]"
        )


def _put_index_first(who: str, frame: Frame) -> Frame:
    """Return a frame of pandas with its index as a column, where that has a name or holds times."""
    index = getattr(frame, "index", None)
    names = [name for name in getattr(index, "names", ()) if name is not None]
    if getattr(frame, "ndim", 0) != 2 or not (names or type(index).__name__ in TIME_INDEXES):
        return frame
    if not names:
        frame, names = frame.rename_axis(UNNAMED_TIME), [UNNAMED_TIME]
    twice = next((name for name in names if name in frame.columns), None)
    if twice is not None:
        raise InputError(
            f"{who}: the index and a column are both called {twice!r}; rename the index with frame.rename_axis, or "
            "leave it out with frame.reset_index(drop=True)"
        )
    return frame.reset_index()


def _read_column(who: str, nw: Any, column: Any) -> Cells:
    """Return a column as numbers, texts or times."""
    kind = column.dtype
    if str(getattr(column.to_native(), "dtype", "")).startswith("period"):
        column = nw.from_native(column.to_native().dt.to_timestamp(), series_only=True)
        kind = column.dtype
    if kind.is_numeric() or kind == nw.Boolean:
        known: Any = column.drop_nulls() if kind.is_integer() else ()
        if len(known) and not -(2**53) < known.min() <= known.max() < 2**53:
            return read_cells(who, column.name, column.to_list())  # floats do not tell such integers apart
        return np.asarray(column.cast(nw.Float64).fill_null(math.nan).to_numpy(), dtype=np.float64)
    if kind == nw.Datetime or kind == nw.Date:
        zone = getattr(kind, "time_zone", None)
        if zone is not None:
            if zone != "UTC":
                log_sentence(
                    f"'{column.name}' is in the zone {zone}; it is learned as UTC, as files with zones are: "
                    "for hours of the place, take the zone away here and in later rows"
                )
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return np.asarray(column.cast(nw.Datetime("us")).to_numpy()).astype("datetime64[us]")
    if kind in (nw.String, nw.Categorical, nw.Enum):
        return [cell if isinstance(cell, str) else None for cell in column.cast(nw.String).to_list()]
    if kind in (nw.Object, nw.Unknown):
        return read_cells(who, column.name, column.to_list())
    raise _unusable(who, column.name, str(kind))


def _unusable(who: str, name: str, kind: str) -> InputError:
    return InputError(f"{who}: column '{name}' holds {describe_kind(kind)}; leave it out with drop=['{name}']")

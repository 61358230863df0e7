"""A data frame of any library as a polars frame that a run can read: an index that says something becomes a column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from undrift import _check
from undrift.errors import InputError
from undrift.run.extras import log_sentence, polars

Frame = Any
"""A data frame: pandas, polars, pyarrow, or whatever narwhals knows."""
TIME_INDEXES = ("DatetimeIndex", "PeriodIndex")
"""Indexes of pandas that become a column even without a name."""


def read_frame(frame: Frame, drop: Collection[str] = ()) -> Any:
    """Return the rows as a polars frame; say what was changed, and refuse what a run cannot read, but for `drop`.

    Times with a zone are learned as UTC, as those of files are, so that later rows may come in files.
    """
    import narwhals as nw

    pl = polars("run_frame")
    frame = _put_index_first(frame)
    try:
        table = nw.from_native(frame, eager_only=True)
        names = table.columns
    except nw.exceptions.DuplicateError:
        twice = next(name for name, count in Counter(frame.columns).items() if count > 1)
        raise InputError(f"run_frame: column names must differ, {twice!r} comes twice; rename one of them") from None
    except TypeError:
        cure = "collect it" if hasattr(frame, "collect") else "for arrays make one: pl.DataFrame(Z).with_columns(y=y)"
        kind = type(frame).__name__
        raise InputError(f"run_frame: frame must be a data frame (pandas, polars, ...), got {kind}; {cure}") from None
    bad = next((name for name in names if not isinstance(name, str)), None)
    if bad is not None:
        raise InputError(
            f"run_frame: column names must be texts, got {_check.describe(bad)}; rename the columns, for example with "
            "frame.columns = [str(name) for name in frame.columns]"
        )
    return pl.DataFrame([_read_column(pl, table[name], used=name not in drop) for name in names])


def _put_index_first(frame: Frame) -> Frame:
    """Return a frame of pandas with its index as a column, where that has a name or holds times."""
    index = getattr(frame, "index", None)
    names = [name for name in getattr(index, "names", ()) if name is not None]
    if getattr(frame, "ndim", 0) != 2 or not (names or type(index).__name__ in TIME_INDEXES):
        return frame
    if not names:
        frame, names = frame.rename_axis("time"), ["time"]
    twice = next((name for name in names if name in frame.columns), None)
    if twice is not None:
        raise InputError(
            f"run_frame: the index and a column are both called {twice!r}; rename the index with frame.rename_axis, or "
            "leave it out with frame.reset_index(drop=True)"
        )
    return frame.reset_index()


def _read_column(pl: Any, column: Any, *, used: bool) -> Any:
    """Return a column as polars has it: numbers, texts or times; nothing if it is not used."""
    if not used:
        return pl.Series(column.name, [None] * len(column), dtype=pl.Null)
    native = column.to_native()
    if str(native.dtype).startswith("period"):
        native = native.dt.to_timestamp()
    try:
        found = pl.Series(column.name, native)
    except Exception:  # what libraries raise for objects of mixed kinds
        found = pl.Series(column.name, _as_texts(column.name, column.to_list()), dtype=pl.String)
    kind = found.dtype
    if kind == pl.Object:
        found = pl.Series(column.name, _as_texts(column.name, column.to_list()), dtype=pl.String)
    elif kind in (pl.Time, pl.Duration) or kind.is_nested() or kind == pl.Binary:
        raise _unusable(column.name, str(kind))
    elif getattr(kind, "time_zone", None) not in (None, "UTC"):
        log_sentence(
            f"'{column.name}' is in the zone {kind.time_zone}; it is learned as UTC, as files with zones are: "
            "for hours of the place, take the zone away here and in later rows"
        )
    return found


def _as_texts(name: str, cells: list[Any]) -> list[str | None]:
    """Return objects of mixed kinds as a file would hold them; refuse what is no number nor text."""
    out = []
    for cell in cells:
        missing = cell is None or type(cell).__name__ == "NAType"
        if not (missing or isinstance(cell, (str, bool, int, float))):
            raise _unusable(name, type(cell).__name__)
        out.append(None if missing else str(cell))
    return out


def _unusable(name: str, kind: str) -> InputError:
    return InputError(
        f"run_frame: column '{name}' holds {kind}, no number, text or time; leave it out with drop=['{name}']"
    )

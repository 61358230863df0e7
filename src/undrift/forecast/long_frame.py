"""Frames in long format, one row for each series and time, as rows of all series and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix
from undrift.errors import InputError

COLUMNS = ("unique_id", "ds", "y")
"""Series, time and value, as other forecasting libraries call them."""


class LongRows(NamedTuple):
    """A frame in long format as rows of all series."""

    names: list[str]
    """The series, in order of appearance."""
    times: NDArray[np.datetime64]
    """Different times in order."""
    values: Matrix
    """(times, series), NaN where missing."""


def is_frame(value: object) -> bool:
    """Whether this is a frame of pandas, polars or Arrow, with the columns of a long one."""
    names = getattr(value, "columns", getattr(value, "column_names", None))
    return names is not None and not callable(names) and {"ds", "y"} <= {str(name) for name in names}


def refuse_times(value: object) -> None:
    """Refuse a frame whose columns are not all values: times among them would be forecast as numbers."""
    import narwhals as nw

    table = nw.from_native(value, eager_only=True, pass_through=True)
    if not isinstance(table, nw.DataFrame):
        return
    column = next((name for name, kind in table.schema.items() if kind.is_temporal()), None)
    if column is not None:
        raise InputError(
            f"Forecaster: column '{column}' holds times, not values; pass the values as Y and the times as times=, "
            "or name the columns ds and y"
        )


def read_long_frame(frame: Any, names: list[str] | None) -> LongRows:
    """Return the rows of a frame with the columns unique_id (not needed for one series), ds and y.

    Parameters
    ----------
    frame
        Of any library that narwhals knows.
    names
        The series of earlier frames; None: this is the first.
    """
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    which = [str(one) for one in table["unique_id"].to_list()] if "unique_id" in table.columns else ["y"] * len(table)
    times = np.asarray(table["ds"].to_numpy()).astype("datetime64[s]")
    values = table["y"].cast(nw.Float64).to_numpy()
    if np.isnat(times).any():
        raise InputError(f"Forecaster: ds must not be missing, row {int(np.argmax(np.isnat(times)))} has none")
    known = list(dict.fromkeys(which)) if names is None else names
    index = {name: i for i, name in enumerate(known)}
    strange = next((name for name in which if name not in index), None)
    if strange is not None:
        raise InputError(f"Forecaster: series {strange!r:.60} was not there before; begin a new forecaster")
    grid, place = np.unique(times, return_inverse=True)
    out = np.full((len(grid), len(known)), np.nan)
    columns = np.array([index[name] for name in which], dtype=np.int64)
    if len(np.unique(place * len(known) + columns)) < len(which):
        raise InputError("Forecaster: a series has two rows of one time; drop one of them")
    out[place, columns] = values
    return LongRows(known, grid, out)

"""`run_frame`: what `undrift run` does, for rows that are in memory as a data frame.

A frame of any library becomes a polars frame that a run can read; an index that says something becomes a column.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from undrift import _check
from undrift._internal import html
from undrift.errors import ConditionError, InputError
from undrift.report.run_page import render
from undrift.report.run_text import error_sentence
from undrift.report.scores import score_predictors
from undrift.run import RunData, Settings, certify_run, play_file, read_run, write_report
from undrift.run.play.state import STATE
from undrift.stream.extras import log_sentence, polars

ROWS = "-rows.parquet"
"""Ends the name of the file beside the folder that keeps the frame's rows: `undrift certify` and `update` read them."""


@dataclass(frozen=True, eq=False, repr=False)
class FrameRun:
    """A finished run over a data frame."""

    folder: Path
    """Its folder, as `undrift run` leaves one: predictions, model, `report.html`."""
    data: RunData
    """Labels, predictions, intervals, baselines, memories: everything the report shows, as arrays."""

    @property
    def report(self) -> Path:
        """The page that opens in a browser."""
        return self.folder / "report.html"

    def __repr__(self) -> str:
        return f"<FrameRun: {self._sentence()} {self.report}>"

    def _repr_html_(self) -> str:
        facts = {"rows": f"{self.data.rounds:,}", "in short": self._sentence(), "report": str(self.report)}
        return html.facts_table(f"Run: {self.data.target}", facts)

    def _sentence(self) -> str:
        return error_sentence(self.data, score_predictors(self.data))


def run_frame(
    frame: Frame,
    out: str | os.PathLike[str],
    *,
    target: str,
    certify: bool = True,
    force: bool = False,
    **settings: Any,
) -> FrameRun:
    """Predict every row of a data frame before its label, learn from it, and write the report of `undrift run`.

    Parameters
    ----------
    frame
        A data frame of pandas, polars or any library that narwhals knows, in order of time. An index with a name, or
        one of times, becomes a column. Times with a zone are learned as UTC, as in files.
    out
        Folder of the run. The rows are kept beside it, in `OUT-rows.parquet`.
    target
        Column to predict.
    certify
        Whether to bound the regret against comparators in hindsight, too.
    force
        Replace a run that is there, with its rows.
    settings
        Those of `undrift.run.Settings`: `speed`, `lag`, `delay`, `calendar`, `candidate`, ...

    Notes
    -----
    What the columns were taken for is told through `logging`, by the logger "undrift".

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> frame = pl.DataFrame({"x": [t % 7 for t in range(300)], "y": [2.0 * (t % 7) + 0.1 for t in range(300)]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = run_frame(frame, f"{folder}/run", target="y", speed="light", certify=False)
    ...     done.report.name, done.data.rounds
    ('report.html', 300)
    """
    folder, wanted = Path(out), Settings.from_dict({"target": target, **settings})
    table = read_frame(frame, wanted.drop)
    rows = folder.with_name(folder.name + ROWS)
    if not force and (rows.exists() or (folder / STATE).exists()):
        raise InputError(
            f"run_frame: {folder} or {rows.name} beside it is there; replace both with force=True, or name another "
            "folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with _put_rows(table, rows):
        play_file(str(rows), folder, wanted, force=force, command="undrift.run_frame")
    if certify:
        try:
            certify_run(folder)
        except ConditionError as error:
            log_sentence(f"not certified: {error}")
    write_report(folder, render)
    return FrameRun(folder, read_run(folder))


@contextmanager
def _put_rows(table: Any, path: Path) -> Iterator[None]:
    """Keep rows in a file; if something inside fails, the file is as it was before."""
    before = path.with_name(path.name + ".before")
    if path.exists():
        path.replace(before)
    try:
        table.write_parquet(path)
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        if before.exists():
            before.replace(path)
        raise
    before.unlink(missing_ok=True)


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
    """Return objects of mixed kinds as a file would hold them; refuse anything but numbers and texts."""
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

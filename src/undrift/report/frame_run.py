"""`run_frame`: what `undrift run` does, for rows that are in memory as a data frame."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from undrift import _html
from undrift.errors import ConditionError, InputError
from undrift.report.run_page import render
from undrift.report.run_text import error_sentence
from undrift.report.scores import score_predictors
from undrift.run import RunData, Settings, certify_run, play_file, read_run, write_report
from undrift.run.extras import log_sentence, polars

ROWS = "-rows.parquet"
"""Ends the name of the file beside the folder that keeps the frame's rows: `undrift certify` and `update` read them."""

Frame = Any
"""A data frame: pandas, polars, pyarrow, or whatever narwhals knows."""


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
        return _html.facts_table(f"Run: {self.data.target}", facts)

    def _sentence(self) -> str:
        return error_sentence(self.data, score_predictors(self.data))


def run_frame(
    frame: Frame, out: str | os.PathLike[str], *, target: str, certify: bool = True, **settings: Any
) -> FrameRun:
    """Predict every row of a data frame before its label, learn from it, and write the report of `undrift run`.

    Parameters
    ----------
    frame
        A data frame of pandas, polars or any library that narwhals knows, in order of time. An index with a name, or
        one of times, becomes a column.
    out
        Folder of the run; it must be new or empty. The rows are kept beside it, in `OUT-rows.parquet`.
    target
        Column to predict.
    certify
        Whether to bound the regret against comparators in hindsight, too.
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
    table, folder, wanted = _read_frame(frame), Path(out), Settings.from_dict({"target": target, **settings})
    rows = folder.with_name(folder.name + ROWS)
    if rows.exists() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise InputError(f"run_frame: {folder} or {rows.name} beside it is there; name another folder, or remove both")
    folder.mkdir(parents=True, exist_ok=True)
    table.write_parquet(rows)
    play_file(str(rows), folder, wanted, command="undrift.run_frame")
    if certify:
        try:
            certify_run(folder)
        except ConditionError as error:
            log_sentence(f"not certified: {error}")
    write_report(folder, render)
    return FrameRun(folder, read_run(folder))


def _read_frame(frame: Frame) -> Any:
    """Return the rows as a polars frame; an index of pandas that says something becomes a column."""
    import narwhals as nw

    pl = polars("run_frame")
    index = getattr(frame, "index", None)
    name = getattr(index, "name", None)
    if name is not None or type(index).__name__ in ("DatetimeIndex", "PeriodIndex"):
        frame = frame.rename_axis("time" if name is None else name).reset_index()
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise InputError(
            f"run_frame: frame must be a data frame (pandas, polars, ...), got {type(frame).__name__}; "
            "for arrays make one: polars.DataFrame(Z).with_columns(y=y)"
        ) from None
    return pl.DataFrame({name: table[name].to_arrow() for name in table.columns})

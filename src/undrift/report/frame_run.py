"""`run_frame`: what `undrift run` does, for rows that are in memory as a data frame."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import undrift
from undrift._internal import html
from undrift._internal.state_file import STATE
from undrift.errors import ConditionError, InputError
from undrift.report.run_page import render
from undrift.report.run_text import error_sentence
from undrift.report.scores import score_predictors
from undrift.run import RunData, Settings, certify_run, play_file, read_run, write_report
from undrift.stream import Stream
from undrift.stream.extras import log_sentence, polars
from undrift.stream.frames import Frame, read_table

ROWS = "-rows.parquet"
"""Ends the name of the file beside the folder that keeps the frame's rows: `undrift certify` and `update` read them."""


@dataclass(frozen=True, eq=False, repr=False)
class FrameRun:
    """A finished run over a data frame."""

    folder: Path
    """Its folder, as `undrift run` leaves one: predictions, model, `report.html`."""
    data: RunData
    """Labels, predictions, intervals, baselines, memories: everything the report shows, as arrays."""
    stream: Stream
    """What was learned, for the rows to come: `stream.predict(frame)`, `stream.play(frame)`, `stream.explain(row)`."""

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
    ...     done.report.name, done.data.rounds, round(done.stream.predict({"x": 3.0})[0]["prediction"], 1)
    ('report.html', 300, 6.1)
    """
    folder, wanted = Path(out), Settings.from_dict({"target": target, **settings})
    pl = polars("run_frame")
    batch = read_table("run_frame", frame, wanted.drop)
    table = pl.DataFrame(batch.columns)
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
    return FrameRun(folder, read_run(folder), undrift.load(folder))


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

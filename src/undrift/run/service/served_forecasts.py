"""ServedForecasts: the forecaster of a folder while rows come one by one, in the journal first and then in the folder.

The journal holds the rows since the last commit. They are learned as an update learns those of a file, so that the
folder is the same. When the service has ended in order, everything is in the folder and the journal is gone.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from undrift._internal.state_file import explain_damage
from undrift._typing import Matrix
from undrift.errors import ModelFileError, UndriftError
from undrift.forecast import Forecaster
from undrift.run.forecast.forecast_folder import ForecastFolder
from undrift.run.forecast.panel import LaterCells, PanelPlan, make_later_panel
from undrift.run.forecast.play import ForecastResult, Log, Render, learn_later_file
from undrift.run.forecast.recorder import ForecastRecorder
from undrift.run.ledger import make_entry
from undrift.run.service.folder_journal import begin_link, commit_with_journal, find_facts, open_journal
from undrift.run.service.journal import EntryKind, Journal
from undrift.run.service.journaled_service import describe_failure, to_json
from undrift.stream.first_rows import RowOrigin

ROWS_PER_COMMIT, SECONDS_PER_COMMIT = 500, 60.0
"""Rows between two commits of the folder, at most, and seconds. A restart repeats what came after."""
LEAST_REST = 10.0
"""A commit writes all forecasts again; the next one comes after so many times as long, at least."""


KnownCells = Sequence[float | str | None]
"""The cells of a row in the columns known in advance."""


class ServedForecasts:
    """The forecaster of a folder, and what it has learned since the last commit.

    Parameters
    ----------
    folder
        Of forecasts, locked by this process.
    """

    def __init__(self, folder: ForecastFolder) -> None:
        self.folder = folder
        self._load()
        self._saved, self._saved_when, self._rest = 0, time.monotonic(), 0.0

    def _load(self) -> None:
        """Become what the folder holds."""
        state = self.folder.read_state()
        with explain_damage(self.folder.path, "forecast"):
            self.recorder = ForecastRecorder(self.folder, state, self.folder.read_model(state))
            self.plan = PanelPlan.from_dict(state["plan"])
            self.known = self.recorder.settings.known
            self._keep_ahead({int(place): cells for place, cells in state.get("ahead", ())})
        self._committed_rows = self.recorder.rows

    @property
    def model(self) -> Forecaster:
        """The forecaster."""
        return self.recorder.model

    @property
    def last(self) -> int | None:
        """Seconds since 1970 of the last row; None without times."""
        last: int | None = self.recorder.last
        return last

    def restore(self, journal: Journal) -> None:
        """Become what the folder and the journal hold together; refuse a journal that does not belong to the folder."""
        self._load()
        state = self.recorder.state
        with explain_damage(self.folder.path, "forecast"):
            facts = find_facts(journal, state.get("journal"), "folder of forecasts")
            self._saved = 0 if facts is None else int(state["journal"]["sequence"])
        if facts is None:
            state["journal"] = begin_link()
            self.save(journal)
        try:
            for entry in journal.entries_after(self._saved):
                values, times, *cells = json.loads(entry.body)
                shape = (len(values), len(self.plan.names))
                self.play(np.array(values, dtype=np.float64).reshape(shape), times, *cells)
        except UndriftError:
            raise
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ModelFileError(f"{journal.path}: damaged ({describe_failure(error)}); move it away") from None

    def play(
        self, values: Matrix, times: list[int] | None, known: Sequence[KnownCells] | None = None,
        ahead: Sequence[tuple[int, KnownCells]] = (),
    ) -> None:  # fmt: skip
        """Learn rows that are later than the last one.

        Parameters
        ----------
        values
            (n, series), NaN where missing.
        times
            Seconds since 1970.
        known
            Cells of the columns known in advance, row by row.
        ahead
            Those of rows to come, with their times or numbers; they are kept until these rows come.
        """
        self._keep_ahead(self._ahead | {int(place): cells for place, cells in ahead})
        if not len(values):
            return
        when = None if times is None else np.array(times, dtype=np.int64)
        cells = LaterCells(self.known, known or [()] * len(values), self._ahead)
        panel = make_later_panel(self.plan, values, when, self.last, cells, self.model.rows)
        learned = self.recorder.state["learned"]
        entry = learned[-1] if learned[-1]["by"] == "serve" else make_entry("undrift serve", "serve")
        self.recorder.play(panel, RowOrigin("the request", self.recorder.settings.reading()), entry)
        if entry is not learned[-1]:
            learned.append(entry)
        self.plan = panel.plan
        self._keep_ahead(self._ahead)

    def _keep_ahead(self, ahead: Mapping[int, KnownCells]) -> None:
        """Keep the cells of those rows that are still to come, by their times or numbers from 0 on."""
        done = self.model.rows - 1 if self.last is None else self.last
        self._ahead = {place: cells for place, cells in ahead.items() if place > done}
        if self.known:
            self.recorder.state["ahead"] = [[place, cells] for place, cells in self._ahead.items()]

    def learn(
        self, values: Matrix, times: list[int] | None, known: Sequence[KnownCells],
        ahead: Sequence[tuple[int, KnownCells]], journal: Journal,
    ) -> None:  # fmt: skip
        """Learn rows, as `play`, and write them into the journal; what fails in between must be restored."""
        self.play(values, times, known, ahead)
        cells = [[None if math.isnan(one) else one for one in row] for row in values.tolist()]
        journal.append(EntryKind.VALUES, 1, to_json([cells, times, *([known, ahead] if self.known else [])]))

    def is_due(self) -> bool:
        """Whether the folder should be committed."""
        rows, seconds = self.recorder.rows - self._committed_rows, time.monotonic() - self._saved_when
        due = rows >= ROWS_PER_COMMIT or (rows > 0 and seconds >= SECONDS_PER_COMMIT)
        return due and seconds >= self._rest

    def save(self, journal: Journal) -> None:
        """Commit the folder, and let the journal forget what it holds then."""
        recorder, began = self.recorder, time.monotonic()
        link = recorder.state["journal"]
        new = recorder.rows > self._committed_rows
        if not new and journal.last == self._saved and journal.last_snapshot() is not None:
            return
        recorder.state["journal"] = {**link, "sequence": journal.last}
        commit_with_journal(journal, {"id": link["id"]}, recorder.commit if new else recorder.commit_state)
        self._saved, self._committed_rows, self._saved_when = journal.last, recorder.rows, time.monotonic()
        self._rest = LEAST_REST * (self._saved_when - began) if new else 0.0

    def end(self) -> None:
        """Take leave of the journal, which is closed and of which the folder holds everything."""
        self.recorder.state["journal"] = None
        self.recorder.commit_state()


@contextlib.contextmanager
def open_forecast_journal(folder: ForecastFolder, *, durable: bool = False) -> Iterator[Journal]:
    """Give the journal in a folder of forecasts, which is locked."""
    state = folder.read_state()
    folder.adopt_files(state)
    folder.sweep(state)  # also of a journal that does not count: its service has ended
    with open_journal(folder.files, durable) as journal:
        yield journal


def update_forecast(
    out: str | Path, path: str, *, log: Log | None = None, report: Render | None = None
) -> ForecastResult:
    """Learn the new rows of a file: the same bits as if all rows had come in one file.

    The file may begin with all that was learned before and go on, or hold rows that are later (rows that are not are
    skipped and counted). A file that was learned already is refused. What a service learned counts; the rows that a
    killed one left in its journal are committed first.
    """
    folder = ForecastFolder(out)
    if folder.exists and folder.read_state().get("journal"):
        with folder.hold_lock():
            commit_journal(folder)
    return learn_later_file(folder, path, log=log, report=report)


def commit_journal(folder: ForecastFolder) -> None:
    """Commit the rows that a killed service left in the journal of a folder, which is locked."""
    served = ServedForecasts(folder)
    with open_forecast_journal(folder) as journal:
        served.restore(journal)
        served.save(journal)
    served.end()

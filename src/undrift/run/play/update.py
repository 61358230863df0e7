"""`update_run`: new rows for a finished run, learned as if they had stood at the end of its file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._internal.stopping import StopRequest
from undrift.errors import DataError, InputError, LearnedBeforeError
from undrift.run.ledger import LedgerEntry, extend_entry, find_grown, make_entry, was_learned
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.run_loop import Progress, RunLoop
from undrift.run.play.state import RunState, settings_of
from undrift.run.read.source import LaterSource, Source
from undrift.run.state_file import explain_damage
from undrift.stream.cells import Cells, RowBatch, UnreadableCell, parse_times
from undrift.stream.extras import log_sentence
from undrift.stream.schema import Schema


class RunUpdate(NamedTuple):
    """What an update did."""

    state: RunState
    """What `run.json` holds now."""
    added: int
    """Rows that were learned."""
    skipped: int
    """Rows that had been learned before."""
    changes: int
    """Events that were found in the new rows, where the run looks for them."""


class _NewRows:
    """The rows of a file that a run has not learned yet; the others are counted in the ledger's entry."""

    def __init__(self, source: Source, schema: Schema, entry: LedgerEntry, after_line: int, after_time: str) -> None:
        self.source, self.schema, self.entry = source, schema, entry
        self.after_line, self.after_time = after_line, np.datetime64(after_time, "us")

    def select(self, batches: Iterable[RowBatch]) -> Iterator[RowBatch]:
        """Yield what is new."""
        for batch in batches:
            new = self._is_new(batch)
            self.entry["skipped"] += int(np.count_nonzero(~new))
            if new.all():
                yield batch
            elif new.any():
                yield _take(batch, new)

    def _is_new(self, batch: RowBatch) -> NDArray[np.bool_]:
        if self.after_line:
            return np.asarray(batch.lines > self.after_line)
        if self.schema.time is None or np.isnat(self.after_time):
            return np.ones(len(batch.lines), bool)
        cells = batch.columns.get(self.schema.time)
        if cells is None:
            raise DataError(f"{self.source.name} has no column '{self.schema.time}', which holds the times of this run")
        try:
            times = parse_times(cells, self.schema.clock, self.source.na)
        except UnreadableCell as bad:
            where = self.source.at(int(batch.lines[bad.row]))
            raise DataError(
                f"{where}: '{self.schema.time}' should be a time, got {bad.cell!r:.60}; correct it"
            ) from None
        return np.asarray(~(times <= self.after_time))


def _take(batch: RowBatch, rows: NDArray[np.bool_]) -> RowBatch:
    at = np.flatnonzero(rows).tolist()
    columns: dict[str, Cells] = {
        name: cells[rows] if isinstance(cells, np.ndarray) else [cells[i] for i in at]
        for name, cells in batch.columns.items()
    }
    return RowBatch(batch.lines[rows], columns)


def update_run(
    out: str | Path,
    path: str,
    *,
    command: str = "",
    progress: Callable[[Progress], None] | None = None,
    log: Callable[[str], None] | None = None,
    stop: StopRequest | None = None,
    versions: int | None = None,
) -> RunUpdate:
    """Learn the rows of a file that a finished run has not learned, with the columns and settings it began with.

    A file that begins with the bytes of one that was learned is continued behind them. Of another file, rows count
    whose time is later than the last one learned; without times, all of them. A file that was learned already is
    refused. `versions` is how many versions the folder keeps from now on; None: as many as before.
    """
    folder = RunFolder(out)
    folder.state()  # refuse what is no run before anything is made there
    with folder.hold_lock():
        state = folder.state()
        if state["status"] != "finished":
            raise InputError(f"{folder.path}: this run is not finished; finish it first with undrift run --resume")
        folder.adopt_files(state)
        state = folder.use_final_names(state)  # if an update was killed before it had done so
        settings = settings_of(folder.path, state).replace(limit=None)
        source = LaterSource(path, settings)
        if was_learned(state["learned"], source.digest()):
            raise LearnedBeforeError(f"{path}: this very file was learned already; nothing was changed")
        with explain_damage(folder.path):
            grown = _find_grown(folder, state, source)
            entry = make_entry(source, "update")
            if grown is not None:
                entry = extend_entry(state["learned"][grown], source, "update")
            schema = Schema.from_dict(state["plan"], state["plan"]["time"])
            new = _NewRows(source, schema, entry, 0 if grown is None else entry["line"], state["latest"])
            skipped = entry["skipped"]
        request = stop or StopRequest(None)
        say = log or log_sentence
        loop = RunLoop(source, folder, command, say, schema=schema, select=new.select, versions=versions)
        loop.go_on(state)
        loop.writer.learn_from(entry, grown)
        finished = loop.play_all(progress or (lambda _: None), request)
        changes = len(finished["events"]) - len(state["events"])
        return RunUpdate(finished, finished["rows"] - state["rows"], entry["skipped"] - skipped, changes)


def _find_grown(folder: RunFolder, state: RunState, source: Source) -> int | None:
    """Return the place in the ledger of a file that was read to its end and that this one begins with."""
    learned = state["learned"]
    whole = [entry if entry["by"] in ("run", "update") else entry | {"size": None} for entry in learned]
    if settings_of(folder.path, state).limit is not None:
        whole[0] = whole[0] | {"size": None}
    return find_grown(whole, source)

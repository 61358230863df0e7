"""`learn_later_file`: new rows for a finished run, learned as if they had stood at the end of its file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._internal.state_file import explain_damage
from undrift._internal.stopping import StopRequest
from undrift.errors import ConditionError, DataError, InputError, LearnedBeforeError
from undrift.run.ledger import LedgerEntry, extend_entry, find_grown, make_entry, was_learned
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.run_loop import Progress, RunLoop
from undrift.run.play.state import RunState, settings_of
from undrift.run.read.rows_in_order import read_rows, take_rows
from undrift.run.read.source import LaterSource, Source
from undrift.stream.cells import RowBatch, UnreadableCell, parse_times
from undrift.stream.extras import log_sentence
from undrift.stream.features import Features
from undrift.stream.schema import Schema
from undrift.stream.settings import Settings


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


class NewRows:
    """The rows of a file that a run has not learned yet.

    Parameters
    ----------
    source
        The file.
    schema
        The columns of the run.
    entry
        The file's entry in the ledger, in which the other rows are counted.
    after_line
        The last line that was learned of a file which grew; 0 for another file.
    after_time
        Of another file, rows count whose time is later; "NaT": all rows.
    """

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
                yield take_rows(batch, np.flatnonzero(new))

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


def learn_later_file(
    out: str | Path,
    path: str,
    *,
    command: str = "",
    progress: Callable[[Progress], None] | None = None,
    log: Callable[[str], None] | None = None,
    stop: StopRequest | None = None,
    versions: int | None = None,
) -> RunUpdate:
    """Learn the rows of a file that a finished run has not learned: `update_run` of a run that no service left."""
    folder = RunFolder(out)
    folder.state()  # refuse other folders before anything is written
    with folder.hold_lock():
        state = folder.state()
        if state["status"] != "finished":
            raise InputError(f"{folder.path}: this run is not finished; finish it first with undrift run --resume")
        folder.adopt_files(state)
        state = folder.use_final_names(state)  # if an update was killed before it had done so
        source = LaterSource(path, settings_of(folder.path, state).replace(limit=None))
        if was_learned(state["learned"], source.digest()):
            raise LearnedBeforeError(f"{path}: this very file was learned already; nothing was changed")
        say = log or log_sentence
        return learn_more(
            folder, state, source, command=command, progress=progress, log=say, stop=stop, versions=versions
        )


def learn_more(
    folder: RunFolder,
    state: RunState,
    source: Source,
    *,
    command: str = "",
    progress: Callable[[Progress], None] | None = None,
    log: Callable[[str], None],
    stop: StopRequest | None = None,
    versions: int | None = None,
) -> RunUpdate:
    """Learn what is new in a file whose digest was taken, in the folder of a finished run, which is locked."""
    with explain_damage(folder.path):
        grown = _find_grown(folder, state, source)
        entry = make_entry(source, "update")
        if grown is not None:
            entry = extend_entry(state["learned"][grown], source, "update")
        schema = Schema.from_dict(state["plan"], state["plan"]["time"])
        new, skipped = NewRows(source, schema, entry, entry.get("line", 0), state["latest"]), entry["skipped"]
    loop = RunLoop(source, folder, command, log, schema=schema, select=new.select, versions=versions)
    loop.go_on(state)
    loop.writer.learn_from(entry, grown)
    finished = loop.play_all(progress or (lambda _: None), stop or StopRequest(None))
    changes = len(finished["events"]) - len(state["events"])
    return RunUpdate(finished, finished["rows"] - state["rows"], entry["skipped"] - skipped, changes)


class LearnedFile(NamedTuple):
    """A file as it was when its rows were learned; one that grew and was learned again is one for each size."""

    run: Path
    """Folder of the run."""
    path: str
    """As it was named."""
    absolute: str
    """Where it is."""
    size: int
    """Bytes that were learned; what was added later is left out."""
    sha256: str
    """Of these bytes."""
    after_line: int
    """The last line that was learned of it before; 0 for the first time."""
    settings: Settings

    def open(self) -> Source:
        """Return its rows, if they are still the same."""
        try:
            source = Source(self.absolute, self.settings, size=self.size)
        except (InputError, DataError) as error:
            raise ConditionError(f"{self.run}: its rows cannot be read again: {error}") from None
        if source.digest() != self.sha256:
            raise ConditionError(f"{self.run}: {self.path} has changed since the run; certify needs the same rows")
        return source


def list_learned(folder: RunFolder, state: RunState) -> list[LearnedFile]:
    """Return the files that a run learned, in the order in which it learned their rows; refuse rows that are gone."""
    found = list[tuple[int, LearnedFile]]()
    settings = settings_of(folder.path, state)
    with explain_damage(folder.path):
        for entry in state["learned"]:
            gone = None
            if entry["by"] in ("live", "serve"):
                if not entry["rows"]:
                    continue  # as of a service that was not asked anything
                gone = "its rows came one by one, and labels after them"
            elif entry["by"] == "model":
                gone = f"it began with {entry['path']}, whose rows are not known"
            elif entry["sha256"] is None or entry["absolute"] is None:
                gone = "rows of the standard input are gone"
            if gone is not None:
                raise ConditionError(f"{folder.path}: {gone}; certify runs of files")
            line = 0
            for then in (*entry.get("earlier", ()), entry):
                limited = settings.replace(limit=settings.limit if not found else None)  # of the first file alone
                about = folder.path, entry["path"], entry["absolute"], then["size"], then["sha256"]
                found.append((int(then.get("rows_before", 0)), LearnedFile(*about, line, limited)))
                line = int(then.get("line", 0))
    return [file for _, file in sorted(found, key=lambda one: one[0])]


def learned_batches(files: Iterable[LearnedFile], features: Features) -> Iterator[tuple[Source, RowBatch]]:
    """Yield the rows of files as a run learned them; `features` has encoded each batch before the next one is asked."""
    for k, file in enumerate(files):
        source = file.open()
        _, batches = read_rows(source)
        if k:
            entry = make_entry(source, "update")
            batches = NewRows(source, features.schema, entry, file.after_line, features.latest_time).select(batches)
        yield from ((source, batch) for batch in batches)


def _find_grown(folder: RunFolder, state: RunState, source: Source) -> int | None:
    """Return the place in the ledger of a file that was read to its end and that this one begins with."""
    learned = state["learned"]
    whole = [entry if entry["by"] in ("run", "update") else entry | {"size": None} for entry in learned]
    if settings_of(folder.path, state).limit is not None:
        whole[0] = whole[0] | {"size": None}
    return find_grown(whole, source)

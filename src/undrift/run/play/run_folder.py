"""The folder of a run: what counts is what `run.json` names, and it is renamed into place last.

```
run.json               settings, the ledger, how far the run is, and the names of the files that count
predictions-*.parquet  one part for each commit; joined into predictions.parquet when the run, or an update, is finished
model-*.undrift        the stream after the last commit, for `undrift.load`; model.undrift when finished
trace-*.undrift        snapshots (spectrum, weights, coefficients), the last rows, and counts of the naive guesses
events.jsonl           what changed on the way, one JSON object a line, when that was asked for (--alert)
journal.sqlite         of a run that was served: what came since the last commit, and the rows that wait for labels
report.html            when a report was asked for
run-v*.json            what run.json said of another version, whose stream and trace are model-v*.undrift and
                       trace-v*.undrift, and whose predictions are the first rows of predictions.parquet, or of
                       predictions-v*.parquet if it was rolled back
.undrift/              the lock, the list of files we wrote, and what is being written
```
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undrift import store
from undrift._internal.folder import Folder, regular_file
from undrift._internal.state_file import JOURNAL, STATE, write_state
from undrift.errors import InputError, ModelFileError, UndriftError
from undrift.run.play.state import (
    RunState,
    VersionEntry,
    current_version,
    find_ancestors,
    read_run,
    version_files,
    version_names,
)
from undrift.run.tables import cut_parquet, join_parquet, scan_parts, table_shape
from undrift.stream import Stream
from undrift.stream.extras import polars

if TYPE_CHECKING:
    from polars import DataFrame

REPORT, EVENTS = "report.html", "events.jsonl"
FINAL = ("predictions.parquet", "model.undrift", "trace.undrift", STATE, REPORT)
"""Names of a finished run."""
NAMES = (
    r"run(-v\d+)?\.json|events\.jsonl|report\.html|predictions(-v\d+|-\d{6,})?\.parquet"
    r"|(model|trace)(-v\d+|-\d{6,})?\.undrift|journal\.sqlite(-wal|-shm)?"
)
"""Every name that runs ever write."""


class RunFolder:
    """A folder that holds one run; a kill at any moment leaves the last commit whole."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.files = Folder(path, "run", retry="continue with --resume", names=NAMES)

    @property
    def exists(self) -> bool:
        """Whether a run was ever committed here."""
        return os.path.lexists(self.path / STATE)

    @contextlib.contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Keep other writers out; what fails leaves the last commit and nothing else."""
        with self.files.hold_lock():
            try:
                yield
            except BaseException:
                with contextlib.suppress(UndriftError):
                    self.sweep(self.state() if self.exists else None)
                raise

    def state(self) -> RunState:
        """Return what the last commit wrote."""
        return read_run(self.path)

    def adopt_files(self, state: RunState) -> None:
        """Count the files a run names as ours if no list says whose they are: the list may be lost in a copy."""
        named = [*state["parts"], state["model"], state["trace"], *version_files(state)]
        named += JOURNAL if (state["journal"] or {}).get("id") else ()
        self.files.adopt(STATE, *(name for name in named if name and not self.files.knows(name)))
        if not self.files.knows(REPORT) and _is_report(self.path / REPORT):
            self.files.adopt(REPORT)
        if not self.files.knows(EVENTS) and _holds(self.path / EVENTS, _event_lines(state)):
            self.files.adopt(EVENTS)

    def refuse_foreign_files(self) -> None:
        """Refuse a folder that holds files which no run wrote, where no run is."""
        others = (file.name for file in self.path.iterdir() if not file.name.startswith("."))
        foreign = next((name for name in others if not self.files.is_ours(name)), None)
        if foreign is not None:
            raise InputError(f"{self.path}: the folder holds other files ({foreign}); choose another with --out")

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Commit: from now on, the files this state names are the run."""
        if state["settings"].get("alert"):  # the same that the state says, for programs that read lines
            self.files.put(EVENTS, _event_lines(state), durable=False)
        self.files.put(STATE, write_state(state, "run"))

    def write_table(self, name: str, frame: DataFrame) -> None:
        """Write one part of the predictions, whole or not at all."""
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd")
        self.files.put(name, buffer.getvalue(), durable=name in FINAL)

    def write_arrays(self, name: str, header: store.Header, arrays: store.Arrays) -> None:
        """Write arrays and a header, whole or not at all."""
        with self.files.new_file(name, durable=name in FINAL) as temporary:
            store.write(temporary, header, arrays)

    def write_model(self, name: str, stream: Stream) -> None:
        """Write the stream, whole or not at all."""
        with self.files.new_file(name, durable=name in FINAL) as temporary:
            stream.save(temporary)

    def join(self, parts: list[str], name: str) -> None:
        """Join parts of the predictions into one file without holding them all."""
        with self.files.new_file(name) as temporary:
            join_parquet([self.path / part for part in parts], temporary)

    def use_final_names(self, state: RunState) -> RunState:
        """Give the files of a finished run the names of `FINAL`, also after an update; a kill leaves other names.

        Files that `run.json` names are never overwritten: they get new names first, which the next command makes up
        for if this one is killed.
        """
        table, model, trace = FINAL[:3]
        final = {"parts": [table], "model": state["model"] and model, "trace": state["trace"] and trace}
        if all(state[key] == value for key, value in final.items()):
            return state
        if len(state["parts"]) > 1:
            joined = self.files.next_free_name("predictions-", ".parquet", len(state["parts"]))
            self.join(state["parts"], joined)
            state = self._commit({**state, "parts": [joined]})
        for old, new in ((state["parts"][0], table), (state["model"], model), (state["trace"], trace)):
            if old and old != new:
                self.files.link(old, new)
        return self._commit({**state, **final})

    def _commit(self, state: RunState) -> RunState:
        self.write_state(state)
        self.sweep(state)
        return state

    def keep_version(self, state: RunState) -> list[VersionEntry]:
        """Give the files of the version that `run.json` is names of its own, and return the versions with them.

        Call it before another state is committed, whose `versions` these are; until then nothing names the files. Its
        predictions need no file: they are the first rows and columns of the table, which only grows.
        """
        names = version_names(state["version"])
        for name, now in zip(names, (STATE, state["model"], state["trace"]), strict=True):
            self.files.link(now, names[name], durable=False)
        rows, columns = table_shape([regular_file(self.path, part) for part in state["parts"]])
        entry = current_version(state)
        kept = {**entry, "files": {**names, "table": None, "rows": rows, "columns": columns}}
        return [kept if one is entry else one for one in state["versions"]]

    def go_to(self, state: RunState, number: int, journal: Mapping[str, Any] | None) -> RunState:
        """Make another version of a finished run the current one, and return its state; all others stay.

        A kill at any moment leaves the one or the other whole. The report, which would be of another version, goes.
        `journal` is what `run.json` says of the journal from then on.
        """
        versions = self.keep_version(state)
        files = next(one["files"] for one in versions if one["number"] == number)
        then = read_run(self.path, files["state"])
        ancestors = find_ancestors(versions, number)  # their predictions are the first rows of those of the target
        left = f"predictions-v{state['version']}.parquet"  # what is now predictions.parquet, if a version needs it

        def find_table(version: VersionEntry) -> str | None:
            table: str | None = version["files"]["table"]
            return None if version["number"] in ancestors else table or left

        moved = [{**one, "complete": True, "files": one["files"] | {"table": find_table(one)}} for one in versions]
        if any(one["files"]["table"] == left for one in moved):
            self.files.link(state["parts"][0], left, durable=False)
        part = self.files.next_free_name("predictions-", ".parquet", 1)
        self._cut(files["table"] or state["parts"][0], files["rows"], files["columns"], part)
        then |= {"status": "finished", "parts": [part], "model": files["model"], "trace": files["trace"]}
        then |= {"version": number, "journal": journal}
        then |= {name: state[name] for name in ("versions_made", "keep_versions")}
        then["versions"] = [one | {"files": None} if one["number"] == number else one for one in moved]
        self.files.delete(REPORT)
        return self.use_final_names(self._commit(then))

    def _cut(self, table: str, rows: int, columns: int, name: str) -> None:
        """Write the first rows and columns of a table; one that has no others gets a second name."""
        path = regular_file(self.path, table)
        if table_shape([path]) == (rows, columns):
            self.files.link(table, name, durable=False)
            return
        with self.files.new_file(name, durable=False) as temporary:
            cut_parquet(path, temporary, rows, columns)

    def sweep(self, state: RunState | None) -> None:
        """Remove files of earlier commits, of killed runs and of failed ones; nothing that counts or is not ours."""
        if state is None:
            self.files.delete_except(())
            return
        counting = [*state["parts"], *filter(None, (state["model"], state["trace"]))]
        for name in counting:
            regular_file(self.path, name)  # a state that names what is not there is no reason to delete what is
        finished = [REPORT] if state["status"] == "finished" else []  # a report is of the run before, until then
        told = [EVENTS] if state["settings"].get("alert") else []
        journal = JOURNAL if (state.get("journal") or {}).get("id") else ()
        self.files.delete_except({*counting, *version_files(state), STATE, *finished, *told, *journal})

    def table(self, state: Mapping[str, Any]) -> DataFrame:
        """Return the predictions of all rows."""
        pl = polars("predictions")
        parts = [regular_file(self.path, part).absolute() for part in state["parts"]]
        try:
            frame: DataFrame = scan_parts(parts).collect()
        except pl.exceptions.PolarsError as error:
            raise ModelFileError(f"{self.path}: predictions cannot be read ({error}); start the run again") from None
        return frame


def _event_lines(state: Mapping[str, Any]) -> bytes:
    return "".join(json.dumps(event, allow_nan=False) + "\n" for event in state.get("events", [])).encode()


def _holds(path: Path, payload: bytes) -> bool:
    """Whether a file holds exactly this."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size != len(payload):
        return False
    return path.read_bytes() == payload


def _is_report(path: Path) -> bool:
    """Whether a file is a page that undrift made."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return b'<meta name="generator" content="undrift ' in file.read(4096)

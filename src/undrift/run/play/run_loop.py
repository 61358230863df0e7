"""One pass over the rows of a run, committed every few batches, so that a kill at any moment costs seconds."""

from __future__ import annotations

import copy
import itertools
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

import undrift
from undrift import kernels, store
from undrift._internal.folder import regular_file
from undrift._internal.state_file import explain_damage
from undrift._internal.stopping import Interrupted, StopRequest
from undrift.errors import DataError, InputError, ModelFileError
from undrift.run.ledger import LedgerEntry, make_entry, now, put_entry
from undrift.run.play.recorder import RunRecorder
from undrift.run.play.run_folder import FINAL, RunFolder
from undrift.run.play.state import KEPT_VERSIONS, RunState, VersionEntry, current_version, drop_versions
from undrift.run.read.rows_in_order import read_rows, take_rows
from undrift.run.read.source import Source
from undrift.stream import Stream
from undrift.stream.cells import RowBatch
from undrift.stream.extras import polars
from undrift.stream.schema import Schema, infer_schema, naive_lags
from undrift.stream.settings import Settings, did_you_mean

BATCHES_PER_COMMIT, FIRST_COMMITS, SECONDS_PER_COMMIT = 4, 8, 1.0
"""Batches between two commits, at least; after so many commits, also seconds."""


_VERSION_WORDS = ("version", "versions", "versions_made", "keep_versions")


class Progress(NamedTuple):
    """How far a run is."""

    rows: int
    """Rows done."""
    fraction: float | None
    """Part of the file that was read; None if nobody knows."""
    latest_error: float
    """Error in the last batch: root mean square, or log-loss."""


class RunLoop:
    """One run while it goes on: the rows left, the stream, its record, and what was not committed yet."""

    def __init__(
        self,
        source: Source,
        folder: RunFolder,
        command: str,
        log: Callable[[str], None],
        *,
        schema: Schema | None = None,
        select: Callable[[Iterable[RowBatch]], Iterable[RowBatch]] | None = None,
        versions: int | None = None,
    ) -> None:
        self.source, self.settings, self.folder, self.log = source, source.settings, folder, log
        self.command = command
        first, batches = read_rows(source)
        updating = schema is not None
        schema = infer_schema(first) if schema is None else schema
        self.stream = Stream(self.settings)
        self.stream.begin(schema)
        assert self.stream.features is not None  # it has begun
        learned = [*self.stream.features.columns, self.settings.target]
        for name in learned if updating else ():
            if name not in first.columns:
                later = " For rows without labels there is undrift predict." if name == self.settings.target else ""
                raise InputError(
                    f"{source.name} has no column '{name}', which this run learns"
                    f"{did_you_mean(name, first.columns)}{later}"
                )
        self.recorder = RunRecorder(self.stream, naive_lags(self.settings, schema.seasons), watched=self.settings.alert)
        self.writer = RunWriter(folder, self.recorder, versions=versions)
        self.schema, self.updating = schema, False  # whether the rows are new ones of a finished run
        models = len(schema.classes or ()) if schema.task == "multiclass" else 1
        size = rows_per_batch(len(self.recorder.features.names), self.settings, models)
        self.batches = _split_batches(batches if select is None else select(batches), size)

    def start(self, state: RunState | None) -> None:
        """Begin, or go on from a commit."""
        features = self.recorder.features
        self.log(self.schema.sentence(self.settings.target, features.learned_names))
        for note in self.schema.notes:
            self.log(note)
        if state is None:
            self.writer.provenance = make_provenance(self.command)
            self.writer.learn_from(make_entry(self.source, "run"))
            if self.source.stdin:
                self.log("the standard input cannot be resumed: if this is interrupted, start again")
            return
        with explain_damage(self.folder.path):
            if state["plan"] != json.loads(json.dumps(self.schema.as_dict())):
                raise ModelFileError(
                    f"{self.folder.path}: this run reads the columns of its file otherwise; start again with --force"
                )
            self._restore(state)
        for _ in range(self.writer.batches):
            if next(self.batches, None) is None:
                raise ModelFileError(f"{self.folder.path}: its file has fewer rows than it learned; start it again")
        self.log(f"{self.folder.path}: continuing after {self.recorder.features.rows:,} rows")

    def go_on(self, state: RunState) -> None:
        """Go on from a finished run with new rows: one commit at the end, and until then nothing changes."""
        self.updating = self.writer.updating = True
        with explain_damage(self.folder.path):
            self._restore(state)

    def _restore(self, state: RunState) -> None:
        """Take over what a commit holds."""
        self.writer.resume(state)
        self.stream, self.recorder = self.writer.recorder.stream, self.writer.recorder

    def play_all(self, progress: Callable[[Progress], None], stop: StopRequest) -> RunState:
        """Play the rows that are left, then finish the run."""
        while (batch := self._next(stop)) is not None:
            rows = self.stream.encode_batch(batch, self.source)
            if len(rows.y):
                for event in self.recorder.play(rows):
                    self.log(f"{self.source.row_word} {event.row}: {event.kind}: {event.sentence}")
            self.writer.batches += 1
            latest = self.recorder.scores.latest
            progress(Progress(self.recorder.features.rows, self.source.fraction(), latest))
            stopping = stop()
            if not self.updating and (stopping or self.writer.is_due):
                self.writer.commit()
            if stopping:
                self._stop()
        if self.recorder.features.rows and self.stream.model.dim is not None:
            self.recorder.snapshots.take(self.stream.model)
        if self.stream.rounds == 0:
            raise DataError(f"{self.source.name}: no row is left to learn from; see --missing")
        return self.writer.finish()

    def _next(self, stop: StopRequest) -> RowBatch | None:
        """Return the next batch; a request to stop does not wait until a slow source has one."""
        try:
            with stop.interruptible():
                return next(self.batches, None)
        except Interrupted:
            if self.recorder.pending and not self.updating:
                self.writer.commit()
            self._stop()

    def _stop(self) -> NoReturn:
        if self.updating:
            raise Interrupted(f"{self.folder.path} is as it was before; give the same command again")
        rows, again = self.recorder.features.rows, "start again" if self.source.stdin else "continue with --resume"
        raise Interrupted(f"{self.folder.path} holds {rows:,} rows; {again}" if rows else "no row was learned yet")


class RunWriter:
    """Writes the folder of a run: parts of the predictions, the stream, what its record holds, and what counts.

    Parameters
    ----------
    folder
        Where to.
    recorder
        The record of the run's stream.
    versions
        How many versions to keep, this one counted; None: as many as until now, `KEPT_VERSIONS` in a new run.
    """

    def __init__(self, folder: RunFolder, recorder: RunRecorder, *, versions: int | None = None) -> None:
        if versions is not None and versions < 1:
            raise InputError(f"versions must be at least 1, which keeps the current version only, got {versions}")
        self.folder, self.recorder = folder, recorder
        self.keep_versions = KEPT_VERSIONS if versions is None else versions
        self._asked_versions = versions
        self._certify = False  # whether certificates were asked for; they are made after the last commit
        self._limit = recorder.stream.settings.limit  # of the first file; later rows are learned without one
        self.learned: list[LedgerEntry] = []
        """The ledger; rows that come count for `entry`, which is in it."""
        self.entry: LedgerEntry = {}
        self._rows_of_others = 0
        self._last: RunState | None = None
        """What `run.json` holds, once it is of this run."""
        self.is_version_open = False
        """Whether what is committed next belongs to the version that `run.json` is at."""
        self.replacing = folder.exists  # until the first commit
        self.updating = False
        """Whether the rows are new ones of a finished run, which counts until they are all learned."""
        self.provenance: dict[str, Any] = {}
        self.journal: dict[str, Any] | None = None
        """Of a run that was served: which journal counts, and the number of its last entry that is in the folder."""
        self.parts: list[str] = []
        self.batches = 0
        """Batches committed, or waiting to be."""
        self._seconds, self._began = 0.0, time.monotonic()
        self._committed = self._began

    @property
    def is_due(self) -> bool:
        """Whether to commit after this batch: early ones every few batches, later ones every few seconds."""
        if self.batches % BATCHES_PER_COMMIT:
            return False
        early = self.batches <= FIRST_COMMITS * BATCHES_PER_COMMIT
        return early or time.monotonic() - self._committed >= SECONDS_PER_COMMIT

    def resume(self, state: RunState) -> None:
        """Take over what a commit holds, the stream included."""
        path = self.folder.path
        self.replacing = False
        self.provenance, self._seconds = state["provenance"], state["provenance"]["seconds"]
        if self.provenance["kernels"].split(" then ")[-1] != kernels.level():
            self.provenance["kernels"] += f" then {kernels.level()}"
        self.parts, self.batches, self.journal = list(state["parts"]), state["batches"], state.get("journal")
        self.updating = self.updating or FINAL[0] in self.parts  # a name that counts is not written over
        self._last, self.learned = state, copy.deepcopy(state["learned"])
        self._certify, self._limit = bool(state.get("certify")), state["settings"].get("limit")
        if self._asked_versions is None:
            self.keep_versions = state["keep_versions"]
        for part in self.parts:
            regular_file(path, part)
        if state["model"]:
            stream = load_stream(regular_file(path, state["model"]))
            require_stream(path, state, stream)
            stream.use_settings(self.recorder.stream.settings)  # the limit, or where the file is, may be others
            _, arrays = store.read(regular_file(path, state["trace"]))
            self.recorder = RunRecorder(stream, state["naive_lags"], watched=stream.settings.alert)
            self.recorder.resume(state["carry"], arrays, state["events"])
        self.learn_from(self.learned[-1], len(self.learned) - 1)
        self.is_version_open = not current_version(state)["complete"]

    def learn_from(self, entry: LedgerEntry, place: int | None = None) -> None:
        """Count the rows to come for an entry of the ledger, a new one or that at a place, in which they are added.

        They begin a new version of a run that was finished or left before.
        """
        put_entry(self.learned, place, entry)
        rows = self.recorder.features.rows
        entry.setdefault("rows_before", rows)
        self.entry, self._rows_of_others = entry, rows - entry["rows"]
        self.is_version_open = False

    def commit_journal(self) -> None:
        """Commit which journal counts, and nothing else."""
        assert self._last is not None  # a run that is served was finished
        self._last = self._last | {"journal": None if self.journal is None else {**self.journal}}
        self.folder.write_state(self._last)

    def commit(self, status: str = "running", *, complete: bool = False) -> RunState:
        """Write what happened since the last commit; it counts from the moment `run.json` is renamed into place.

        With `complete`, the next commit begins another version, and `rollback_run` can go back to this one.
        """
        self._write_part()
        recorder, folder = self.recorder, self.folder
        stream, features = recorder.stream, recorder.features
        model, trace = "model.undrift", "trace.undrift"
        if status == "running" or self.updating:  # names that nothing has: what `run.json` names is never overwritten
            model = folder.files.next_free_name("model-", ".undrift", self.batches)
            trace = folder.files.next_free_name("trace-", ".undrift", self.batches)
        begun = stream.model.dim is not None
        values, arrays = recorder.state()
        if begun:
            folder.write_model(model, stream)
            folder.write_arrays(trace, {"kind": "run trace"}, arrays)
        self.entry["rows"] = features.rows - self._rows_of_others
        wide, names = stream.settings.missing == "indicators", features.learned_names
        lines = [name for name in stream.model.names or () if name in names]  # in the order in which they were learned
        state: RunState = {
            "status": status,
            "rows": features.rows,
            "rounds": stream.rounds,
            "batches": self.batches,
            "parts": self.parts,
            "model": model if begun else None,
            "trace": trace if begun else None,
            "task": stream.task,
            "classes": stream.classes,
            "features": names,
            "coefficients": [n for name in lines for n in (name, f"{name} missing")] if wide else lines,
            "candidates": stream.model.candidates,
            "effects": recorder.effects() if complete else {},
            "combination": stream.model.combination(),
            "arms": stream.model.arms() if stream.task == "regression" else [],
            "naive_lags": recorder.lags,
            "scores": recorder.latest_scores(),
            "plan": features.schema.as_dict(),
            "settings": stream.settings.replace(limit=self._limit).as_dict(),
            "learned": [{**entry} for entry in self.learned],
            "provenance": self.provenance | {"seconds": self._seconds + time.monotonic() - self._began},
            "certificates": [],
            "certify": self._certify,
            "problems": features.all_problems(),
            "notes": list(features.schema.notes),
            "latest": features.latest_time,
            "journal": self.journal,
            "carry": values,
            "events": [] if recorder.watch is None else [event.as_dict() for event in recorder.watch.events],
        }
        state |= self._describe_versions(state, complete=complete)
        folder.write_state(state)
        folder.sweep(state)
        self.replacing, self._committed, self._last = False, time.monotonic(), state
        self.is_version_open = not complete
        return state

    def _describe_versions(self, new: RunState, *, complete: bool) -> RunState:
        """Return what a state says of versions: those there were, with their files, and that of the state itself.

        A command that learned nothing makes no version.
        """
        number, parent, versions = 1, None, list[VersionEntry]()
        if self._last is not None and complete and not self.is_version_open:
            same = all(new[name] == self._last[name] for name in ("rows", "rounds"))
            if same:
                return {name: self._last[name] for name in _VERSION_WORDS} | {"keep_versions": self.keep_versions}
        if self._last is not None and self.is_version_open:
            number, parent = self._last["version"], current_version(self._last)["parent"]
            versions = [one for one in self._last["versions"] if one["number"] != number]
        elif self._last is not None:
            number, parent = self._last["versions_made"] + 1, self._last["version"]
            versions = [*self.folder.keep_version(self._last)]
        version = {
            "number": number,
            "parent": parent,
            "when": now(),
            "by": self.entry["by"],
            "path": self.entry["path"],
            **{name: new[name] for name in ("rows", "rounds", "scores")},
            "complete": complete,
            "files": None,
        }
        made = max(number, 0 if self._last is None else self._last["versions_made"])
        return {
            "version": number,
            "versions": drop_versions([*versions, version], self.keep_versions, number),
            "versions_made": made,
            "keep_versions": self.keep_versions,
        }

    def finish(self) -> RunState:
        """Join the parts, and commit the run as finished."""
        self.provenance["finished"] = now()
        if self.updating:
            done = self.commit("finished", complete=True)  # until it counts, the run is what it was
            self._last = self.folder.use_final_names(done)
            return self._last
        if self.replacing:
            self.commit()  # the files of a finished run may have the names of the one that is replaced
        self._write_part()
        self.folder.join(self.parts, "predictions.parquet")
        self.parts = ["predictions.parquet"]
        return self.commit("finished", complete=True)

    def join_alike_parts(self) -> None:
        """Join the last two parts while they are of like sizes, so that a run that goes on for long has few parts."""
        path = self.folder.path
        while len(self.parts) > 1:
            before, last = (regular_file(path, name).stat().st_size for name in self.parts[-2:])
            if last < before // 2:
                return
            name = self.folder.files.next_free_name("predictions-", ".parquet", len(self.parts))
            self.folder.join(self.parts[-2:], name)
            self.parts[-2:] = [name]

    def _write_part(self) -> None:
        """Write the rows since the last commit."""
        tables = self.recorder.pending
        if not tables:
            return
        pl = polars("undrift run")
        frames = [
            pl.DataFrame(
                {k: pl.Series(v.tolist(), dtype=pl.String) if v.dtype == object else v for k, v in table.items()}
            )
            for table in _join_tables(tables)
        ]
        frame = pl.concat(frames, how="diagonal", rechunk=True).with_columns(pl.col(pl.Float64).fill_nan(None))
        if len(frame):
            self.entry["line"] = max(self.entry.get("line", 0), int(frame["line"].max()))
        name = self.folder.files.next_free_name("predictions-", ".parquet", len(self.parts))
        self.folder.write_table(name, frame)
        self.parts.append(name)
        tables.clear()


def _join_tables(tables: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield tables, those that follow each other with the same columns as one: a service records one row at a time."""
    for names, group in itertools.groupby(tables, key=tuple):
        alike = list(group)
        yield {name: np.concatenate([table[name] for table in alike]) for name in names}


def load_stream(path: str | os.PathLike[str]) -> Stream:
    """Return the stream that a run left in a file."""
    stream = undrift.load(path)
    if not isinstance(stream, Stream):
        raise ModelFileError(f"{path}: a {type(stream).__name__}, not the stream of a run; start the run again")
    return stream


def require_stream(folder: Path, state: RunState, stream: Stream) -> None:
    """Refuse a stream that is not that of a state, as when files of two commits were copied into one folder."""
    if stream.rounds != state["rounds"]:
        raise ModelFileError(
            f"{folder / state['model']}: it learned {stream.rounds:,} labels, and run.json is of {state['rounds']:,}; "
            "restore both from one copy"
        )


def rows_per_batch(width: int, settings: Settings, models: int = 1) -> int:
    """Return how many rows are played at a time: what takes about a quarter of a second where rows are wide.

    Requests to stop are looked at in between. The number depends on the columns and the first rows alone, so that a
    resumed run cuts its rows at the same places. `models` is how many estimators learn each row.
    """
    microseconds = 50 + (width * (2 if settings.missing == "indicators" else 1)) ** 2 // 32
    return max(8, 250_000 // (microseconds * models * (4 if settings.delay else 1)))


def _split_batches(batches: Iterable[RowBatch], size: int) -> Iterator[RowBatch]:
    """Yield batches of at most so many rows."""
    for batch in batches:
        for a in range(0, max(len(batch.lines), 1), size):
            yield take_rows(batch, slice(a, a + size))


def make_provenance(command: str) -> dict[str, Any]:
    """Return the provenance of a run that begins now."""
    return {
        "undrift": undrift.__version__,
        "kernels": kernels.level(),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "command": command,
        "started": now(),
        "finished": None,
        "seconds": 0.0,
    }

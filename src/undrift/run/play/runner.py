"""The runner: one pass over a source, committed every few batches, so that a kill at any moment costs seconds."""

from __future__ import annotations

import datetime as dt
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

import undrift
from undrift import kernels, store
from undrift._typing import Vector
from undrift.baselines import BASELINES, Baselines
from undrift.errors import DataError, ModelFileError
from undrift.folder import named_file
from undrift.losses import sigmoid
from undrift.run.extras import polars
from undrift.run.play.resume import find_state
from undrift.run.play.run_folder import FINAL, RunFolder
from undrift.run.play.run_model import BlockPredictions, RunModel, loaded, make_model
from undrift.run.play.scores import ScoreTable
from undrift.run.play.state import RunState, understood
from undrift.run.prepare.columns import PREFIX, ColumnRoles, infer_columns
from undrift.run.prepare.encoder import EncodedRows, Encoder
from undrift.run.read.rows import RowBatch
from undrift.run.read.source import Source
from undrift.run.settings import Settings
from undrift.stopping import Interrupted, Stop

COMMIT = 4
"""Batches between commits."""


class Progress(NamedTuple):
    """How far a run is."""

    rows: int
    """Rows done."""
    fraction: float | None
    """Part of the file that was read; None if nobody knows."""
    lately: float
    """Error in the last batch: root mean square, or log-loss."""


def play_file(
    path: str,
    out: str | Path,
    settings: Settings,
    *,
    resume: bool = False,
    force: bool = False,
    command: str = "",
    progress: Callable[[Progress], None] | None = None,
    said: Callable[[str], None] | None = None,
    stop: Stop | Callable[[], bool] | None = None,
) -> RunState:
    """Predict every row of a file before its label, learn from it, and leave all that in the folder `out`.

    Parameters
    ----------
    path
        A CSV (also .gz, .zst), Parquet or NDJSON file; "-" is CSV on the standard input.
    out
        Folder of the run.
    settings
        What to predict, and how.
    resume
        Continue a run that was interrupted: the same bits as if it never had been. Start one if there is none.
    force
        Replace a run that is there, once the new one has its first commit; until then nothing of the old one changes.
    command
        What the user typed, for the record.
    progress, said, stop
        Told after every batch; told what was found; asked after every batch, and while the source is read.

    Raises
    ------
    Interrupted
        `stop` asked for it; the text says what the folder holds.

    Returns
    -------
    State
        What `run.json` holds.
    """
    source = Source(path, settings)
    directory = RunFolder(out)
    wish = stop if isinstance(stop, Stop) else Stop(stop)
    told = said or (lambda text: None)
    with directory.locked():
        try:
            with wish.waiting():
                source.digest()  # before any row is read, so that it covers every row that is learned
                state = find_state(directory, source, resume=resume, force=force)
                if state is not None and state["status"] != "running":
                    told(f"{directory.path}: this run is finished, {state['rows']:,} rows; nothing to do")
                    return state
                directory.folder.refuse_foreign(FINAL)  # now, not when all the work is done
                work = _RunLoop(source, directory, command, told)
                work.start(state)
        except Interrupted:
            raise Interrupted(f"{directory.path} is as it was before") from None
        return work.through(progress or (lambda _: None), wish)


def _cut(batches: Iterable[RowBatch], size: int) -> Iterator[RowBatch]:
    """Yield batches of at most so many rows."""
    for batch in batches:
        if len(batch.lines) <= size:
            yield batch
            continue
        for a in range(0, len(batch.lines), size):
            columns = {name: cells[a : a + size] for name, cells in batch.columns.items()}
            yield RowBatch(batch.lines[a : a + size], columns)


class _RunLoop:
    """One run while it runs."""

    def __init__(self, source: Source, directory: RunFolder, command: str, said: Callable[[str], None]) -> None:
        self.source, self.settings, self.directory, self.said = source, source.settings, directory, said
        self.began = time.monotonic()
        self.replacing = directory.exists  # until the first commit
        self.command = command
        self.stream = source.batches()
        head = list(islice(self.stream, PREFIX))
        following = next(self.stream, None)
        self.plan: ColumnRoles = infer_columns(source, head, whole=following is None)
        self.encoder = Encoder(source, self.plan)
        whole = chain(head, [] if following is None else [following], self.stream)
        self.batches: Iterator[RowBatch] = _cut(whole, self._batch_size())
        binary = self.plan.task == "classification"
        self.names = BASELINES[self.plan.task]
        self.baselines = Baselines(binary=binary, delay=self.settings.delay)
        self.scores = ScoreTable(self.plan.task, ["model", *self.names])
        self.player = RunModel(
            make_model(self.settings, self.plan.task), self.settings.delay, len(self.encoder.features)
        )
        self.parts: list[str] = []
        self.done = 0  # batches committed or waiting to be
        self.pending: list[dict[str, Any]] = []
        self.seconds = 0.0

    def _batch_size(self) -> int:
        """Return how many rows are played at a time: what takes about a quarter of a second where rows are wide.

        A wish to stop is looked at in between. It depends on the columns alone, so that a resumed run counts the same.
        """
        width = len(self.encoder.features) * (2 if self.settings.missing == "indicate" else 1)
        microseconds = 50 + width**2 // 32
        return max(8, 250_000 // (microseconds * (4 if self.settings.delay else 1)))

    def start(self, state: RunState | None) -> None:
        """Begin, or go on from a commit."""
        self.said(self.plan.sentence(self.settings.target, self.encoder.features))
        for note in self.plan.notes:
            self.said(note)
        if state is None:
            self.provenance: dict[str, Any] = {
                "undrift": undrift.__version__,
                "kernels": kernels.level(),
                "python": platform.python_version(),
                "platform": platform.platform(terse=True),
                "source": {
                    "path": self.source.name,
                    "absolute": None if self.source.stdin else str(self.source.path.absolute()),
                    "size": self.source.size,
                    "sha256": self.source.digest(),
                },
                "command": self.command,
                "started": _now(),
                "finished": None,
                "seconds": 0.0,
            }
            if self.source.stdin:
                self.said("the standard input cannot be resumed: if this is interrupted, start again")
            return
        with understood(self.directory.path):
            self._resume(state)
        for _ in range(self.done):
            if next(self.batches, None) is None:
                raise ModelFileError(f"{self.directory.path}: its file has fewer rows than it learned; start it again")
        self.said(f"{self.directory.path}: continuing after {self.encoder.rows:,} rows")

    def _resume(self, state: RunState) -> None:
        """Go on from a commit."""
        words, path = state["carry"], self.directory.path
        self.replacing = False
        if state["plan"] != json.loads(json.dumps(self.plan.as_dict())):
            raise ModelFileError(f"{path}: this run reads the columns of its file otherwise; start again with --force")
        self.provenance, self.seconds = state["provenance"], state["provenance"]["seconds"]
        if self.provenance["kernels"].split(" then ")[-1] != kernels.level():
            self.provenance["kernels"] += f" then {kernels.level()}"
        self.parts, self.done = list(state["parts"]), state["batches"]
        for part in self.parts:
            named_file(path, part)
        if state["model"]:
            self.player.model = loaded(str(named_file(path, state["model"])))
            _, arrays = store.read(named_file(path, state["trace"]))
            self.player.resume(arrays)
            self.encoder.resume(words["encoder"], {n[8:]: a for n, a in arrays.items() if n.startswith("encoder.")})
            self.baselines.state, self.baselines.waiting = arrays["baselines.state"], arrays["baselines.waiting"]
            self.scores.resume(words["scores"])

    def through(self, progress: Callable[[Progress], None], stop: Stop) -> RunState:
        """Play what is left, then close the run."""
        while (batch := self._next(stop)) is not None:
            rows = self.encoder.encode(batch)
            if len(rows.y):
                self._play(rows)
            self.done += 1
            progress(Progress(self.encoder.rows, self.source.fraction(), self.scores.latest))
            halt = stop()
            if halt or self.done % COMMIT == 0:
                self._commit()
            if halt:
                self._stop()
        return self._close()

    def _next(self, stop: Stop) -> RowBatch | None:
        """Return the next batch; a wish to stop does not wait until a slow source has one."""
        try:
            with stop.waiting():
                return next(self.batches, None)
        except Interrupted:
            if self.pending:
                self._commit()
            self._stop()

    def _stop(self) -> NoReturn:
        rows, again = self.encoder.rows, "start again" if self.source.stdin else "continue with --resume"
        raise Interrupted(f"{self.directory.path} holds {rows:,} rows; {again}" if rows else "no row was learned yet")

    def _play(self, rows: EncodedRows) -> None:
        said = self.player.play(self.encoder.features, rows.Z, rows.y)
        guesses = self.baselines.play(rows.y)
        self.scores.add(rows.y, np.column_stack([said.yhat, guesses]))
        self.pending.append(self._columns(rows, said, guesses))

    def _columns(self, rows: EncodedRows, said: BlockPredictions, guesses: Vector) -> dict[str, Any]:
        out: dict[str, Any] = {"line": rows.line}
        if rows.time is not None:
            out["time"] = rows.time
        out |= {"y": rows.y, "yhat": said.yhat}
        if said.lower is not None:
            out |= {"lower": said.lower, "upper": said.upper}
        else:
            out["probability"] = sigmoid(said.yhat)
        return out | dict(zip(self.names, guesses.T, strict=True))

    def _write_part(self) -> None:
        """Write the rows since the last commit."""
        if not self.pending:
            return
        pl = polars("undrift run")
        joined = {name: np.concatenate([part[name] for part in self.pending]) for name in self.pending[0]}
        frame = pl.DataFrame(joined).with_columns(pl.col("y").fill_nan(None))
        name = self.directory.folder.free("predictions-", ".parquet", len(self.parts))
        self.directory.write_table(name, frame)
        self.parts.append(name)
        self.pending = []

    def _commit(self, status: str = "running") -> RunState:
        """Write what happened since the last commit; only the last rename makes it count."""
        self._write_part()
        model, trace = "model.undrift", "trace.undrift"
        if status == "running":  # names that nothing has: what `run.json` names is never overwritten
            model = self.directory.folder.free("model-", ".undrift", self.done)
            trace = self.directory.folder.free("trace-", ".undrift", self.done)
        begun = self.player.model.dim is not None
        words, arrays = self.encoder.carry()
        if begun:
            self.directory.write_model(model, self.player.model)
            every = {f"encoder.{name}": array for name, array in arrays.items()}
            every |= {"baselines.state": self.baselines.state, "baselines.waiting": self.baselines.waiting}
            self.directory.write_arrays(trace, {"kind": "run trace"}, every | self.player.arrays())
        wide = self.settings.missing == "indicate"
        features = list(self.encoder.features)
        state: RunState = {
            "status": status,
            "rows": self.encoder.rows,
            "rounds": self.player.model.rounds,
            "batches": self.done,
            "parts": self.parts,
            "model": model if begun else None,
            "trace": trace if begun else None,
            "task": self.plan.task,
            "classes": self.encoder.classes,
            "features": features,
            "coefficients": [n for f in features for n in (f, f"{f} missing")] if wide else features,
            "candidates": self.player.model.candidates,
            "scores": self.scores.as_dict(),
            "plan": self.plan.as_dict(),
            "settings": self.settings.as_dict(),
            "provenance": self.provenance | {"seconds": self.seconds + time.monotonic() - self.began},
            "certificates": [],
            "problems": self.encoder.findings(),
            "notes": list(self.plan.notes),
            "carry": {"encoder": words, "scores": self.scores.state()},
        }
        self.directory.write_state(state)
        self.directory.sweep(state)
        self.replacing = False
        return state

    def _close(self) -> RunState:
        """Join the parts and say that the run is finished."""
        if self.player.model.dim is not None:
            self.player.finish(self.encoder.features)
        if self.player.model.rounds == 0:
            raise DataError(f"{self.source.name}: no row is left to learn from; see --missing")
        if self.replacing:
            self._commit()  # the files of a finished run may have the names of the one that is replaced
        self._write_part()
        self.directory.join(self.parts, "predictions.parquet")
        self.parts = ["predictions.parquet"]
        self.provenance["finished"] = _now()
        return self._commit("finished")


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")

"""The runner: one pass over a source, committed every few batches, so that a kill at any moment costs seconds."""

from __future__ import annotations

import datetime as dt
import platform
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import undrift
from undrift import kernels, store
from undrift._typing import Vector
from undrift.errors import DataError, InputError, UndriftError
from undrift.losses import sigmoid
from undrift.run.baselines import Baselines
from undrift.run.data import BASELINES
from undrift.run.directory import RunDirectory, State, writing
from undrift.run.encode import Encoder, Rows
from undrift.run.extras import polars
from undrift.run.plan import PREFIX, Plan, make_plan
from undrift.run.player import Player, Said, fresh_model, loaded
from undrift.run.scores import Scores
from undrift.run.settings import Settings
from undrift.run.source import Batch, Source

COMMIT = 4
"""Batches between commits."""


class Progress(NamedTuple):
    """How far a run is."""

    rows: int
    """Rows done."""
    fraction: float | None
    """Part of the file that was read; None if nobody knows."""
    lately: float
    """Mean loss of the last batch: absolute error, or log-loss."""


class Interrupted(Exception):
    """The user asked to stop; everything so far is committed."""


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
    stop: Callable[[], bool] | None = None,
) -> State:
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
        Replace a run that is there.
    command
        What the user typed, for the record.
    progress, said, stop
        Told after every batch; told what was found; asked after every batch.

    Returns
    -------
    State
        What `run.json` holds.
    """
    source = Source(path, settings)
    source.digest()  # before any row is read, so that it covers every row that is learned
    directory = RunDirectory(out)
    told = said or (lambda text: None)
    directory.prepare()
    try:
        with directory.locked():
            state = _found(directory, source, resume=resume, force=force)
            if state is not None and state["status"] != "running":
                told(f"{directory.path}: this run is finished, {state['rows']:,} rows; nothing to do")
                return state
            work = _Run(source, directory, command, told)
            work.start(state)
            return work.through(progress or (lambda _: None), stop or (lambda: False))
    except UndriftError:
        directory.leave()
        raise


def _found(directory: RunDirectory, source: Source, *, resume: bool, force: bool) -> State | None:
    """Return the state to continue from; None to start. Refuse what is not ours or not the same."""
    if not directory.exists:
        others = [file.name for file in directory.path.iterdir() if not file.name.startswith(".")]
        if others and not _leftovers(others):
            raise InputError(f"{directory.path}: the folder holds other files ({others[0]}); choose another with --out")
        return None
    if force:
        (directory.path / "run.json").unlink()
        return None
    if not resume:
        raise InputError(
            f"{directory.path}: there is a run already; continue it with --resume, replace it with --force, "
            "or choose another folder with --out"
        )
    if source.stdin:
        raise InputError("the standard input cannot be resumed: its first rows are gone; start again with --force")
    state = directory.state()
    then = state["provenance"]["source"]
    if then["sha256"] != source.digest():
        raise InputError(
            f"{directory.path}: a run of another file ({then['path']}, or its contents then); choose another --out"
        )
    asked = source.settings.as_dict()
    changed = sorted(k for k in {*asked, *state["settings"]} if asked.get(k) != state["settings"].get(k))
    if changed:
        k = changed[0]
        raise InputError(
            f"{directory.path}: this run has {k} = {state['settings'].get(k)!r}, not {asked.get(k)!r}; "
            "resume with the same settings, or choose another --out"
        )
    return state


def _leftovers(names: list[str]) -> bool:
    """Whether all files are parts of a run of ours that lost its state."""
    return all(name.startswith(("predictions", "model", "trace", "report.html")) for name in names)


class _Run:
    """One run while it runs."""

    def __init__(self, source: Source, directory: RunDirectory, command: str, said: Callable[[str], None]) -> None:
        self.source, self.settings, self.directory, self.said = source, source.settings, directory, said
        self.began = time.monotonic()
        self.command = command
        self.stream = source.batches()
        head = list(islice(self.stream, PREFIX))
        following = next(self.stream, None)
        self.plan: Plan = make_plan(source, head, whole=following is None)
        self.batches: Iterator[Batch] = chain(head, [] if following is None else [following], self.stream)
        self.encoder = Encoder(source, self.plan)
        binary = self.plan.task == "classification"
        self.names = BASELINES[self.plan.task]
        self.baselines = Baselines(binary=binary, delay=self.settings.delay)
        self.scores = Scores(self.plan.task, ["model", *self.names])
        self.player = Player(
            fresh_model(self.settings, self.plan.task), self.settings.delay, len(self.encoder.features)
        )
        self.parts: list[str] = []
        self.done = 0  # batches committed or waiting to be
        self.pending: list[dict[str, Any]] = []
        self.seconds = 0.0

    def start(self, state: State | None) -> None:
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
        words = state["carry"]
        self.provenance, self.seconds = state["provenance"], state["provenance"]["seconds"]
        if self.provenance["kernels"].split(" then ")[-1] != kernels.level():
            self.provenance["kernels"] += f" then {kernels.level()}"
        self.parts, self.done = list(state["parts"]), state["batches"]
        if state["model"]:
            self.player.model = loaded(str(self.directory.path / state["model"]))
            _, arrays = store.read(self.directory.path / state["trace"])
            self.player.resume(arrays)
            self.encoder.resume(words["encoder"], {n[8:]: a for n, a in arrays.items() if n.startswith("encoder.")})
            self.baselines.state, self.baselines.waiting = arrays["baselines.state"], arrays["baselines.waiting"]
            self.scores.resume(words["scores"])
        self.directory.sweep(state)
        for _ in range(self.done):
            next(self.batches)
        self.said(f"{self.directory.path}: continuing after {self.encoder.rows:,} rows")

    def through(self, progress: Callable[[Progress], None], stop: Callable[[], bool]) -> State:
        """Play what is left, then close the run."""
        for batch in self.batches:
            rows = self.encoder.encode(batch)
            if len(rows.y):
                self._play(rows)
            self.done += 1
            progress(Progress(self.encoder.rows, self.source.fraction(), self.scores.lately))
            halt = stop()
            if halt or self.done % COMMIT == 0:
                self._commit()
            if halt:
                raise Interrupted
        return self._close()

    def _play(self, rows: Rows) -> None:
        said = self.player.play(self.encoder.features, rows.Z, rows.y)
        guesses = self.baselines.play(rows.y)
        self.scores.add(rows.y, np.column_stack([said.yhat, guesses]))
        self.pending.append(self._columns(rows, said, guesses))

    def _columns(self, rows: Rows, said: Said, guesses: Vector) -> dict[str, Any]:
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
        name = f"predictions-{len(self.parts):06d}.parquet"
        self.directory.write_table(name, frame)
        self.parts.append(name)
        self.pending = []

    def _commit(self, status: str = "running") -> State:
        """Write what happened since the last commit; only the last rename makes it count."""
        self._write_part()
        suffix = "" if status == "finished" else f"-{self.done:08d}"
        model, trace = f"model{suffix}.undrift", f"trace{suffix}.undrift"
        begun = self.player.model.dim is not None
        words, arrays = self.encoder.carry()
        if begun:
            with writing(self.directory.path):
                self.player.model.save(self.directory.path / model)
            every = {f"encoder.{name}": array for name, array in arrays.items()}
            every |= {"baselines.state": self.baselines.state, "baselines.waiting": self.baselines.waiting}
            self.directory.write_arrays(trace, {"kind": "run trace"}, every | self.player.arrays())
        wide = self.settings.missing == "indicate"
        features = list(self.encoder.features)
        state: State = {
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
            "scores": self.scores.table(),
            "plan": self.plan.as_dict(),
            "settings": self.settings.as_dict(),
            "provenance": self.provenance | {"seconds": self.seconds + time.monotonic() - self.began},
            "certificates": [],
            "problems": self.encoder.findings(),
            "notes": list(self.plan.notes),
            "carry": {"encoder": words, "scores": self.scores.carry()},
        }
        self.directory.write_state(state)
        self.directory.sweep(state)
        return state

    def _close(self) -> State:
        """Join the parts and say that the run is finished."""
        if self.player.model.dim is not None:
            self.player.finish(self.encoder.features)
        if self.player.model.rounds == 0:
            raise DataError(f"{self.source.name}: no row is left to learn from; see --missing")
        self._write_part()
        self.directory.join(self.parts, "predictions.parquet")
        self.parts = ["predictions.parquet"]
        self.provenance["finished"] = _now()
        return self._commit("finished")


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")

"""One pass over the rows of a run, committed every few batches, so that a kill at any moment costs seconds.

`make_provenance` records where the run comes from, and `RunWatch` what changed on the way, row by row.
"""

from __future__ import annotations

import datetime as dt
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

import undrift
from undrift import kernels, store
from undrift._internal.folder import regular_file
from undrift._internal.stopping import Interrupted, StopRequest
from undrift._typing import Vector
from undrift.baselines import Baselines, ClassBaselines, baseline_names
from undrift.errors import DataError, ModelFileError
from undrift.events import Event, Watch
from undrift.losses import sigmoid
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.run_model import (
    LEVEL,
    BlockPredictions,
    ClassTable,
    RunModel,
    join_predictions,
    load_model,
    make_model,
)
from undrift.run.play.scores import ScoreTable
from undrift.run.play.state import FORMAT, RunState, explain_damage
from undrift.run.read.rows_in_order import read_rows
from undrift.run.read.source import Source
from undrift.stream.cells import RowBatch
from undrift.stream.extras import polars
from undrift.stream.features import Features, Rows
from undrift.stream.schema import Schema, infer_schema, naive_lags
from undrift.stream.settings import Settings

BATCHES_PER_COMMIT = 4


class Progress(NamedTuple):
    """How far a run is."""

    rows: int
    """Rows done."""
    fraction: float | None
    """Part of the file that was read; None if nobody knows."""
    latest_error: float
    """Error in the last batch: root mean square, or log-loss."""


class RunLoop:
    """One run while it goes on: the rows left, the model, and what was not committed yet."""

    def __init__(
        self,
        source: Source,
        folder: RunFolder,
        command: str,
        log: Callable[[str], None],
        *,
        schema: Schema | None = None,
        select: Callable[[Iterable[RowBatch]], Iterable[RowBatch]] | None = None,
    ) -> None:
        self.source, self.settings, self.folder, self.log = source, source.settings, folder, log
        self._began = time.monotonic()
        self.replacing = folder.exists  # until the first commit
        self.command = command
        first, batches = read_rows(source)
        self.schema = infer_schema(first) if schema is None else schema
        self.updating = False  # whether the rows are new ones of a finished run
        self.encoder = Features(source, self.schema)
        chosen = batches if select is None else select(batches)
        models = len(self.schema.classes or ()) if self.schema.task == "multiclass" else 1
        self.batches = _split_batches(chosen, rows_per_batch(len(self.encoder.features), self.settings, models))
        self.several = self.schema.task == "multiclass"
        self._use_baselines(naive_lags(self.settings, self.schema.seasons))
        self.run_model = RunModel(
            make_model(self.settings, self.schema.task),
            self.settings.delay,
            len(self.encoder.learned_features),
            several=self.several,
        )
        known = len(self.encoder.features)
        self.watch = RunWatch(self.schema.task, known) if self.settings.alert else None
        self.parts: list[str] = []
        self.batches_done = 0  # committed, or waiting to be
        self.pending: list[dict[str, Any]] = []
        self.seconds = 0.0

    def _use_baselines(self, lags: list[int]) -> None:
        """Begin with the naive guesses of the task, and those that repeat the label of so many rows ago."""
        self.naive_lags, self.baseline_names = lags, baseline_names(self.schema.task, lags)
        self.baselines: Baselines | ClassBaselines = ClassBaselines(delay=self.settings.delay, lags=lags)
        if not self.several:
            binary = self.schema.task == "classification"
            self.baselines = Baselines(binary=binary, delay=self.settings.delay, lags=lags)
        self.scores = ScoreTable(self.schema.task, ["model", *self.baseline_names])

    def start(self, state: RunState | None) -> None:
        """Begin, or go on from a commit."""
        self.log(self.schema.sentence(self.settings.target, self.encoder.learned_features))
        for note in self.schema.notes:
            self.log(note)
        if state is None:
            self.provenance = make_provenance(self.source, self.command)
            if self.source.stdin:
                self.log("the standard input cannot be resumed: if this is interrupted, start again")
            return
        with explain_damage(self.folder.path):
            self._resume(state)
        for _ in range(self.batches_done):
            if next(self.batches, None) is None:
                raise ModelFileError(f"{self.folder.path}: its file has fewer rows than it learned; start it again")
        self.log(f"{self.folder.path}: continuing after {self.encoder.rows:,} rows")

    def go_on(self, state: RunState) -> None:
        """Go on from a finished run with new rows: one commit at the end, and until then nothing changes."""
        self.updating = True
        with explain_damage(self.folder.path):
            self._restore(state)

    def _resume(self, state: RunState) -> None:
        """Go on from a commit, if its columns are still read as they were."""
        if state["plan"] != json.loads(json.dumps(self.schema.as_dict())):
            raise ModelFileError(
                f"{self.folder.path}: this run reads the columns of its file otherwise; start again with --force"
            )
        self._restore(state)

    def _restore(self, state: RunState) -> None:
        """Take over what a commit holds."""
        saved, path = state["carry"], self.folder.path
        if state["format"] < FORMAT:
            raise ModelFileError(f"{path}: written by an earlier undrift; start again with --force")
        self.replacing = False
        self.provenance, self.seconds = state["provenance"], state["provenance"]["seconds"]
        if self.provenance["kernels"].split(" then ")[-1] != kernels.level():
            self.provenance["kernels"] += f" then {kernels.level()}"
        self.parts, self.batches_done = list(state["parts"]), state["batches"]
        for part in self.parts:
            regular_file(path, part)
        if state["model"]:
            self.run_model.model = load_model(str(regular_file(path, state["model"])))
            _, arrays = store.read(regular_file(path, state["trace"]))
            self.run_model.resume(arrays)
            self.encoder.resume(saved["encoder"], {n[8:]: a for n, a in arrays.items() if n.startswith("encoder.")})
            self._use_baselines(state["naive_lags"])
            self.baselines.state, self.baselines.waiting = arrays["baselines.state"], arrays["baselines.waiting"]
            if self.naive_lags:
                self.baselines.past = arrays["baselines.past"]
            self.scores.resume(saved["scores"])
            if self.watch is not None:
                self.watch.resume(saved["watch"], state["events"])

    def play_all(self, progress: Callable[[Progress], None], stop: StopRequest) -> RunState:
        """Play the rows that are left, then finish the run."""
        while (batch := self._next(stop)) is not None:
            rows = self.encoder.encode(batch)
            if len(rows.y):
                self._play(rows)
            self.batches_done += 1
            progress(Progress(self.encoder.rows, self.source.fraction(), self.scores.latest))
            stopping = stop()
            if not self.updating and (stopping or self.batches_done % BATCHES_PER_COMMIT == 0):
                self._commit()
            if stopping:
                self._stop()
        return self._finish()

    def _next(self, stop: StopRequest) -> RowBatch | None:
        """Return the next batch; a request to stop does not wait until a slow source has one."""
        try:
            with stop.interruptible():
                return next(self.batches, None)
        except Interrupted:
            if self.pending and not self.updating:
                self._commit()
            self._stop()

    def _stop(self) -> NoReturn:
        if self.updating:
            raise Interrupted(f"{self.folder.path} is as it was before; give the same command again")
        rows, again = self.encoder.rows, "start again" if self.source.stdin else "continue with --resume"
        raise Interrupted(f"{self.folder.path} holds {rows:,} rows; {again}" if rows else "no row was learned yet")

    def _play(self, rows: Rows) -> None:
        if self.watch is None:
            names, classes = self.encoder.features, self.encoder.classes
            predictions = self.run_model.play(names, rows.Z, rows.y, classes, rows.weight, rows.elapsed)
        else:
            predictions = self._play_watched(self.watch, rows)
        judged = np.where(predictions.known, rows.y, np.nan)  # not before the first label was known
        table = ClassTable(self.encoder.classes or [], self.baseline_names)
        if isinstance(self.baselines, ClassBaselines):
            naive = self.baselines.play(rows.y, len(table.classes))
            self.scores.add_classes(judged, [table.wide(predictions), *naive])
            self.pending.append(table.columns(rows, predictions, naive))
            return
        both = np.column_stack([predictions.yhat, self.baselines.play(rows.y)])
        self.scores.add(judged, both)
        yhat, *baselines = np.where(predictions.known, both.T, np.nan)  # nothing is predicted before the first label
        if table.classes:
            self.pending.append(table.columns_of_two(rows, yhat, np.column_stack(baselines)))
        else:
            self.pending.append(self._columns(rows, predictions, yhat, baselines))

    def _play_watched(self, watch: RunWatch, rows: Rows) -> BlockPredictions:
        """Play rows and say at once what changed in them."""
        before = len(watch.events)
        predictions = watch.play(self.run_model, self.encoder, rows)
        for event in watch.events[before:]:
            self.log(f"{self.source.row_word} {event.row}: {event.kind}: {event.sentence}")
        return predictions

    def _columns(
        self, rows: Rows, predictions: BlockPredictions, yhat: Vector, baselines: list[Vector]
    ) -> dict[str, Any]:
        """Return the columns of the predictions of numbers."""
        out: dict[str, Any] = {"line": rows.line}
        if rows.time is not None:
            out["time"] = rows.time
        out |= {"y": rows.y, "yhat": yhat, "lower": predictions.lower, "upper": predictions.upper}
        return out | dict(zip(self.baseline_names, baselines, strict=True))

    def _scores(self) -> dict[str, dict[str, float | None]]:
        """Return the scores of the model and of the naive guesses that some row could have."""
        known = baseline_names(self.schema.task, [lag for lag in self.naive_lags if lag < self.encoder.rows])
        return {name: score for name, score in self.scores.as_dict().items() if name in ("model", *known)}

    def _effects(self) -> dict[str, float]:
        return self.run_model.effects(self.encoder.features, self.encoder.groups)

    def _watch_state(self) -> dict[str, Any]:
        return {} if self.watch is None else {"watch": self.watch.state()}

    def _write_part(self) -> None:
        """Write the rows since the last commit."""
        if not self.pending:
            return
        pl = polars("undrift run")
        frames = [
            pl.DataFrame(
                {k: pl.Series(v.tolist(), dtype=pl.String) if v.dtype == object else v for k, v in one.items()}
            )
            for one in self.pending
        ]
        frame = pl.concat(frames, how="diagonal", rechunk=True).with_columns(pl.col(pl.Float64).fill_nan(None))
        name = self.folder.files.next_free_name("predictions-", ".parquet", len(self.parts))
        self.folder.write_table(name, frame)
        self.parts.append(name)
        self.pending = []

    def _commit(self, status: str = "running") -> RunState:
        """Write what happened since the last commit; it counts from the moment `run.json` is renamed into place."""
        self._write_part()
        model, trace = "model.undrift", "trace.undrift"
        if status == "running" or self.updating:  # names that nothing has: what `run.json` names is never overwritten
            model = self.folder.files.next_free_name("model-", ".undrift", self.batches_done)
            trace = self.folder.files.next_free_name("trace-", ".undrift", self.batches_done)
        begun = self.run_model.model.dim is not None
        values, arrays = self.encoder.state()
        if begun:
            self.folder.write_model(model, self.run_model.model)
            every = {f"encoder.{name}": array for name, array in arrays.items()}
            every |= {f"baselines.{name}": getattr(self.baselines, name) for name in ("state", "waiting", "past")}
            self.folder.write_arrays(trace, {"kind": "run trace"}, every | self.run_model.arrays())
        wide = self.settings.missing == "indicators"
        features = self.encoder.learned_features
        state: RunState = {
            "status": status,
            "rows": self.encoder.rows,
            "rounds": self.run_model.model.rounds,
            "batches": self.batches_done,
            "parts": self.parts,
            "model": model if begun else None,
            "trace": trace if begun else None,
            "task": self.schema.task,
            "classes": self.encoder.classes,
            "features": features,
            "coefficients": [n for f in features for n in (f, f"{f} missing")] if wide else features,
            "candidates": self.run_model.model.candidates,
            "effects": self._effects() if status == "finished" else {},
            "combination": self.run_model.model.combination(),
            "arms": self.run_model.model.arms() if self.schema.task == "regression" else [],
            "naive_lags": self.naive_lags,
            "scores": self._scores(),
            "plan": self.schema.as_dict(),
            "settings": self.settings.as_dict(),
            "provenance": self.provenance | {"seconds": self.seconds + time.monotonic() - self._began},
            "certificates": [],
            "problems": self.encoder.all_problems(),
            "notes": list(self.schema.notes),
            "carry": {"encoder": values, "scores": self.scores.state()} | self._watch_state(),
            "events": [] if self.watch is None else [event.as_dict() for event in self.watch.events],
        }
        self.folder.write_state(state)
        self.folder.sweep(state)
        self.replacing = False
        return state

    def _finish(self) -> RunState:
        """Learn the labels that are still to come, join the parts, and commit the run as finished."""
        if self.run_model.model.dim is not None:
            self.run_model.finish()
        if self.run_model.model.rounds == 0:
            raise DataError(f"{self.source.name}: no row is left to learn from; see --missing")
        if self.updating:
            self.provenance["finished"] = now()
            return self.folder.use_final_names(self._commit("finished"))  # until it counts, the run is what it was
        if self.replacing:
            self._commit()  # the files of a finished run may have the names of the one that is replaced
        self._write_part()
        self.folder.join(self.parts, "predictions.parquet")
        self.parts = ["predictions.parquet"]
        self.provenance["finished"] = now()
        return self._commit("finished")


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
        if len(batch.lines) <= size:
            yield batch
            continue
        for a in range(0, len(batch.lines), size):
            columns = {name: cells[a : a + size] for name, cells in batch.columns.items()}
            yield RowBatch(batch.lines[a : a + size], columns)


def make_provenance(source: Source, command: str) -> dict[str, Any]:
    """Return the provenance of a run that begins now."""
    return {
        "undrift": undrift.__version__,
        "kernels": kernels.level(),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "source": {
            "path": source.name,
            "absolute": None if source.stdin else str(source.path.absolute()),
            "size": source.size,
            "sha256": source.digest(),
        },
        "command": command,
        "started": now(),
        "finished": None,
        "seconds": 0.0,
    }


def now() -> str:
    """Return the time in UTC, to the second."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


ROWS_PER_LOOK = 10
"""Rows between two looks at the model's memory."""


class RunWatch:
    """Plays the rows of a run in small blocks, which changes no bit, and looks at each."""

    def __init__(self, task: str, known_features: int) -> None:
        self._binary, self._known = task == "classification", known_features
        what = "the predicted class" if task == "multiclass" else "the positive label"
        self.watch = Watch(level=LEVEL, binary=task != "regression", what=what)
        self.events: list[Event] = []

    def play(self, run_model: RunModel, encoder: Features, rows: Rows) -> BlockPredictions:
        """Predict and learn rows; keep what changed in `events`."""
        self._add_categories(encoder, rows)
        blocks = []
        for a in range(0, len(rows.y), ROWS_PER_LOOK):
            part = slice(a, a + ROWS_PER_LOOK)
            both = (None if one is None else one[part] for one in (rows.weight, rows.elapsed))
            block = run_model.play(encoder.features, rows.Z[part], rows.y[part], encoder.classes, *both)
            self._look(encoder, Rows(rows.line[part], None, rows.Z[part], rows.y[part]), block)
            self.events += self.watch.add_memory(int(rows.line[part][-1]), run_model.model.spectrum())
            blocks.append(block)
        return join_predictions(blocks)

    def _look(self, encoder: Features, rows: Rows, block: BlockPredictions) -> None:
        names = encoder.schema.numbers  # the calendar, lags and texts are ours, or have their own word
        shown, labels = block.yhat, rows.y
        if block.probabilities is not None:  # of several classes: whether the most likely one came, and its probability
            some = np.where(np.isnan(block.probabilities), 0.0, block.probabilities)
            shown = np.max(some, axis=1, initial=0.0)
            labels = np.where(np.isnan(rows.y), np.nan, block.yhat == rows.y)
        elif self._binary:
            shown = sigmoid(block.yhat)
        for i, line in enumerate(rows.line.tolist()):
            if names:
                self.events += self.watch.add_row(line, names, rows.Z[i, : len(names)])
            if block.known[i] and not np.isnan(labels[i]):
                ends = (None, None) if block.lower is None or block.upper is None else (block.lower[i], block.upper[i])
                self.events += self.watch.add_round(line, float(labels[i]), float(shown[i]), *ends)

    def _add_categories(self, encoder: Features, rows: Rows) -> None:
        """Tell of texts that became features in these rows."""
        means, fixed = encoder.text_features.means, len(encoder.features) - len(encoder.text_features.names)
        for j in range(self._known, len(encoder.features)):
            if j >= fixed and j - fixed in means:
                continue  # it stands for many texts
            column, _, text = encoder.features[j].partition("=")
            first = int(np.argmax(rows.Z[:, j] == 1.0))
            self.events += self.watch.add_category(int(rows.line[first]), column, text)
        self._known = len(encoder.features)

    def state(self) -> dict[str, Any]:
        """Return what later rows depend on, as JSON values."""
        return {"watch": self.watch.state(), "known": self._known}

    def resume(self, state: Mapping[str, Any], events: list[dict[str, Any]]) -> None:
        """Go on where `state` left off."""
        self.watch.resume(state["watch"])
        self._known = state["known"]
        self.events = [Event.from_dict(one) for one in events]

"""Rows from a pipe, one JSON object a line: each is predicted as it comes, and learned now or when its label comes.

Without a folder nothing is kept. With one, the stream, the predictions and the scores are committed there every so many
rows, as a run over a file does, and the next pipe goes on from them.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from undrift import store
from undrift._internal.folder import regular_file
from undrift._internal.names import find_similar
from undrift._internal.state_file import explain_damage
from undrift._internal.stopping import Interrupted, StopRequest
from undrift._typing import Vector
from undrift.errors import DataError, InputError
from undrift.events import Event
from undrift.run.ledger import make_entry
from undrift.run.play.recorder import ROWS_PER_LOOK, RunRecorder
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.run_loop import RunWriter, make_provenance
from undrift.run.play.state import RunState, settings_of
from undrift.run.read.source import Source
from undrift.stream import Answers, Stream
from undrift.stream.cells import RowBatch, is_missing
from undrift.stream.features import Rows
from undrift.stream.first_rows import RowOrigin
from undrift.stream.schema import naive_lags
from undrift.stream.settings import Settings, did_you_mean

ROWS_BEFORE_NEWS = 100
"""Rows before a text that was never seen counts as a change."""
ROWS_PER_COMMIT, SECONDS_PER_COMMIT = 1000, 2.0
"""With a folder: rows between two commits, at most, and seconds, once a row comes."""
Name = str | int | float
"""What a row is called by its sender."""


class LivePrediction(NamedTuple):
    """What is answered to one line."""

    line: int
    """Its number, from 1 on."""
    id: Name | None
    """What its sender calls it."""
    answers: Answers
    """The prediction of its row."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values, without what it does not have."""
        columns = self.answers[0]
        classes = self.answers.classes
        out: dict[str, Any] = {"line": self.line, "id": self.id}
        out["prediction"] = columns.pop("prediction" if classes is None else "label")
        if classes is None:
            out |= {name: value for name, value in columns.items() if name != "time"}
        else:
            each = self.answers.probabilities[0].tolist()
            out["probability"] = columns["probability"]
            out["probabilities"] = {name: p for name, p in zip(classes, each, strict=True) if name and p == p} or None
        return {name: value for name, value in out.items() if value is not None or name == "prediction"}


class LiveOrigin(RowOrigin):
    """The lines of a pipe, for errors."""

    row_word = "line"

    def at(self, line: int) -> str:
        """Return where something stands, for an error."""
        return f"line {line}"


class LiveRun:
    """The rows of a pipe, their predictions, and what becomes of them.

    Parameters
    ----------
    settings
        What to predict, and how. Without `task`, the first row's label says whether it is a number or a class.
    id_column
        Column that names rows whose labels come later.
    on_event
        Called when something changes.
    folder
        Where the run is kept, its lock held; None: nowhere.
    source
        The pipe, for the record.
    command
        What the user typed, for the record.
    resume
        The state of the folder to go on from.
    versions
        How many versions the folder keeps, as for `RunWriter`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        id_column: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        folder: RunFolder | None = None,
        source: Source | None = None,
        command: str = "",
        resume: RunState | None = None,
        versions: int | None = None,
    ) -> None:
        if id_column is not None and id_column not in settings.drop:
            settings = settings.replace(drop=(*settings.drop, id_column))
        self._settings, self._id, self._on_event, self._folder = settings, id_column, on_event, folder
        self._origin = LiveOrigin("the pipe", settings)
        self._stream = Stream(settings)
        self._recorder: RunRecorder | None = None
        self._writer: RunWriter | None = None
        self._source, self._command, self._versions = source, command, versions
        self._served: dict[int, tuple[Rows, Answers, list[Any] | None]] = {}  # with a record: rows that wait
        self._columns: list[str] = []  # of the last row
        self._has_target = False  # whether any line had it
        self._rows, self._since, self._saved = 0, 0, time.monotonic()
        if resume is not None:
            self._go_on(resume)

    def play(
        self, lines: Iterable[str], complain: Callable[[DataError], None], stop: StopRequest | None = None
    ) -> Iterator[LivePrediction]:
        """Yield a prediction for each row as it comes; its label is learned when the next one is asked for.

        Parameters
        ----------
        lines
            One JSON object each. A label is beside its row, or comes later in a line of its id and the target alone.
        complain
            Called with what is wrong with a line, which is left out.
        stop
            A request to stop, granted while a line is awaited: what was learned is committed, and Interrupted raised.
        """
        request, numbered = stop or StopRequest(), enumerate(lines, start=1)
        while True:
            try:
                with request.interruptible():
                    number, text = next(numbered, (0, ""))
            except Interrupted:
                self._commit()
                raise
            if not number:
                return
            if not text.strip():
                continue
            try:
                row = _read_object(number, text)
                answers = self._ask(number, row)
            except DataError as error:
                complain(error)
                continue
            if answers is not None and len(answers):
                yield LivePrediction(number, self._name_of(number, row), answers)
            try:
                self._learn(number, row, answers)
            except DataError as error:
                complain(error)
            self._forget_given_up()
            self._commit_if_due()

    def finish(self) -> RunState | None:
        """Commit what is left, and the run as finished; None without a folder.

        Lines none of which has the target are refused.
        """
        if self._columns and not self._has_target and not self._stream.rounds:
            target = self._settings.target
            raise DataError(f"--live: no line has '{target}', the column to learn{did_you_mean(target, self._columns)}")
        if self._writer is None or self._recorder is None:
            if self._folder is not None:
                raise DataError("--live: no row came, so there is no run to keep")
            return None
        if not self._stream.rounds:
            raise DataError("--live: no label came, so there is no run to keep; the folder holds the rows as they are")
        self._recorder.snapshots.take(self._stream.model)
        self._keep_waiting()
        return self._writer.finish()

    def _ask(self, number: int, row: Mapping[str, Any]) -> Answers | None:
        """Serve a row; return None for a line that only brings a label."""
        name = self._name_of(number, row)
        self._columns, self._has_target = [*row], self._has_target or self._settings.target in row
        if name is not None and name in self._stream.references:
            if set(row) != {self._id, self._settings.target}:
                raise DataError(f"line {number}: '{self._id}' {name!r:.40} is that of a row that waits for its label")
            return None
        features = self._stream.features
        if features is not None:
            refuse_slips(f"line {number}", row, features.columns, self._settings)
        if name is not None and set(row) == {self._id, self._settings.target} and features and features.columns:
            raise DataError(
                f"line {number}: no row with '{self._id}' {name!r:.40} waits for its label, and this line has nothing "
                "to predict from; send rows before their labels"
            )
        for column, cell in row.items():
            if isinstance(cell, (list, dict)) and column not in self._settings.drop:
                raise DataError(
                    f"line {number}: '{column}' holds a list or an object; write plain columns, or --drop '{column}'"
                )
        batch = RowBatch(np.array([number], dtype=np.int64), {column: [cell] for column, cell in row.items()})
        fresh = self._stream.features is None
        texts = 0 if fresh else self._count_texts()
        rows, answers = self._stream.serve_batch(batch, self._origin, None if name is None else [name])
        if fresh:
            self._begin_record()
        self._rows += 1
        if self._recorder is not None and len(answers):
            guesses = None if self._writer is None else self._recorder.guess()
            self._served[int(answers.serial[0])] = rows, answers, guesses
            self._recorder.keep_rows(rows.Z)
            if self._recorder.watch is not None:
                known = self._rows <= ROWS_BEFORE_NEWS or self._count_texts() == texts
                self._notify(self._recorder.watch.add_rows(self._recorder.features, rows, quiet=known))
        return answers

    def _count_texts(self) -> int:
        return 0 if self._stream.features is None else len(self._stream.features.text_features.names)

    def _learn(self, number: int, row: Mapping[str, Any], answers: Answers | None) -> None:
        """Learn the label that a line brings, or let its row wait."""
        if answers is not None and not len(answers):
            return  # a row that `missing` leaves out
        name, cell = self._name_of(number, row), row.get(self._settings.target)
        missing = is_missing(cell, self._origin.na)
        if answers is not None and missing and name is not None:
            return
        if answers is None and missing:
            raise DataError(f"line {number}: '{self._settings.target}' of {name!r:.40} is missing; it still waits")
        serial = self._stream.references[name] if answers is None and name is not None else int(answers.serial[0])  # type: ignore[union-attr]  # of a row, or of one that waits
        label, line = None if missing else cell, np.array([number], dtype=np.int64)
        try:
            y = self._stream.tell_rows([serial], [label], self._origin, lines=line)
        except DataError:
            self._close(number, serial, self._stream.tell_rows([serial], [None], self._origin))
            raise
        self._close(number, serial, y)

    def _close(self, number: int, serial: int, y: Vector) -> None:
        """Record a row whose label came, or never comes, and look at its round."""
        if self._recorder is None:
            return
        rows, answers, guesses = self._served.pop(serial)
        rows = rows._replace(y=y)
        recorder = self._recorder
        if recorder.watch is not None and not math.isnan(y[0]):
            self._notify(recorder.watch.add_rounds(rows._replace(line=np.array([number])), answers))
            if self._stream.rounds % ROWS_PER_LOOK == 0:
                self._notify(recorder.watch.add_memory(number, self._stream.model.spectrum()))
        if self._writer is not None:
            recorder.add(rows, answers, guesses)
            recorder.take_due()
            self._since += 1

    def _forget_given_up(self) -> None:
        """Record rows that the stream gave up because too many wait."""
        if len(self._served) > self._stream.model.unlabelled_count:
            waiting = {*self._stream.waiting}
            for serial in [serial for serial in self._served if serial not in waiting]:
                self._close(0, serial, np.array([math.nan]))

    def _notify(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._on_event is not None:
                self._on_event(event)

    def _name_of(self, number: int, row: Mapping[str, Any]) -> Name | None:
        name = None if self._id is None else row.get(self._id)
        if isinstance(name, (list, dict, bool)):
            raise DataError(f"line {number}: '{self._id}' must be a text or a number, got {name!r:.40}")
        return name

    # ---- the folder --------------------------------------------------------------------------------------------

    def _begin_record(self) -> None:
        """Begin the record of the rows, once their columns are known."""
        if self._folder is None and self._on_event is None:
            return
        schema, settings = self._stream.schema, self._stream.settings
        assert schema is not None  # a row was served
        lags, watched = naive_lags(settings, schema.seasons), self._on_event is not None or settings.alert
        self._recorder = RunRecorder(self._stream, lags, watched=watched)
        if self._folder is not None and self._source is not None:
            self._writer = RunWriter(self._folder, self._recorder, versions=self._versions)
            self._writer.provenance = make_provenance(self._command)
            self._writer.learn_from(make_entry(self._source, "live"))

    def _go_on(self, state: RunState) -> None:
        """Go on from what a folder holds: its settings and columns are those of the rows to come."""
        assert self._folder is not None
        path = self._folder.path
        stream = Stream(settings_of(path, state).replace(limit=None))
        if self._id is not None and self._id not in stream.settings.drop:
            stream.use_settings(stream.settings.replace(drop=(*stream.settings.drop, self._id)))
        self._writer = writer = RunWriter(self._folder, RunRecorder.empty(stream), versions=self._versions)
        writer.updating = state["status"] == "finished"
        with explain_damage(path):
            writer.resume(state)
            _, arrays = store.read(regular_file(path, state["trace"]))
        if self._source is not None:
            writer.learn_from(make_entry(self._source, "live"))
        self._recorder = writer.recorder
        self._stream = self._recorder.stream
        self._settings, self._origin = self._stream.settings, LiveOrigin("the pipe", self._stream.settings)
        self._rows = self._recorder.features.rows
        for serial, line, when, *guesses in arrays.get("live.waiting", np.empty((0, 3))).tolist():
            self._restore_waiting(int(serial), int(line), when, guesses)

    def _restore_waiting(self, serial: int, line: int, when: float, guesses: list[float]) -> None:
        """Keep a row again that waited for its label when the folder was written."""
        stream = self._stream
        at = None if math.isnan(when) else np.array([np.datetime64(int(when), "us")])
        rows = Rows(np.array([line]), at, np.empty((1, 0)), np.array([math.nan]))
        assert self._recorder is not None
        count = len(self._recorder.baseline_names)
        naive: list[Any] = [*np.reshape(guesses, (count, len(guesses) // count))]
        naive = [guess[None] for guess in naive] if self._recorder.several else naive
        self._served[serial] = rows, stream.find_answers([serial], rows), naive

    def _keep_waiting(self) -> None:
        """Put the rows that wait for their labels into what is committed."""
        assert self._recorder is not None
        K = len(self._stream.classes or ()) if self._recorder.several else 1
        width = K * len(self._recorder.baseline_names)
        out = np.full((len(self._served), 3 + width), np.nan)
        for k, (serial, (rows, _, guesses)) in enumerate(self._served.items()):
            when = math.nan if rows.time is None else float(rows.time.astype("datetime64[us]").astype(np.int64)[0])
            out[k, :3] = serial, int(rows.line[0]), when
            for j, guess in enumerate(guesses or ()):
                values = np.ravel(guess)
                out[k, 3 + j * K : 3 + j * K + len(values)] = values
        self._recorder.waiting = out

    def _commit_if_due(self) -> None:
        if self._writer is None or not self._since:
            return
        if self._since >= ROWS_PER_COMMIT or time.monotonic() - self._saved >= SECONDS_PER_COMMIT:
            self._commit()

    def _commit(self) -> None:
        """Commit what was learned since the last time."""
        if self._writer is None or self._stream.model.dim is None:
            return
        self._keep_waiting()
        self._writer.batches += 1
        self._writer.commit()
        self._since, self._saved = 0, time.monotonic()


def refuse_slips(where: str, row: Mapping[str, Any], columns: Sequence[str], settings: Settings) -> None:
    """Refuse an unknown column that resembles one which the row lacks: a column that it lacks counts as missing."""
    lacking = [name for name in columns if name not in row]
    apart = {settings.target, settings.weight, settings.time, *settings.drop, *columns}
    for name in row if lacking else ():
        if name not in apart and (meant := find_similar(name, lacking)) is not None:
            raise DataError(f"{where}: '{name}' is unknown and '{meant}' is missing. Did you mean '{meant}'?")


def _read_object(number: int, text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"line {number}: not JSON; write one object a line") from None
    if not isinstance(row, dict):
        raise DataError(f"line {number}: a JSON {type(row).__name__} where an object should be")
    return row


def find_live_state(folder: RunFolder, settings: Settings, *, resume: bool, force: bool) -> RunState | None:
    """Return the state of a folder to go on from; None to start. Refuse a run that nobody asked to go on with."""
    if not folder.exists or force:
        if not folder.exists:
            folder.refuse_foreign_files()
        return None
    state = folder.state()
    if not resume:
        raise InputError(
            f"{folder.path}: there is a run already; go on from it with --resume, replace it with --force, or choose "
            "another folder with --out"
        )
    asked = settings.as_dict()
    fresh = Settings(target=settings.target).as_dict()
    for name, value in asked.items():
        then = state["settings"].get(name)
        if value != fresh.get(name) and value != then and name not in ("format", "limit"):
            raise InputError(
                f"{folder.path}: this run has {name} = {then!r}, not {value!r}; leave the option out, or choose "
                "another folder with --out"
            )
    if settings.target != state["settings"].get("target"):
        raise InputError(
            f"{folder.path}: this run predicts '{state['settings'].get('target')}', not '{settings.target}'"
        )
    folder.adopt_files(state)
    folder.sweep(state)
    return state if state["model"] else None

"""ServedRun: the stream of a run that serves rows and learns their labels, and its record in the run's folder."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from undrift._internal.state_file import explain_damage
from undrift._internal.stopping import StopRequest
from undrift._typing import Matrix, Vector
from undrift.errors import DataError, InputError, ModelFileError, RequestSizeError
from undrift.events import Event
from undrift.online.estimator import OnlineEstimator
from undrift.run.ledger import make_entry
from undrift.run.play.live import refuse_slips
from undrift.run.play.recorder import ROWS_PER_LOOK, RunRecorder, RunWatch
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.run_loop import Progress, RunWriter
from undrift.run.play.state import RunState, settings_of
from undrift.run.play.update import RunUpdate, learn_later_file
from undrift.run.service.folder_journal import Link, begin_link, commit_with_journal, find_facts, open_journal
from undrift.run.service.journal import Journal, WaitingRow
from undrift.run.service.recent import RecentRounds, Round, make_rounds
from undrift.run.service.served_models import (
    AskedRow,
    Cell,
    LabelledRow,
    LearnedLabel,
    Row,
    check_level,
    make_answers,
    median_half_life,
    show_label,
)
from undrift.run.service.service import HOLD, LARGEST_BATCH, Service
from undrift.stream import Answers, Stream
from undrift.stream.cells import LIMIT, RowBatch
from undrift.stream.features import Features, Rows
from undrift.stream.first_rows import RowOrigin
from undrift.stream.settings import Settings
from undrift.stream.stream import WaitingRows

NUMBERS_PER_COMMIT, SECONDS_PER_COMMIT = 10_000, 60.0
"""Rows and labels between two commits of the folder, at most, and seconds. A restart repeats what came after."""
SECONDS_PER_VERSION = 24 * 3600.0
"""Between two versions of a service that runs on; it makes one when it ends, too."""


class RequestOrigin(RowOrigin):
    """Rows of a request, whose sender has no command line."""

    def __init__(self, settings: Settings, before: int = 0) -> None:
        super().__init__("request", settings)
        self._before = before

    def at(self, line: int) -> str:
        """Return where something stands, for an error."""
        return super().at(line - self._before)

    def leave_out(self, name: str) -> str:
        """Return how a column is left out."""
        return "leave it out of the row"

    def mark_missing(self, text: str) -> str:
        """Return how a value is said to be missing."""
        return "send null if it is missing"

    def sort(self) -> str:
        """Return how rows are brought into order."""
        return "send rows in the order of their times"

    def choose(self, setting: str, value: str) -> str:
        """Return how a setting is given a value."""
        return f"run the file again with --{setting} {value}"


class LabelOrigin(RequestOrigin):
    """Labels of a request, by the ids of their rows."""

    def at(self, line: int) -> str:
        """Return where something stands, for an error."""
        return f"the label of row {line}"


class KeptRow(NamedTuple):
    """What is kept of a row that waits for its label, in one vector."""

    time: float
    """Microseconds since 1970, NaN without a time."""
    guesses: Vector
    """The naive guesses, one after the other."""
    z: Vector
    """Its features."""
    record: Vector
    """Of the stream."""

    def pack(self) -> Vector:
        """Return it as one vector."""
        head = [self.time, len(self.guesses), len(self.z)]
        return np.concatenate((head, self.guesses, self.z, self.record))

    @classmethod
    def unpack(cls, packed: Vector) -> KeptRow:
        """Return what `pack` packed."""
        when, guesses, width = packed[0], int(packed[1]), int(packed[2])
        a, b = 3 + guesses, 3 + guesses + width
        if guesses < 0 or width < 0 or len(packed) <= b:
            raise ModelFileError("the saved record of a row cannot be used")
        return cls(float(when), packed[3:a], packed[a:b], packed[b:])


class ServedRun:
    """The stream of a run, what it is asked and told, and the record of both in the run's folder.

    Parameters
    ----------
    folder
        Of a finished run, locked by this process.
    level
        Part of the labels that intervals are made to hold; None: what the run says.
    versions
        How many versions the folder keeps, as for `RunWriter`.
    """

    def __init__(self, folder: RunFolder, *, level: float | None = None, versions: int | None = None) -> None:
        self.folder, self._versions = folder, versions
        self._level = None if level is None else check_level(level)
        self.first_row = 1
        self._load()
        self._versioned = time.monotonic()
        self.target = self.stream.settings.target

    # ---- the folder --------------------------------------------------------------------------------------------

    def _load(self) -> RunState:
        """Become what the folder holds."""
        state = self.folder.state()
        if state["status"] != "finished" or state["model"] is None:
            raise InputError(f"{self.folder.path}: this run is not finished; continue it with --resume, then serve it")
        self.folder.adopt_files(state)
        stream = Stream(settings_of(self.folder.path, state).replace(limit=None))
        with explain_damage(self.folder.path):
            self.writer = RunWriter(self.folder, RunRecorder.empty(stream), versions=self._versions)
            self.writer.resume(state)
        self.writer.updating = True
        self.recorder: RunRecorder = self.writer.recorder
        self.stream: Stream = self.recorder.stream
        self.level = self.stream.settings.level if self._level is None else self._level
        self._watch = self.recorder.watch or RunWatch(self.stream, len(self.features.names))
        self._recent = RecentRounds()
        self._saved, self._saved_when, self._is_committed = 0, time.monotonic(), False
        return state

    @property
    def features(self) -> Features:
        """The stream's features."""
        assert self.stream.features is not None  # a finished run has learned rows
        return self.stream.features

    @property
    def model(self) -> OnlineEstimator:
        """The estimator inside."""
        return self.stream.model

    def restore(self, journal: Journal) -> tuple[int, Mapping[str, Any]] | None:
        """Become what the folder holds; return the number of the last entry in it, and the facts of the service."""
        state = self._load()
        held: Link | None = state["journal"]
        if self.writer.entry["by"] != "serve":
            self.writer.learn_from(make_entry("undrift serve", "serve"))
        back = f"undrift rollback {self.folder.path} --to {state['version']}"
        instead = f"put it back, or give up the rows that wait for their labels: {back}"
        with explain_damage(self.folder.path):
            facts = find_facts(journal, held, "run", instead)
        if held is None or facts is None:
            self.first_row = 1 if held is None else held.get("next_row", 1)
            self.writer.journal = begin_link()
            return None
        self._recent.resume(facts["recent"])
        if "watch" in facts and self.recorder.watch is None:
            self._watch.resume(facts["watch"], [])
        self._saved, self._is_committed = held["sequence"], True
        return held["sequence"], facts

    def save(self, journal: Journal, facts: Mapping[str, Any], *, everything: bool) -> None:
        """Commit the folder, and let the journal forget what it holds then."""
        assert self.writer.journal is not None  # it was restored
        if journal.last == self._saved and self._is_committed:
            return
        self.writer.journal |= {"sequence": journal.last, "next_row": facts["next_row"]}
        own = {"id": self.writer.journal["id"], "recent": self._recent.state()}
        own |= {} if self.recorder.watch is not None else {"watch": self._watch.state()}

        def commit() -> None:
            if not journal.last:  # nothing came yet
                self.writer.commit_journal()
                return
            self.writer.batches += 1
            self.writer.join_alike_parts()
            old = time.monotonic() - self._versioned > SECONDS_PER_VERSION
            self.writer.commit("finished", complete=old)
            self._versioned = time.monotonic() if old else self._versioned

        commit_with_journal(journal, {**facts, **own}, commit)
        self._is_committed = True
        self._saved, self._saved_when = journal.last, time.monotonic()

    def finish(self) -> None:
        """Make a version of what was learned, and give the files of the folder their final names."""
        if self.writer.is_version_open:
            self.recorder.snapshots.take(self.model)
            self.writer.finish()
        else:
            self.folder.use_final_names(self.folder.state())

    def is_due(self, journal: Journal) -> bool:
        """Whether the folder should be committed."""
        new = journal.last - self._saved
        return new >= NUMBERS_PER_COMMIT or (new > 0 and time.monotonic() - self._saved_when >= SECONDS_PER_COMMIT)

    def is_crowded(self) -> bool:
        """Always False: a run is saved as a whole."""
        return False

    # ---- rows --------------------------------------------------------------------------------------------------

    @property
    def work_per_row(self) -> int:
        """One learner, or one for each of several classes."""
        return max(1, len(self.stream.classes or ())) if self.recorder.several else 1

    def encode(self, rows: Sequence[Row], number: int, entry: int) -> WaitingRows:
        """Return rows that have come as the stream serves them; refused rows change nothing."""
        settings, features = self.stream.settings, self.features
        origin = RequestOrigin(settings, number - 1)
        needed = {*features.columns}
        known = {*needed, features.schema.time, settings.weight}
        for k, row in enumerate(rows):
            if needed and not needed & row.keys():
                given = ", ".join(f"{name!r:.60}" for name in list(row)[:5]) or "nothing"
                raise InputError(f"a row needs columns of the run, such as '{features.columns[0]}'; it has {given}")
            refuse_slips(origin.at(number + k), row, features.columns, settings)
            for name, cell in row.items():
                if isinstance(cell, float) and not abs(cell) <= LIMIT:
                    raise InputError(
                        f"{origin.at(number + k)}: '{name:.60}' must be at most {LIMIT:g} in size, got {cell:g}"
                    )
        names = dict.fromkeys(name for row in rows for name in row if name in known or features.schema.grows)
        lines = np.arange(number, number + len(rows), dtype=np.int64)
        batch = RowBatch(lines, {name: [row.get(name) for row in rows] for name in names})
        found = self.stream.encode_waiting(batch, origin)
        if len(found.rows.line) < len(rows):
            left = int(np.setdiff1d(lines, found.rows.line)[0])
            raise DataError(
                f"{origin.at(left)}: a value is missing, and this run leaves such rows out (--missing skip); send all "
                "values"
            )
        return found

    def ask(
        self, features: WaitingRows, number: int, references: Sequence[str | None], when: float, entry: int
    ) -> list[AskedRow]:
        """Serve rows, which are numbered from `number` on."""
        texts = len(self.features.text_features.names)
        rows, answers = self.stream.serve_rows(features)
        serials = answers.serial.tolist()
        shown = self._at_level(serials, rows, answers)
        guesses = np.stack([np.asarray(guess).reshape(len(serials), -1) for guess in self.recorder.guess(len(serials))])
        self.recorder.keep_rows(rows.Z)
        quiet = len(self.features.text_features.names) == texts
        events = self._watch.add_rows(self.features, rows, quiet=quiet)
        records, times = self.stream.release_rows(serials), _as_numbers(rows)
        asked = []
        for i, answer in enumerate(make_answers(range(number, number + len(serials)), shown, self._show_label)):
            kept = KeptRow(times[i], guesses[:, i].ravel(), rows.Z[i], records[i]).pack()
            waiting = WaitingRow(number + i, None, serials[i], references[i], when, kept)
            asked.append(AskedRow(waiting, answer, events if i == len(serials) - 1 else ()))
        return asked

    def _at_level(self, serials: Sequence[int], rows: Rows, answers: Answers) -> Answers:
        """Return answers with intervals at the level that was asked for."""
        if self.level == self.stream.settings.level or answers.classes is not None:
            return answers
        return self.stream.find_answers(serials, rows, level=self.level)

    def _show_label(self, label: str) -> Cell:
        """Return a label as an estimator from a file was told it; those of tables are texts."""
        return show_label(label, self.writer.provenance.get("labels"))

    # ---- labels ------------------------------------------------------------------------------------------------

    def read_labels(self, cells: Sequence[Cell], numbers: Sequence[int]) -> list[LearnedLabel]:
        """Return labels of rows as the stream learns them; refuse those that it cannot learn."""
        origin, lines = LabelOrigin(self.stream.settings), np.array(numbers, dtype=np.int64)
        code, y = self.stream.read_labels(cells, origin, lines)
        count = len(code.classes or ())
        if self.recorder.several and count > self.work_per_row and 1 < len(cells) > LARGEST_BATCH // count:
            most = max(1, LARGEST_BATCH // count)
            raise RequestSizeError(f"a request with new classes, {count} then, holds 1 to {most:,} labels; split it")
        values = y.tolist() if code.classes is None else cells
        return [None if gone else value for value, gone in zip(values, np.isnan(y).tolist(), strict=True)]

    def tell(self, labels: Sequence[LabelledRow], entry: int) -> Sequence[Event]:
        """Learn labels of rows that wait, or close them; return what changed."""
        before, events, begin = self.stream.rounds, list[Event](), 0
        while begin < len(labels):  # no further than to the next snapshot of the record
            rounds = self.stream.rounds
            end = begin + self.recorder.snapshots.next_round(rounds) - rounds
            events += self._tell(labels[begin:end])
            begin = end
        if self.stream.rounds // ROWS_PER_LOOK > before // ROWS_PER_LOOK:
            events += self._watch.add_memory(labels[-1].row.number, self.model.spectrum())
        return events

    def _tell(self, labels: Sequence[LabelledRow]) -> list[Event]:
        """Learn labels between which no snapshot is due."""
        kept = [KeptRow.unpack(row.record) for row, *_ in labels]
        serials, lines = ([getattr(row, name) for row, *_ in labels] for name in ("serial", "number"))
        line = np.array(lines, dtype=np.int64)
        Z, times = _stack([one.z for one in kept], len(self.features.names)), None
        if self.features.schema.time is not None:
            times = np.array([_instant(one.time) for one in kept], dtype="datetime64[us]")
        rows = Rows(line, times, Z, np.full(len(line), math.nan))
        self.stream.adopt_rows(serials, [one.record for one in kept])
        answers = self.stream.find_answers(serials, rows)
        shown = self._at_level(serials, rows, answers)
        origin = LabelOrigin(self.stream.settings)
        rows = rows._replace(y=self.stream.tell_rows(serials, [label.y for label in labels], origin, lines=line))
        self.recorder.add(rows, answers, self._guesses(kept))
        self.recorder.take_due()
        for one in make_rounds(rows.line.tolist(), rows.y, shown, self.stream.classes or (), self._show_label):
            self._recent.add(one)
        return self._watch.add_rounds(rows, shown)

    def _guesses(self, kept: Sequence[KeptRow]) -> list[Any]:
        """Return the naive guesses of rows as they were when these came."""
        count = len(self.recorder.baseline_names)
        each = [one.guesses.reshape(count, -1) for one in kept]
        if not self.recorder.several:
            return [*np.stack(each, axis=1)[:, :, 0]]
        width = max(one.shape[1] for one in each)
        return [_stack([one[k] for one in each], width) for k in range(count)]

    # ---- figures -----------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Return how it is doing, as JSON values."""
        binary = self.stream.task == "classification"
        facts = {
            "target": self.target,
            "task": self.stream.task,
            "rounds": self.stream.rounds,
            "half_life": median_half_life(self.model),
            "no_interval": self.model.inspect.missing_interval(),
            **self._recent.summary(self.level, binary=binary),
        }
        return facts | ({"classes": list(self.stream.classes or ())} if self.recorder.several else {})

    def recent(self, key: str | None, count: int) -> list[Round]:
        """Return the last rounds."""
        return self._recent.last(count)


def _stack(rows: Sequence[Vector], width: int) -> Matrix:
    """Return vectors as the rows of a matrix, NaN after the end of short ones."""
    if all(len(row) == width for row in rows):
        return np.array(rows)
    out = np.full((len(rows), width), math.nan)
    for row, values in zip(out, rows, strict=True):
        row[: len(values)] = values
    return out


def _as_numbers(rows: Rows) -> list[float]:
    """Return the times of rows in microseconds since 1970, NaN where there is none."""
    if rows.time is None:
        return [math.nan] * len(rows.line)
    times = rows.time.astype("datetime64[us]")
    found: list[float] = np.where(np.isnat(times), np.nan, times.astype(np.int64)).tolist()
    return found


def _instant(when: float) -> np.datetime64:
    return np.datetime64("NaT", "us") if math.isnan(when) else np.datetime64(int(when), "us")


@contextlib.contextmanager
def open_run(
    path: Path,
    *,
    level: float | None = None,
    hold: float | None = HOLD,
    durable: bool = False,
    versions: int | None = None,
) -> Iterator[Service]:
    """Give the service of a finished run's folder; no other process writes there meanwhile.

    When it ends in order, the files of the folder have the names that those of a finished run have.
    """
    folder = RunFolder(path)
    folder.state()  # refuses other folders before anything is written
    with folder.files.hold_lock():
        run = ServedRun(folder, level=level, versions=versions)
        folder.sweep(folder.state())  # also of a journal that does not count
        with open_journal(folder.files, durable) as journal:
            service = Service(run, journal, hold=hold)
            yield service
            service.close()
            if service.is_restored:
                run.finish()


def commit_journal(path: str | Path) -> None:
    """Commit what a service that was killed left in the journal of a run's folder, as if it had ended in order."""
    folder = RunFolder(path)
    link = folder.state()["journal"] if folder.exists else None
    if link is not None and link["id"] is not None:
        with open_run(folder.path, hold=None):
            pass  # it restores what the journal says, or refuses a damaged one, and commits it


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
    refused. What a service learned counts; what a killed one left in its journal is committed first. `versions` is how
    many versions the folder keeps from now on; None: as many as before.
    """
    commit_journal(out)
    return learn_later_file(out, path, command=command, progress=progress, log=log, stop=stop, versions=versions)

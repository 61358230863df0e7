"""Service: predictions now, labels when they come, nothing lost and nothing learned twice."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import undrift
from undrift._typing import Matrix
from undrift.errors import InputError, ModelFileError, UndriftError
from undrift.events import Event, EventKind, Watch
from undrift.learners.served import ServedPrediction
from undrift.losses import sigmoid
from undrift.online import OnlineRegressor, Table
from undrift.online.base import OnlineLearner
from undrift.online.intervals import LEVELS
from undrift.run.read.cells import LIMIT
from undrift.serve.journal import EntryKind, Journal, JournalEntry
from undrift.serve.recent import RecentRounds, Round
from undrift.serve.rows import Cell, Row, RowEncoder

ENTRIES_PER_SNAPSHOT = 10_000
"""A restart reads at most so many entries after the last snapshot, and those of one request more."""
ROUNDS_PER_LOOK = 10
"""Rounds between two looks at the model's memory."""
KEPT_EVENTS = 1000
"""Events that are kept."""
LARGEST_BATCH = 10_000
"""Rows or labels of one request."""


class Answer(NamedTuple):
    """The prediction of one row."""

    id: int
    """Give it back with the label."""
    prediction: Cell
    """A number, or the likelier label."""
    probability: float | None
    """Of the positive label, for two classes."""
    lower: float | None
    """Ends of the interval; None where there is none (yet)."""
    upper: float | None
    known: bool
    """Whether any label was learned before; if not, the prediction says nothing."""


class Label(NamedTuple):
    """A label that has come."""

    row: int | str
    """The id of the answer, or the reference that the client gave with the row."""
    y: Cell
    """The label; None says that it will never come."""


class LearnResult(NamedTuple):
    """What became of labels."""

    learned: int
    """Labels learned now."""
    repeated: int
    """Labels of rows that were learned or closed before: nothing was learned twice."""


class Service:
    """A model, the rows that wait for their label, and the journal of both.

    Nothing here is safe for several threads: the application calls it from one.

    Parameters
    ----------
    model
        The model to begin with, unless the journal knows a later one.
    rows
        Makes features of rows.
    journal
        Where everything is written before it is answered.
    origin
        Digest of the model to begin with; a journal that began with another one is refused.
    level
        Part of the labels that intervals are made to hold.
    hold
        Seconds after which a row that has no label yet is given up; None: never.
    """

    def __init__(
        self,
        model: OnlineLearner,
        rows: RowEncoder,
        journal: Journal,
        *,
        origin: str = "",
        level: float = 0.9,
        hold: float | None = None,
    ) -> None:
        self.model, self.rows, self.journal, self.level, self.hold = model, rows, journal, level, hold
        self._origin = origin
        if level not in LEVELS:
            levels = ", ".join(f"{one:g}" for one in LEVELS)
            raise InputError(f"intervals are kept at the levels {levels}, got {level:g}")
        self.started = time.time()
        self._first_state = rows.state(), _file_of(model)
        self._restore()
        if journal.last_snapshot() is None:
            self.take_snapshot()

    @property
    def waiting(self) -> int:
        """Rows that were served and wait for their label."""
        return len(self._waiting)

    def predict(self, rows: Sequence[Row], references: Sequence[str | None] | None = None) -> list[Answer]:
        """Serve rows that have come: their answers are in the journal when this returns."""
        _require_size(rows, "rows")
        given = [None] * len(rows) if references is None else list(references)
        if len(given) != len(rows):
            raise InputError(f"as many references as rows are needed, got {len(given)} for {len(rows)}")
        used = [one for one in given if one is not None]
        twice = next((one for one in used if one in self._references or used.count(one) > 1), None)
        if twice is not None:
            raise InputError(f"reference {twice!r} is that of another row that waits for its label; choose another")
        now = time.time()
        watched = [False] * (len(rows) - 1) + [True]  # looking at one row of a batch is enough, and much cheaper
        entries = [
            (EntryKind.ASKED, json.dumps([dict(row), reference, now, look], separators=(",", ":")))
            for row, reference, look in zip(rows, given, watched, strict=True)
        ]
        features = self.rows.encode(rows)  # refuses what cannot be read, and is as before then
        with _Undo(self):
            served = self._ask(features, given, now, self.journal.last + 1, watched)
            self.journal.append(entries)
        return [self._answer(number, one) for number, one in served]

    def learn(self, labels: Sequence[Label]) -> LearnResult:
        """Learn labels, late or out of order; they are in the journal when this returns."""
        _require_size(labels, "labels")
        found: dict[int, float] = {}
        repeated = 0
        for label in labels:
            number = self._find(label.row)
            y = float("nan") if label.y is None else self.rows.label(label.y)
            if label.y is not None and not abs(y) <= LIMIT:
                raise InputError(f"the label of row {label.row!r:.60} must be a number or a class, got {label.y!r:.60}")
            if number is None or number in found:
                repeated += 1
            else:
                found[number] = y
        entries = [(EntryKind.TOLD, json.dumps([number, _plain(y)])) for number, y in found.items()]
        if entries:
            with _Undo(self):
                for number, y in found.items():
                    self._tell(number, y)
                self.journal.append(entries)
        return LearnResult(len(found), repeated)

    def tend(self) -> None:
        """Give up rows that waited too long, and take a snapshot when the journal has grown; call it now and then."""
        if self.hold is not None:
            limit = time.time() - self.hold
            late = [number for number, (_, _, when) in self._waiting.items() if when < limit][:LARGEST_BATCH]
            if late:
                self.learn([Label(number, None) for number in late])
        if self.journal.last - self._snapshot_at >= ENTRIES_PER_SNAPSHOT:
            self.take_snapshot()

    def take_snapshot(self) -> None:
        """Put everything into the journal's snapshot, so that a restart is quick."""
        waiting: list[list[Any]] = [[number, *rest] for number, rest in self._waiting.items()]
        facts: dict[str, Any] = {
            "origin": self._origin,
            "rows": self.rows.state(),
            "waiting": waiting,
            "recent": self.recent.state(),
        }
        facts |= {"watch": self.watch.state(), "events": [event.as_dict() for event in self.events]}
        facts["event_counts"] = {str(kind): count for kind, count in self.event_counts.items()}
        self.journal.take_snapshot(json.dumps(facts, allow_nan=False), _file_of(self.model))
        self._snapshot_at = self.journal.last

    def facts(self) -> dict[str, Any]:
        """Return how the service is doing, as JSON values."""
        binary = not isinstance(self.model, OnlineRegressor)
        return {
            "target": self.rows.target,
            "task": "classification" if binary else "regression",
            "rounds": self.model.rounds,
            "waiting": self.waiting,
            "entries": self.journal.last,
            "seconds": time.time() - self.started,
            "half_life": _median_half_life(self.model),
            **self.recent.summary(self.level, binary=binary),
        }

    def close(self) -> None:
        """End in order: a last snapshot, and the journal is closed."""
        self.take_snapshot()
        self.journal.close()

    def _restore(self) -> None:
        """Become what the journal says: its snapshot, and every entry after it."""
        saved = self.journal.last_snapshot()
        self._waiting: dict[int, tuple[int, str | None, float]] = {}  # number: serial, reference, when it came
        self._references: dict[str, int] = {}
        self.recent = RecentRounds()
        self.watch = Watch(level=self.level, binary=not isinstance(self.model, OnlineRegressor))
        self.events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self.event_counts: Counter[EventKind] = Counter()
        self._snapshot_at = 0
        if saved is None:
            state, file = self._first_state
            self.rows.resume(state)
            self.model = _model_of(file)
        else:
            try:
                facts = json.loads(saved.facts)
                origin = facts["origin"]
                self.rows.resume(facts["rows"])
                for number, serial, reference, when in facts["waiting"]:
                    self._wait(number, serial, reference, when)
                self.recent.resume(facts["recent"])
                self.watch.resume(facts["watch"])
                self.events.extend(Event.from_dict(one) for one in facts["events"])
                self.event_counts.update({EventKind(kind): int(n) for kind, n in facts["event_counts"].items()})
            except (ValueError, KeyError, TypeError, AttributeError):
                raise ModelFileError(f"{self.journal.path}: its snapshot is damaged; move it away") from None
            if origin != self._origin:
                raise InputError(
                    f"{self.journal.path}: this service began with another model; move its folder away to begin anew"
                )
            self.model, self._snapshot_at = _model_of(saved.model), saved.sequence
        for entry in self.journal.entries_after(self._snapshot_at):
            try:
                self._repeat(entry)
            except (UndriftError, ValueError, KeyError, TypeError) as error:
                raise ModelFileError(f"{self.journal.path}: entry {entry.sequence} is damaged ({error})") from None

    def _repeat(self, entry: JournalEntry) -> None:
        """Do again what an entry says."""
        body = json.loads(entry.body)
        if entry.kind is EntryKind.ASKED:
            row, reference, when, look = body
            self._ask(self.rows.encode([row]), [reference], when, entry.sequence, [look])
        else:
            number, y = body
            self._tell(number, float("nan") if y is None else float(y))

    def _ask(
        self,
        features: Table | Matrix,
        references: Sequence[str | None],
        when: float,
        number: int,
        watched: Sequence[bool],
    ) -> list[tuple[int, ServedPrediction]]:
        """Serve rows, whose entries are numbered from `number` on."""
        served = []
        names, values = self.rows.watched_features(features)
        for i, reference in enumerate(references):
            if watched[i] and names:
                self._note(self.watch.add_row(number + i, names, values[i]))
            one = self.model.ask(_row(features, i))
            self._wait(number + i, one.serial, reference, when)
            served.append((number + i, one))
        return served

    def _wait(self, number: int, serial: int, reference: str | None, when: float) -> None:
        self._waiting[number] = (serial, reference, when)
        if reference is not None:
            self._references[reference] = number

    def _tell(self, number: int, y: float) -> None:
        """Learn the label of a row that waits, or close it."""
        serial, reference, _ = self._waiting.pop(number)
        if reference is not None:
            del self._references[reference]
        served = self.model.find_pending(serial)
        self.model.tell(served, y)
        if np.isnan(y):
            return
        self.rows.know_label(self.model.served_rows - serial + 1, y)
        low, high = self._interval(served)
        self.recent.add(Round(number, y, served.yhat, low, high, served.known))
        if served.known:
            self._note(self.watch.add_round(number, y, self._show(served), low, high))
        if self.model.rounds % ROUNDS_PER_LOOK == 0:
            self._note(self.watch.add_memory(number, self.model.spectrum()))

    def _note(self, events: Sequence[Event]) -> None:
        """Keep what changed."""
        self.events.extend(events)
        self.event_counts.update(event.kind for event in events)

    def _find(self, row: int | str) -> int | None:
        """Return the number of a row that waits; None if it was learned or closed; refuse what was never served."""
        if isinstance(row, str):
            if row not in self._references:
                raise InputError(f"no row with the reference {row!r:.60} waits for its label; give its id instead")
            return self._references[row]
        if not 1 <= row <= self.journal.last:
            raise InputError(f"no row has the id {row}; give an id that predict returned")
        return row if row in self._waiting else None

    def _interval(self, served: ServedPrediction) -> tuple[float | None, float | None]:
        if not isinstance(self.model, OnlineRegressor):
            return None, None
        ends = served.interval(self.level)
        return (float(ends.low), float(ends.high)) if np.isfinite(ends.low) else (None, None)

    def _show(self, served: ServedPrediction) -> float:
        """Return a prediction as people read it: a number, or the probability of the positive label."""
        return served.yhat if isinstance(self.model, OnlineRegressor) else float(sigmoid(np.array(served.yhat)))

    def _answer(self, number: int, served: ServedPrediction) -> Answer:
        low, high = self._interval(served)
        shown = self._show(served)
        if isinstance(self.model, OnlineRegressor):
            return Answer(number, shown, None, low, high, served.known)
        return Answer(number, self.rows.name_label(served.yhat), shown, None, None, served.known)


class _Undo:
    """If something inside is refused, the service is what its journal says again."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __enter__(self) -> None:
        """Nothing is needed: the journal knows everything."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self._service._restore()


def _row(features: Table | Matrix, i: int) -> Any:
    if isinstance(features, Table):
        return Table(features.columns, features.values[i : i + 1])
    return features[i]


def _plain(y: float) -> float | None:
    return None if np.isnan(y) else y


def _require_size(items: Sequence[object], what: str) -> None:
    if not 1 <= len(items) <= LARGEST_BATCH:
        raise InputError(f"a request holds 1 to {LARGEST_BATCH:,} {what}, got {len(items):,}; split it")


def _file_of(model: OnlineLearner) -> bytes:
    """Return a model as the bytes of its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.undrift"
        model.save(path)
        return path.read_bytes()


def _model_of(file: bytes) -> OnlineLearner:
    """Return the model in the bytes of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.undrift"
        path.write_bytes(file)
        model = undrift.load(path)
    if not isinstance(model, OnlineLearner):
        raise ModelFileError(f"a {type(model).__name__} cannot be served; give an OnlineRegressor or OnlineClassifier")
    return model


def _median_half_life(model: OnlineLearner) -> float | None:
    """Return the memory length below which half of the weight lies, in rounds; None: it never forgets."""
    spectrum = model.spectrum()
    if not len(spectrum.weights):
        return None
    median = spectrum.half_lives[int(np.searchsorted(np.cumsum(spectrum.weights), 0.5))]
    return float(median) if np.isfinite(median) else None

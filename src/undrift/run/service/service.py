"""Service: predictions now, labels when they come, nothing lost and nothing learned twice."""

from __future__ import annotations

import json
import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from undrift.errors import InputError, ModelFileError, RequestSizeError
from undrift.events import Event, EventKind
from undrift.run.service.journal import EntryKind, Journal, JournalEntry
from undrift.run.service.journaled_service import JournaledService, describe_failure, to_json
from undrift.run.service.served_models import (
    Answer,
    AskedRow,
    Cell,
    LabelledRow,
    Row,
    ServedModels,
    is_unicode,
)

KEPT_EVENTS = 1000
"""Events that are kept."""
LARGEST_BATCH = 10_000
"""Rows or labels of one request; of several classes, rows times classes."""
HOLD = 7 * 24 * 3600.0
"""Seconds that a row waits for its label, unless told otherwise."""
MOST_WAITING = 1_000_000
"""Rows that wait, each with a record of one or two kilobytes on the disk; for one more the oldest is given up."""
GIVEN_UP_AT_ONCE = 1000
"""Rows that are given up between two requests."""
SECONDS_OF_CLEANING = 0.02
"""Time for removing closed rows between two requests."""


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
    expired: int
    """Labels of rows that were given up before, because they had waited too long: they were not learned."""


class Service(JournaledService):
    """Models, the rows that wait for their label, and the journal of both.

    Nothing here is safe for several threads: the application calls it from one.

    Parameters
    ----------
    models
        What is served; the journal may know later states of it.
    journal
        Where everything is written before it is answered.
    hold
        Seconds after which a row that has no label yet is given up; None: never, unless too many wait.
    """

    def __init__(self, models: ServedModels, journal: Journal, *, hold: float | None = HOLD) -> None:
        super().__init__(journal)
        self._models, self.hold = models, hold
        self._restore()

    @property
    def models(self) -> ServedModels:
        """What is served."""
        self.require_restored()
        return self._models

    @property
    def events(self) -> deque[Event]:
        """The last changes, oldest first."""
        self.require_restored()
        return self._events

    @property
    def waiting(self) -> int:
        """Rows that were served and wait for their label."""
        return self.journal.waiting

    def predict(self, rows: Sequence[Row], references: Sequence[str | None] | None = None) -> list[Answer]:
        """Serve rows that have come: their answers are in the journal when this returns."""
        self.require_restored()
        self._require_size(rows, "rows")
        given = self._check_references(references, len(rows))
        self._save_crowded()
        now = time.time()
        number = self._next_row
        features = self._models.encode(rows, number, self.journal.last + 1)  # or refuses, and is as before then
        body = to_json([now, list(map(dict, rows)), references, number])
        with self._undo_if_refused():
            asked = self._ask(features, number, given, now, self.journal.last + 1)
            self.journal.append(EntryKind.ASKED, len(rows), body, waiting=[one.waiting for one in asked])
        return [one.answer for one in asked]

    def learn(self, labels: Sequence[Label]) -> LearnResult:
        """Learn labels, late or out of order; they are in the journal when this returns."""
        self.require_restored()
        self._require_size(labels, "labels")
        numbers = [self._find(label.row) for label in labels]
        values = self._models.read_labels([label.y for label in labels], numbers)
        found: dict[int, LabelledRow] = {}
        known = self.journal.find_rows(numbers)
        repeated = expired = 0
        for number, y in zip(numbers, values, strict=True):
            stored = None if number in found else known.get(number)
            if stored is not None and stored.closed is None:
                found[number] = LabelledRow(stored.row, y)
            elif number not in found and self.journal.is_expired(number):
                expired += 1
            else:
                repeated += 1
        if found:
            self._settle(list(found.values()))
        return LearnResult(len(found), repeated, expired)

    def close_labelled(self, numbers: Sequence[int]) -> None:
        """Close rows whose labels were learned from a file."""
        for a in range(0, len(numbers), GIVEN_UP_AT_ONCE):
            rows = self.journal.find_rows(numbers[a : a + GIVEN_UP_AT_ONCE]).values()
            self._settle([LabelledRow(stored.row, None, elsewhere=True) for stored in rows])

    def _settle(self, labels: Sequence[LabelledRow], *, expired: bool = False) -> None:
        """Learn labels of rows that wait, or close those that waited too long."""
        self._save_crowded()
        body = to_json([(row.number, y, *([True] if elsewhere else [])) for row, y, elsewhere in labels])
        with self._undo_if_refused():
            self._note(self._models.tell(labels, self.journal.last + 1))
            closed = [label.row.number for label in labels]
            self.journal.append(EntryKind.TOLD, 1, body, closed=closed, expired=expired)

    def _tend(self) -> None:
        """Give up rows that waited too long, and save and clean what is due."""
        limit = -math.inf if self.hold is None else time.time() - self.hold
        excess = self.journal.waiting - MOST_WAITING
        oldest = self.journal.oldest_rows(min(GIVEN_UP_AT_ONCE, self._most_items))
        late = [number for k, (number, when) in enumerate(oldest) if when < limit or k < excess]
        if late:
            rows = self.journal.find_rows(late).values()
            self._settle([LabelledRow(stored.row, None) for stored in rows], expired=True)
        if self._models.is_due(self.journal):
            self.save()
        until = time.monotonic() + SECONDS_OF_CLEANING
        while self.journal.clean() and time.monotonic() < until:
            pass

    def save(self, *, everything: bool = False) -> None:
        """Put what is now into the journal's snapshot, so that a restart is quick; or the part of it that is due."""
        facts: dict[str, Any] = {
            "saved_at": self.journal.last,
            "next_row": self._next_row,
            "rows_that_wait": self.journal.waiting,
            "events": [event.as_dict() for event in self._events],
            "event_counts": {str(kind): count for kind, count in self.event_counts.items()},
        }
        self._models.save(self.journal, facts, everything=everything)

    def _save_crowded(self) -> None:
        while self._models.is_crowded():
            self.save()

    def facts(self) -> dict[str, Any]:
        """Return how the service is doing, as JSON values."""
        now = {"waiting": self.waiting, "entries": self.journal.last, "seconds": time.time() - self.started}
        return {**self.models.facts(), **now}

    def close(self) -> None:
        """End in order: everything is saved, and the journal is closed."""
        if self.is_restored:
            self.save(everything=True)
        self.journal.close()

    def _read_journal(self) -> None:
        """Become what the journal says: its snapshot, and every entry after it."""
        self._events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self.event_counts: Counter[EventKind] = Counter()
        saved_at = waiting = after = 0
        saved = self._models.restore(self.journal)
        self._next_row = self._models.first_row  # the id of the next row, until the journal says another
        if saved is None:
            if self.journal.last:
                raise ModelFileError(f"{self.journal.path}: its first snapshot is missing; restore it from a copy")
            self.save(everything=True)
        else:
            after, facts = saved
            saved_at, waiting, self._next_row = (
                int(facts[name]) for name in ("saved_at", "rows_that_wait", "next_row")
            )
            self._events.extend(Event.from_dict(event) for event in facts["events"])
            self.event_counts.update({EventKind(kind): int(n) for kind, n in facts["event_counts"].items()})
        for entry in self.journal.entries_after(after):
            try:
                change = self._repeat(entry)
            except Exception as error:  # whatever a damaged entry breaks
                why = describe_failure(error)
                raise ModelFileError(f"{self.journal.path}: entry {entry.first} is damaged ({why})") from None
            waiting += change if entry.first > saved_at else 0
        if waiting != self.journal.waiting or self._next_row <= self.journal.newest_row():
            counts = f"{waiting:,} rows should wait, {self.journal.waiting:,} do"
            raise ModelFileError(f"{self.journal.path}: damaged ({counts}); move it away")
        json.dumps([self._models.facts(), self._models.recent(None, 1)])  # refuse figures that no service saves

    def _repeat(self, entry: JournalEntry) -> int:
        """Do again what an entry says; return how many rows more wait by it."""
        body = json.loads(entry.body)
        if entry.kind is EntryKind.ASKED:
            when, rows, references, number = body
            given = [None] * len(rows) if references is None else references
            self._ask(self._models.encode(rows, number, entry.first), number, given, when, entry.first)
            return len(rows)
        labels = []
        known = self.journal.find_rows([number for number, *_ in body])
        for number, y, *elsewhere in body:
            stored = known.get(number)
            if stored is None or stored.closed != entry.first:
                raise ModelFileError(f"row {number} is missing")
            labels.append(LabelledRow(stored.row, y, bool(elsewhere)))
        self._note(self._models.tell(labels, entry.first))
        return -len(labels)

    def _ask(
        self, features: Any, number: int, references: Sequence[str | None], when: float, entry: int
    ) -> list[AskedRow]:
        asked = self._models.ask(features, number, references, when, entry)
        self._next_row = max(self._next_row, number + len(references))
        for one in asked:
            self._note(one.events)
        return asked

    def _note(self, events: Sequence[Event]) -> None:
        """Keep what changed."""
        for event in events:
            if event not in self._events:  # it may be saved already when its key is not
                self._events.append(event)
                self.event_counts[event.kind] += 1

    @property
    def _most_items(self) -> int:
        """Rows or labels of one request: fewer where a row is the work of many classes."""
        return LARGEST_BATCH // self.models.work_per_row

    def _require_size(self, items: Sequence[object], what: str) -> None:
        if not 1 <= len(items) <= self._most_items:
            each = self.models.work_per_row
            why = f" where there are {each} classes" if each > 1 else ""
            sentence = f"a request holds 1 to {self._most_items:,} {what}{why}, got {len(items):,}"
            raise RequestSizeError(f"{sentence}; split it") if items else InputError(sentence)

    def _check_references(self, references: Sequence[str | None] | None, count: int) -> list[str | None]:
        """Return a reference or None for each row; refuse those of rows that still wait."""
        if references is None:
            return [None] * count
        if len(references) != count:
            raise InputError(f"as many references as rows are needed, got {len(references)} for {count}")
        often = Counter(one for one in references if one is not None)
        broken = next((one for one in often if not isinstance(one, str) or not is_unicode(one)), None)
        if broken is not None:
            raise InputError(f"a reference must be a text, got {broken!r:.60}")
        twice = next((one for one, n in often.items() if n > 1 or self.journal.is_waiting(one)), None)
        if twice is not None:
            raise InputError(f"reference {twice!r} is that of another row that waits for its label; choose another")
        return list(references)

    def _find(self, row: int | str) -> int:
        """Return the number of a row; refuse what was never served."""
        if isinstance(row, str):
            number = self.journal.find_reference(row) if is_unicode(row) else None
            if number is None:
                raise InputError(
                    f"no row with the reference {row!r:.60} waits for its label, or did lately; give its id instead"
                )
            return number
        if isinstance(row, bool) or not isinstance(row, int):
            raise InputError(f"the id of a row must be a whole number, got {row!r:.60}")
        if not 1 <= row < self._next_row:
            raise InputError(f"no row has the id {row}; give an id that POST /predict answered")
        return row

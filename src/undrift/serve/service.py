"""Service: predictions now, labels when they come, nothing lost and nothing learned twice."""

from __future__ import annotations

import json
import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from undrift.errors import InputError, ModelFileError, UndriftError
from undrift.events import Event, EventKind
from undrift.run.read.cells import LIMIT
from undrift.serve.compact_json import to_json
from undrift.serve.journal import EntryKind, Journal, JournalEntry
from undrift.serve.journaled_service import JournaledService
from undrift.serve.rows import Cell, Row
from undrift.serve.served_models import Answer, AskedRow, LearnedLabel, ServedModels

KEPT_EVENTS = 1000
"""Events that are kept."""
LARGEST_BATCH = 10_000
"""Rows or labels of one request."""


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
    origin
        Digest of what the models begin with; a journal that began with something else is refused.
    hold
        Seconds after which a row that has no label yet is given up; None: never.
    """

    def __init__(self, models: ServedModels, journal: Journal, *, origin: str = "", hold: float | None = None) -> None:
        super().__init__(journal)
        self._models, self.hold, self._origin = models, hold, origin
        self._restore()
        if journal.last_snapshot() is None:
            self.save(everything=True)

    @property
    def models(self) -> ServedModels:
        """What is served."""
        self.require_restored()
        return self._models

    @property
    def waiting(self) -> int:
        """Rows that were served and wait for their label."""
        return len(self.models.waiting)

    def predict(self, rows: Sequence[Row], references: Sequence[str | None] | None = None) -> list[Answer]:
        """Serve rows that have come: their answers are in the journal when this returns."""
        self.require_restored()
        _require_size(rows, "rows")
        given = self._check_references(references, len(rows))
        self._save_crowded()
        now = time.time()
        features = self.models.encode(rows)  # refuses what cannot be read, and is as before then
        number = self._next_row
        body = to_json([now, True, list(map(dict, rows)), references, number])
        with self._undo_if_refused():
            asked = self._ask(features, number, given, now, self.journal.last + 1, look=True)
            self.journal.append(EntryKind.ASKED, len(rows), body)
        return [one.answer for one in asked]

    def learn(self, labels: Sequence[Label]) -> LearnResult:
        """Learn labels, late or out of order; they are in the journal when this returns."""
        self.require_restored()
        _require_size(labels, "labels")
        found: dict[int, LearnedLabel] = {}
        repeated = expired = 0
        for label in labels:
            number = self._find(label.row)
            y = math.nan if label.y is None else self.models.label(label.y)
            if label.y is not None and not (isinstance(y, str) or abs(y) <= LIMIT):
                raise InputError(f"the label of row {label.row!r:.60} must be a number or a class, got {label.y!r:.60}")
            if number in found:
                repeated += 1
            elif number in self.models.waiting:
                found[number] = y
            elif self.journal.is_expired(number):
                expired += 1
            else:
                repeated += 1
        if found:
            self._settle(found)
        return LearnResult(len(found), repeated, expired)

    def _settle(self, labels: dict[int, LearnedLabel], *, expired: bool = False) -> None:
        """Learn labels of rows that wait, or close those that waited too long."""
        self.models.check_labels([self.models.waiting[number] for number in labels])
        self._save_crowded()
        body = to_json([(number, None if y != y else y) for number, y in labels.items()])  # NaN is not itself
        with self._undo_if_refused():
            self._tell(labels, self.journal.last + 1)
            self.journal.append(EntryKind.TOLD, 1, body, expired=[*labels] if expired else [])

    def _tend(self) -> None:
        """Give up rows that waited too long, and save what is due."""
        if self.hold is not None:
            limit = time.time() - self.hold
            late = [number for number, row in self.models.waiting.items() if row.when < limit][:LARGEST_BATCH]
            if late:
                self._settle(dict.fromkeys(late, math.nan), expired=True)
        if self.models.is_due(self.journal.last):
            self.save()

    def save(self, *, everything: bool = False) -> None:
        """Put what is now into the journal's snapshot, so that a restart is quick; or the part of it that is due."""
        facts: dict[str, Any] = {
            "origin": self._origin,
            "next_row": self._next_row,
            "events": [event.as_dict() for event in self.events],
            "event_counts": {str(kind): count for kind, count in self.event_counts.items()},
        }
        now = self.models.checkpoint(self.journal.last, facts, everything=everything)
        self.journal.save(now)
        self.models.mark_saved(now, self.journal.last)

    def _save_crowded(self) -> None:
        while self.models.is_crowded():
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
        saved = self.journal.last_snapshot()
        self._references: dict[str, int] = {}
        self._next_row = 1  # the id of the next row
        self.events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self.event_counts: Counter[EventKind] = Counter()
        if saved is None:
            self._models.begin()
        else:
            try:
                facts = json.loads(saved.facts)
                origin = facts["origin"]
                self._next_row = int(facts.get("next_row", saved.sequence + 1))  # older ids counted labels too
                self.events.extend(Event.from_dict(one) for one in facts["events"])
                self.event_counts.update({EventKind(kind): int(n) for kind, n in facts["event_counts"].items()})
                if origin == self._origin:
                    self._models.resume(facts, saved)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                if isinstance(error, UndriftError):
                    raise
                raise ModelFileError(f"{self.journal.path}: its snapshot is damaged; move it away") from None
            if origin != self._origin:
                raise InputError(
                    f"{self.journal.path}: this service began with another model; move its folder away to begin anew"
                )
        for number, row in self._models.waiting.items():
            if row.reference is not None:
                self._references[row.reference] = number
        for entry in self.journal.entries_after(0 if saved is None else saved.sequence):
            try:
                self._repeat(entry)
            except (UndriftError, ValueError, KeyError, TypeError) as error:
                raise ModelFileError(f"{self.journal.path}: entry {entry.first} is damaged ({error})") from None

    def _repeat(self, entry: JournalEntry) -> None:
        """Do again what an entry says."""
        body = json.loads(entry.body)
        if entry.kind is EntryKind.ASKED:
            when, look, rows, references, *row = body
            given = [None] * len(rows) if references is None else references
            number = row[0] if row else entry.first  # older ids counted labels too
            self._ask(self._models.encode(rows), number, given, when, entry.first, look=look)
            return
        labels = {number: math.nan if y is None else y if isinstance(y, str) else float(y) for number, y in body}
        if self._models.saved_by_key:  # keys that were saved after this entry have learned their labels
            labels = {number: y for number, y in labels.items() if number in self._models.waiting}
        self._tell(labels, entry.first)

    def _ask(
        self, features: Any, number: int, references: Sequence[str | None], when: float, entry: int, *, look: bool
    ) -> list[AskedRow]:
        asked = self._models.ask(features, number, references, when, entry, look=look)
        self._next_row = max(self._next_row, number + len(references))
        for one in asked:
            if one.waiting.reference is not None:
                self._references[one.waiting.reference] = one.number
            self._note(one.events)
        return asked

    def _tell(self, labels: dict[int, LearnedLabel], entry: int) -> None:
        for number in labels:
            reference = self._models.waiting[number].reference
            if reference is not None:
                del self._references[reference]
        self._note(self._models.tell(labels, entry))

    def _note(self, events: Sequence[Event]) -> None:
        """Keep what changed."""
        for event in events:
            if event not in self.events:  # it may be saved already when its key is not
                self.events.append(event)
                self.event_counts[event.kind] += 1

    def _check_references(self, references: Sequence[str | None] | None, count: int) -> list[str | None]:
        """Return a reference or None for each row; refuse those of rows that still wait."""
        if references is None:
            return [None] * count
        if len(references) != count:
            raise InputError(f"as many references as rows are needed, got {len(references)} for {count}")
        often = Counter(one for one in references if one is not None)
        twice = next((one for one, n in often.items() if n > 1 or one in self._references), None)
        if twice is not None:
            raise InputError(f"reference {twice!r} is that of another row that waits for its label; choose another")
        return list(references)

    def _find(self, row: int | str) -> int:
        """Return the number of a row; refuse what was never served."""
        if isinstance(row, str):
            if row not in self._references:
                raise InputError(f"no row with the reference {row!r:.60} waits for its label; give its id instead")
            return self._references[row]
        if not 1 <= row < self._next_row:
            raise InputError(f"no row has the id {row}; give an id that POST /predict answered")
        return row


def _require_size(items: Sequence[object], what: str) -> None:
    if not 1 <= len(items) <= LARGEST_BATCH:
        raise InputError(f"a request holds 1 to {LARGEST_BATCH:,} {what}, got {len(items):,}; split it")

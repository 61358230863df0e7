"""KeyedModels: a model for each key, as many in memory as there is room for, the others in the journal's file."""

from __future__ import annotations

import heapq
import json
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from undrift.errors import InputError, ModelFileError
from undrift.events import Event
from undrift.events.event import EventKind
from undrift.events.watch import KeyWatch
from undrift.losses import sigmoid
from undrift.online.estimator import OnlineEstimator
from undrift.run.service.journal import Checkpoint, Journal, KeyRow, WaitingRow
from undrift.run.service.recent import RecentRounds, Round
from undrift.run.service.served_models import (
    Answer,
    AskedRow,
    Cell,
    LabelledRow,
    LearnedLabel,
    Row,
    check_level,
    median_half_life,
)
from undrift.serve.rows import KeyedBatch, KeyedRows
from undrift.stream.keyed.key_state import KeyState
from undrift.stream.keyed.model_pool import ModelPool

LOADED_BYTES = 256 << 20
"""Memory for the states of models; others are read again when a row of theirs comes."""
FEWEST_LOADED = 20
"""Models in memory, however large they are."""
MOST_CHANGED = 2000
"""Keys that changed since they were saved; more are saved at once, so that a restart repeats few entries."""
KEYS_PER_SAVE = 20
"""Keys that are saved together: a few milliseconds."""
NUMBERS_PER_SAVE = 2000
"""A key that changed is saved before so many further rows and labels have come."""
ROUNDS_OF_A_KEY = 100
"""Rounds of each key that are kept."""


class FirstStates(Protocol):
    """What keys begin with, before the journal's first entry."""

    def __len__(self) -> int:
        """Return how many keys there are."""

    def has(self, key: str) -> bool:
        """Whether there is a key of this name."""

    def read(self, key: str) -> KeyState:
        """Return what a key begins with, a new one too."""


@dataclass(eq=False)
class _LoadedKey:
    model: OnlineEstimator
    recent: deque[Round] = field(default_factory=lambda: deque(maxlen=ROUNDS_OF_A_KEY))


class KeyedModels:
    """A model for each key.

    Parameters
    ----------
    pool
        Makes models of states.
    rows
        Makes features of rows.
    journal
        Where keys are saved.
    first
        What keys begin with.
    origin
        Digest of what keys begin with; a journal that began with something else is refused.
    level
        Part of the labels that intervals are made to hold.
    on_label
        Called before a label is learned.
    """

    work_per_row = first_row = 1

    def __init__(
        self,
        pool: ModelPool,
        rows: KeyedRows,
        journal: Journal,
        first: FirstStates,
        *,
        origin: str,
        level: float = 0.9,
        on_label: Callable[[], None] = lambda: None,
    ) -> None:
        self.pool, self.rows, self.level, self.target = pool, rows, check_level(level), rows.target
        self._journal, self._first, self._origin = journal, first, origin
        self._on_label = on_label
        self.binary = pool.prototype.binary
        state_bytes = 8 * max(1, sum(pool.codec.sizes.values()))
        self.most_loaded = max(FEWEST_LOADED, LOADED_BYTES // state_bytes)
        self._begin()

    def _begin(self) -> None:
        """Become what it was before the journal's first entry."""
        self.records: dict[str, KeyRecord] = {}
        self.rounds = self._new = self._saved_keys = 0
        self._loaded: dict[str, _LoadedKey] = {}
        self._clean: OrderedDict[str, None] = OrderedDict()  # loaded and saved, the one not used for longest first
        self._changed: OrderedDict[str, int] = OrderedDict()  # key: the first number that is not saved, oldest first
        self._recent = RecentRounds()
        self._worst: tuple[float, list[dict[str, Any]]] = (0.0, [])

    def restore(self, journal: Journal) -> tuple[int, Mapping[str, Any]] | None:
        """Become what was saved of each key; return the number of the last entry, and the facts of the service."""
        self._begin()
        saved = journal.last_snapshot()
        if saved is None:
            return None
        facts = json.loads(saved.facts)
        if facts["origin"] != self._origin:
            raise InputError(
                f"{journal.path}: this service began with another model; move its folder away to begin anew"
            )
        self._recent.resume(facts["recent"])
        for key, text in self._journal.key_facts():
            record = self.records[key] = KeyRecord(level=self.level, binary=self.binary)
            record.resume(json.loads(text))
            self._new += record.is_new
            self.rounds += record.rounds
        self._saved_keys = len(self.records)
        if self._saved_keys != facts["saved_keys"]:
            raise ModelFileError(f"{facts['saved_keys']} keys were saved, the journal has {self._saved_keys}")
        return saved.sequence, facts

    def encode(self, rows: Sequence[Row], number: int) -> KeyedBatch:
        """Return keys and features of rows that have come; refused rows change nothing."""
        batch = self.rows.encode(rows)
        self._require_room(batch.keys)
        return batch

    def ask(
        self,
        features: KeyedBatch,
        number: int,
        references: Sequence[str | None],
        when: float,
        entry: int,
    ) -> list[AskedRow]:
        """Serve rows, which are numbered from `number` on, but for those that are in what was saved of their key."""
        asked = []
        for i, key in enumerate(features.keys):
            record = self._record(key)
            if entry <= record.saved_at:
                continue
            model = self._change(key, entry).model
            (served,) = model.ask_rows(features.Z[i : i + 1])
            kept = model.release_record(served.serial)
            waiting = WaitingRow(number + i, key, served.serial, references[i], when, kept)
            record.waiting += 1
            answer = Answer(number + i, served.yhat, None, *served.bounds(self.level), served.known)
            if self.binary:
                answer = self._name_classes(answer, served.yhat)
            asked.append(AskedRow(waiting, answer, ()))
        self._trim()
        return asked

    def _name_classes(self, answer: Answer, odds: float) -> Answer:
        """Return the answer to a row of two classes."""
        given = {str(self.rows.name_label(side)): float(sigmoid(np.array(side * odds))) for side in (-1.0, 1.0)}
        label = self.rows.name_label(odds)
        return answer._replace(prediction=label, probability=given[str(label)], probabilities=given)

    def read_labels(self, cells: Sequence[Cell], numbers: Sequence[int]) -> list[LearnedLabel]:
        """Return labels as models learn them; refuse those of more keys than there is room for."""
        self._require_room(stored.row.key for stored in self._journal.find_rows(numbers).values())
        return [None if cell is None else self.rows.label(cell) for cell in cells]

    def tell(self, labels: Sequence[LabelledRow], entry: int) -> Sequence[Event]:
        """Learn labels, or close rows, but for those that are in what was saved of their key; return what changed."""
        if any(y is not None for _, y in labels):
            self._on_label()
        values = ((row, math.nan if y is None else float(y)) for row, y in labels)
        events = [event for row, y in values for event in self._tell(row, y, entry)]
        self._trim()
        return events

    def _tell(self, row: WaitingRow, y: float, entry: int) -> Iterator[Event]:
        number, key = row.number, str(row.key)
        record = self._record(key)
        if entry <= record.saved_at:
            return
        loaded = self._change(key, entry)
        record.waiting -= 1
        served = loaded.model.adopt_record(row.serial, row.record)
        loaded.model.tell(served, y)
        if math.isnan(y):
            return
        low, high = served.bounds(self.level)
        one = Round(number, y, served.yhat, low, high, served.known)
        loaded.recent.append(one)
        self._recent.add(one)
        self.rounds += 1
        shown = float(sigmoid(np.array(served.yhat))) if self.binary else served.yhat
        for kind, sentence in record.add_round(y, shown, low, high, binary=self.binary, known=served.known):
            yield Event(kind, number, None, f"{key!r:.60}: {sentence}", key)

    def facts(self) -> dict[str, Any]:
        """Return how all keys are doing, as JSON values."""
        return {
            "target": self.target,
            "task": "classification" if self.binary else "regression",
            "key": self.rows.key,
            "keys": len(self._first) + self._new,
            "rounds": self.rounds,
            "loaded": len(self._loaded),
            **self._recent.summary(self.level, binary=self.binary),
        }

    def key_facts(self, key: str) -> dict[str, Any]:
        """Return how one key is doing, as JSON values."""
        if key not in self.records and not self._first.has(key):
            raise InputError(f"no key {key!r:.60} has been seen")
        figures, model = self._figures(key, self._record(key)), self._load(key).model
        return {**figures, "half_life": median_half_life(model), "no_interval": model.inspect.missing_interval()}

    def worst_keys(self, count: int) -> list[dict[str, Any]]:
        """Return the keys with the largest error beside the naive guess's, the worst first; a little old if many."""
        until, found = self._worst
        if time.monotonic() >= until:
            worst = heapq.nlargest(50, self.records.items(), key=lambda item: item[1].badness)
            found = [self._figures(key, record) for key, record in worst if record.badness > 0.0]
            self._worst = time.monotonic() + min(60.0, len(self.records) / 10_000), found
        return found[:count]

    def recent(self, key: str | None, count: int) -> list[Round]:
        """Return the last rounds of a key, or of all together."""
        return self._recent.last(count) if key is None else list(self._load(key).recent)[-count:]

    def is_due(self, journal: Journal) -> bool:
        """Whether keys should be saved."""
        if not self._changed:
            return False
        return journal.last - next(iter(self._changed.values())) >= NUMBERS_PER_SAVE or self.is_crowded()

    def is_crowded(self) -> bool:
        """Whether keys must be saved before others change."""
        return len(self._changed) > min(MOST_CHANGED, self.most_loaded // 2)

    def save(self, journal: Journal, facts: Mapping[str, Any], *, everything: bool) -> None:
        """Save the keys that changed longest ago, or all that changed."""
        now = self._checkpoint(journal.last, facts, everything=everything)
        journal.save(now)
        self._mark_saved(now, journal.last)

    def _checkpoint(self, last: int, facts: Mapping[str, Any], *, everything: bool) -> Checkpoint:
        keys = list(self._changed)
        saved = keys if everything else keys[:KEYS_PER_SAVE]
        rest = keys[len(saved) :]
        own = {
            "origin": self._origin,
            "recent": self._recent.state(),
            "saved_keys": self._saved_keys + self._count_unsaved(saved),
        }
        text = json.dumps({**facts, **own}, allow_nan=False)
        keep_from = self._changed[rest[0]] if rest else last + 1
        return Checkpoint(text, [self._key_row(key, last) for key in saved], keep_from)

    def _mark_saved(self, saved: Checkpoint, last: int) -> None:
        """Note that this was written when the journal had come to `last`."""
        self._saved_keys += self._count_unsaved(row.key for row in saved.keys)
        for row in saved.keys:
            self.records[row.key].saved_at = last
            del self._changed[row.key]
            self._clean[row.key] = None
        self._trim()

    def _count_unsaved(self, keys: Iterable[str]) -> int:
        """Return how many keys were never saved."""
        return sum(not self.records[key].saved_at for key in keys)

    def _key_row(self, key: str, last: int) -> KeyRow:
        loaded, state = self._loaded[key], KeyState()
        self.pool.write_back(loaded.model, state)
        facts = json.dumps(self.records[key].state(last), allow_nan=False)
        recent = json.dumps([list(one) for one in loaded.recent], allow_nan=False)
        return KeyRow(key, facts, recent, self.pool.codec.pack(state))

    def _figures(self, key: str, record: KeyRecord) -> dict[str, Any]:
        inside = {} if self.binary or not record.judged else {"coverage": record.inside}
        return {
            "key": key,
            "rounds": record.rounds,
            "waiting": record.waiting,
            "relative_error": record.badness,
            **inside,
        }

    def _record(self, key: str) -> KeyRecord:
        record = self.records.get(key)
        if record is None:
            record = self.records[key] = KeyRecord(level=self.level, binary=self.binary)
            record.is_new = not self._first.has(key)
            self._new += record.is_new
        return record

    def _load(self, key: str) -> _LoadedKey:
        """Return a key's model, read from where it was saved, or the one it begins with."""
        loaded = self._loaded.get(key)
        if loaded is not None:
            if key in self._clean:
                self._clean.move_to_end(key)
            return loaded
        saved = self._journal.key_model(key)
        state = self._first.read(key) if saved is None else self.pool.codec.unpack(saved[1])
        model = self.pool.model(state)
        if not isinstance(model, OnlineEstimator):
            raise ModelFileError(f"a {type(model).__name__} cannot be served; give an online estimator")
        loaded = self._loaded[key] = _LoadedKey(model)
        if saved is not None:
            loaded.recent.extend(Round(*one) for one in json.loads(saved[0]))
        self._clean[key] = None
        return loaded

    def _change(self, key: str, number: int) -> _LoadedKey:
        """Return a key's model, which the entry of this number changes."""
        loaded = self._load(key)
        if key not in self._changed:
            self._changed[key] = number
            del self._clean[key]
        return loaded

    def _trim(self) -> None:
        """Drop models that were saved and not used for longest, until the rest fits into memory."""
        while self._clean and len(self._loaded) > self.most_loaded:
            key, _ = self._clean.popitem(last=False)
            del self._loaded[key]

    def _require_room(self, keys: Iterable[str | None]) -> None:
        if (count := len({*keys})) > self.most_loaded:
            raise InputError(f"a request may hold rows of {self.most_loaded:,} keys, got {count:,}; split it")


SPAN = 100
"""Figures are means over about so many last rounds."""
LEAST_JUDGED = 20
"""Rounds before a key is held against others: in fewer it is chance."""


class KeyRecord:
    """Figures of one key. Errors are squared, or log-losses; the naive guess is the last label, or the base rate."""

    __slots__ = ("error", "inside", "is_new", "judged", "last", "naive", "rounds", "saved_at", "waiting", "watch")

    def __init__(self, *, level: float, binary: bool) -> None:
        self.rounds = self.judged = self.saved_at = 0
        self.is_new = False  # whether the fleet did not have it
        self.error = self.naive = self.inside = 0.0
        self.last: float | None = None  # the last label; for two classes how often it was 1
        self.watch = KeyWatch(level=level, binary=binary)
        self.waiting = 0  # rows that wait for their label

    def add_round(
        self, y: float, shown: float, lower: float | None, upper: float | None, *, binary: bool, known: bool
    ) -> Iterator[tuple[EventKind, str]]:
        """Take a label in; yield what changed."""
        self.rounds += 1
        if known and self.last is not None:
            self.judged += 1
            part = 1.0 / min(self.judged, SPAN)
            error, naive = ((_log_loss(y, p) if binary else (y - p) ** 2) for p in (shown, self.last))
            self.error += part * (error - self.error)
            self.naive += part * (naive - self.naive)
            if lower is not None and upper is not None:
                self.inside += part * ((lower <= y <= upper) - self.inside)
            yield from self.watch.add(y, shown, lower, upper)
        if binary:
            before = 0.5 if self.last is None else self.last
            self.last = before + (y - before) / min(self.rounds + 1, SPAN)
        else:
            self.last = y

    @property
    def badness(self) -> float:
        """How large its error is beside that of the naive guess: above 1 the naive guess did better lately."""
        if self.judged < LEAST_JUDGED or not self.naive > 0.0:
            return 0.0
        ratio = self.error / self.naive
        return ratio if math.isfinite(ratio) else 0.0

    def state(self, saved_at: int) -> list[Any]:
        """Return it as JSON values, to be saved when the journal has come to `saved_at`."""
        figures = [self.error.hex(), self.naive.hex(), self.inside, self.last]
        return [saved_at, self.is_new, self.rounds, self.judged, self.waiting, figures, self.watch.state()]

    def resume(self, state: Sequence[Any]) -> None:
        """Go on where `state` left off."""
        self.saved_at, self.is_new, self.rounds, self.judged, self.waiting, figures, watch = state
        error, naive, self.inside, self.last = figures
        self.error, self.naive = float.fromhex(error), float.fromhex(naive)
        self.watch.resume(watch)


def _log_loss(y: float, p: float) -> float:
    return -math.log(max(p if y > 0.0 else 1.0 - p, 1e-9))

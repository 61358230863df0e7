"""ServedKeys: a stream for each key, as many in memory as there is room for, the others on the disk.

The journal has the keys that changed since the last commit, a few saved at a time. A commit puts their states and the
outputs for their rows into the fleet's store, in one transaction with the number of the last entry, so that after a
kill anywhere the store and the journal say together which states count.
"""

from __future__ import annotations

import heapq
import json
import math
import time
import uuid
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from undrift._internal.names import find_similar
from undrift._typing import Vector
from undrift.errors import InputError, ModelFileError, RequestSizeError
from undrift.events import Event, KeyedWatch
from undrift.fleet.state_store import SourceProgress, StateStore
from undrift.losses import sigmoid
from undrift.online.estimator import OnlineEstimator
from undrift.run.service.journal import Checkpoint, Journal, KeyRow, WaitingRow
from undrift.run.service.journaled_service import describe_failure
from undrift.run.service.key_record import KeyRecord
from undrift.run.service.recent import RecentRounds, Round, make_rounds
from undrift.run.service.served_models import (
    AskedRow,
    Cell,
    LabelledRow,
    LearnedLabel,
    Row,
    check_level,
    is_unicode,
    make_answers,
    median_half_life,
    show_label,
)
from undrift.run.service.served_run import LabelOrigin, RequestOrigin
from undrift.run.service.service import LARGEST_BATCH
from undrift.stream import Answers, Stream
from undrift.stream.cells import Cells, RowBatch
from undrift.stream.features import ParsedRows, Rows
from undrift.stream.keyed.key_advance import SKIPPED, KeyAdvance
from undrift.stream.keyed.key_state import KeyState
from undrift.stream.keyed.keyed_rows import KeyedRows, RowReader
from undrift.stream.keyed.keyed_streams import KeyedStreams
from undrift.stream.keyed.outputs import ABSENT, EXPIRED, LABELLED, NO_EXTRAS, OK, Key, Outputs
from undrift.stream.labels import LabelCode
from undrift.stream.settings import did_you_mean
from undrift.stream.stream import WaitingRows

SERVED = "undrift serve"
"""What the store of a fleet calls the rows of its service."""
LOADED_BYTES = 256 << 20
"""Memory for the states of keys; others are read again when a row of theirs comes."""
BYTES_OF_A_STREAM = 50_000
"""Memory for a key beside its state: its features, last rounds and errors."""
FEWEST_LOADED = 20
"""Keys in memory, however large their states are."""
MOST_CHANGED = 2000
"""Keys that changed since they were saved; more are saved at once, so that a restart repeats few entries."""
KEYS_PER_SAVE = 20
"""Keys that are saved together: a few milliseconds."""
NUMBERS_PER_SAVE = 2000
"""A key that changed is saved before so many further rows and labels have come."""
OUTPUTS_PER_COMMIT = 10_000
"""Outputs that wait for a commit of the fleet's store, at most."""
ROWS_READ_AT_ONCE = 1000
"""Rows that wait and are read from the journal together."""
ROUNDS_OF_A_KEY = 100
"""Rounds of each key that are kept."""
LONGEST_KEY = 1000
"""Characters of a key."""


class KeyBatch(NamedTuple):
    """Rows that have come."""

    keys: list[str]
    """Whose they are."""
    orders: list[int]
    """Their places in their streams, ABSENT where a row names none."""
    by_key: dict[str, tuple[list[int], WaitingRows]]
    """For each key that has not seen its rows yet: which rows, and the same for its stream."""


@dataclass(eq=False)
class _LoadedKey:
    state: KeyState
    """Without what the stream holds."""
    stream: Stream
    recent: deque[Round] = field(default_factory=lambda: deque(maxlen=ROUNDS_OF_A_KEY))
    outputs: list[Outputs] = field(default_factory=list)
    """What is not in the fleet's store yet."""

    @property
    def model(self) -> OnlineEstimator:
        """The estimator inside."""
        return self.stream.model


class ServedKeys:
    """A stream for each key.

    Parameters
    ----------
    streams
        What the columns are, and how keys are advanced.
    journal
        Where keys are saved.
    origin
        What tells these keys from others; a journal that began with something else is refused.
    store
        The states of a fleet, which its service goes on from and comes back to; None: all keys are new.
    initial
        State that a new key begins with; None: as every key of the fleet did.
    unused
        Columns that rows may have and that nothing is learned from.
    kind
        Name of the type that labels have for clients; None: texts.
    level
        Part of the labels that intervals are made to hold; None: what the fleet says.
    """

    first_row = 1

    def __init__(
        self,
        streams: KeyedStreams,
        journal: Journal,
        *,
        origin: str = "",
        store: StateStore | None = None,
        initial: bytes | None = None,
        unused: Iterable[str] = (),
        kind: str | None = None,
        level: float | None = None,
    ) -> None:
        self.streams, self.pool, self.kind = streams, streams.pool, kind
        self.level = check_level(streams.settings.level if level is None else level)
        self.target, self.binary = streams.fields.target, streams.binary
        self._journal, self._store, self._origin, self._initial = journal, store, origin, initial
        self._unused = {*unused, *streams.settings.drop}
        self._first_classes = None if streams.classes is None else list(streams.classes)
        self._blank = self.pool.stream(KeyState())  # reads the labels of all keys, unless each has classes of its own
        state_bytes = 8 * sum(self.pool.codec.sizes.values()) + BYTES_OF_A_STREAM
        self.most_loaded = max(FEWEST_LOADED, LOADED_BYTES // state_bytes)
        self.is_moved = False
        """Whether files were learned since the service ended."""
        self._begin()

    # ---- the journal and the store -------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Become what it was before the journal's first entry."""
        self.records: dict[str, KeyRecord] = {}
        self.rounds = self._new = self._saved_keys = self._committed = self._outputs = 0
        self._count = 0 if self._store is None else len(self._store)
        self._id = uuid.uuid4().hex
        self._loaded: dict[str, _LoadedKey] = {}
        self._clean: OrderedDict[str, None] = OrderedDict()  # loaded and saved, the one not used for longest first
        self._changed: OrderedDict[str, int] = OrderedDict()  # key: the first number that is not saved, oldest first
        self._recent = RecentRounds()
        self._worst: tuple[float, list[dict[str, Any]]] = (0.0, [])
        what = "the predicted class" if self.streams.several else "the positive label"
        self._watch = KeyedWatch(level=self.level, binary=self.streams.schema.task != "regression", what=what)
        self._name_classes(self._first_classes)

    def _name_classes(self, classes: Sequence[str] | None) -> None:
        if self.streams.classes is not None and classes is not None:
            self.streams.classes[:] = classes

    def _now(self) -> str:
        """Return what tells the keys from others, as they are now."""
        return self._origin if self._store is None else self._store.digest()

    def restore(self, journal: Journal) -> tuple[int, Mapping[str, Any]] | None:
        """Become what was saved of each key; return the number of the last entry, and the facts of the service."""
        self._begin()
        saved = journal.last_snapshot()
        if saved is None:
            return None
        facts = json.loads(saved.facts)
        held = SourceProgress(0, b"") if self._store is None else self._store.progress(SERVED)
        if held.digest == facts["id"].encode():
            self._committed = held.records
        self.is_moved = facts["origin"] != self._now()
        if self.is_moved and (self._store is None or self._committed != journal.last):
            raise InputError(
                f"{journal.path}: this service began with another model; move its folder away to begin anew"
            )
        self._id, self._outputs = str(facts["id"]), int(facts["outputs"])
        self._name_classes(facts["classes"])
        self._recent.resume(facts["recent"])
        for key, text in self._journal.key_facts():
            record = self.records[key] = KeyRecord()
            record.resume(json.loads(text))
            record.is_new = record.is_new and (self._store is None or record.saved_at > self._committed)
            self._new += record.is_new
            self.rounds += record.rounds
        self._saved_keys = len(self.records)
        if self._saved_keys != facts["saved_keys"]:
            raise ModelFileError(f"{facts['saved_keys']} keys were saved, the journal has {self._saved_keys}")
        return saved.sequence, facts

    def is_due(self, journal: Journal) -> bool:
        """Whether keys should be saved."""
        if not self._changed:
            return False
        return journal.last - next(iter(self._changed.values())) >= NUMBERS_PER_SAVE or self.is_crowded()

    def is_crowded(self) -> bool:
        """Whether keys must be saved before others change."""
        return len(self._changed) > min(MOST_CHANGED, self.most_loaded // 2)

    def save(self, journal: Journal, facts: Mapping[str, Any], *, everything: bool) -> None:
        """Save the keys that changed longest ago, or all that changed; commit those of a fleet when it is time."""
        commits = self._store is not None and (everything or self._outputs >= OUTPUTS_PER_COMMIT)
        now = self._checkpoint(journal.last, facts, everything=everything or commits)
        journal.save(now)
        self._mark_saved(now, journal.last)
        if commits and self._commit():
            journal.save(self._checkpoint(journal.last, facts, everything=True))

    def _checkpoint(self, last: int, facts: Mapping[str, Any], *, everything: bool) -> Checkpoint:
        keys = list(self._changed)
        saved = keys if everything else keys[:KEYS_PER_SAVE]
        rest = keys[len(saved) :]
        own = {
            "id": self._id,
            "origin": self._now(),
            "classes": self.streams.classes,
            "outputs": self._outputs,
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
        loaded = self._loaded[key]
        facts = json.dumps(self.records[key].state(last), allow_nan=False)
        outputs = Outputs.concat(loaded.outputs).pack().hex()
        recent = [[list(one) for one in loaded.recent], self._watch.state(key), outputs]
        return KeyRow(key, facts, json.dumps(recent, allow_nan=False), self._pack(loaded))

    def _pack(self, loaded: _LoadedKey) -> bytes:
        self.pool.write_back(loaded.stream, loaded.state)
        packed = self.pool.codec.pack(loaded.state)
        loaded.state.arrays, loaded.state.records = {}, {}  # which the stream has
        return packed

    def _commit(self) -> bool:
        """Put keys that changed since the last commit, all of them saved, into the fleet's store; whether any did."""
        assert self._store is not None
        store, last = self._store, self._journal.last
        keys = [key for key, record in self.records.items() if record.saved_at > self._committed]
        if not keys:
            return False
        waiting = self._ordered_rows({*keys})
        try:
            with store.transaction(SERVED, store.progress(SERVED).records):
                outputs: list[Outputs] = []
                for key in keys:
                    loaded, name = self._read(key), self._name(key)
                    parts = [*loaded.outputs, self._give(key, loaded, waiting.get(key, ()))]
                    store.put({name: self._pack(loaded)})
                    outputs += [replace(part, keys=[name] * len(part)) for part in parts]
                store.add_outputs(outputs, SERVED, SourceProgress(last, self._id.encode()))
        finally:
            for key in keys:
                if key in waiting or key not in self._loaded:  # it is read again, with or without the rows it was given
                    self._drop(key)
        self._committed, self._outputs = last, 0
        for key in keys:
            self._count += self.records[key].is_new
            self._new -= self.records[key].is_new
            self.records[key].is_new = False
            if key in self._loaded:
                self._loaded[key].outputs.clear()
        return True

    def _ordered_rows(self, keys: set[str]) -> dict[str, list[WaitingRow]]:
        """Return the newest rows of keys that wait and name their order, so that files can bring their labels."""
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        if self.streams.fields.order is None:
            return {}
        for key, number in self._journal.waiting_rows():
            if key in keys and len(numbers[key]) < self.streams.hold:
                numbers[key].append(number)
        found: dict[str, list[WaitingRow]] = {}
        for key, some in numbers.items():
            stored = self._journal.find_rows(some)
            rows = [stored[number].row for number in reversed(some) if _split_record(stored[number].row)[0] != ABSENT]
            if rows:
                found[key] = rows
        return found

    def _give(self, key: str, loaded: _LoadedKey, rows: Sequence[WaitingRow]) -> Outputs:
        """Let the state of a key keep rows that wait, as that of a file's rows does; return outputs for those new."""
        state, advance = loaded.state, KeyAdvance(self.streams, key, loaded.state, loaded.stream)
        for row in rows:
            order, record = _split_record(row)
            if state.unlabelled.get(order) != row.serial and len(state.unlabelled) < self.streams.hold:
                loaded.stream.adopt_rows([row.serial], [record])
                state.unlabelled[order] = row.serial
                advance.put_served(order, row.serial)
        return Outputs.from_rows(advance.count_outputs())

    def find_labelled(self) -> list[int]:
        """Return the numbers of the rows that wait in the journal and whose label a file has brought since."""
        if not self.is_moved or self._store is None:
            return []
        numbers, waiting = [number for _, number in self._journal.waiting_rows()], dict[tuple[str, int], int]()
        for a in range(0, len(numbers), ROWS_READ_AT_ONCE):
            for stored in self._journal.find_rows(numbers[a : a + ROWS_READ_AT_ONCE]).values():
                waiting[str(stored.row.key), _split_record(stored.row)[0]] = stored.row.number
        found = []
        for part in self._store.outputs(None):
            for i in np.flatnonzero(part.status == LABELLED).tolist():
                number = waiting.get((str(part.keys[i]), int(part.order[i])))
                if number is not None:
                    found.append(number)
        return found

    # ---- keys ----------------------------------------------------------------------------------------------------

    def _name(self, key: str) -> Key:
        """Return a key as the fleet's store has it: one made in Python may have integers."""
        if self._store is None or self.streams.from_table or not key.removeprefix("-").isdecimal():
            return key
        number = int(key)
        stored = self._store.get_many([key]) or str(number) != key
        return key if stored or not isinstance(next(iter(self._store), key), int) else number

    def _find_stored(self, key: str) -> bytes | None:
        """Return the state of a key in the fleet's store."""
        return None if self._store is None else next(iter(self._store.get_many([self._name(key)]).values()), None)

    def _record(self, key: str) -> KeyRecord:
        record = self.records.get(key)
        if record is None:
            record = self.records[key] = KeyRecord()
            record.is_new = self._find_stored(key) is None
            self._new += record.is_new
        return record

    def _load(self, key: str) -> _LoadedKey:
        """Return a key, read from where it was saved, or what it begins with."""
        loaded = self._loaded.get(key)
        if loaded is not None:
            if key in self._clean:
                self._clean.move_to_end(key)
            return loaded
        loaded = self._loaded[key] = self._read(key)
        self._clean[key] = None
        return loaded

    def _read(self, key: str) -> _LoadedKey:
        """Return a key as it was saved last, in the journal or in the store of the fleet."""
        if key in self._loaded:
            return self._loaded[key]
        saved, record = self._journal.key_model(key), self.records.get(key)
        own = saved is not None and record is not None and (self._store is None or record.saved_at > self._committed)
        data = saved[1] if own and saved is not None else self._find_stored(key) or self._initial
        state = KeyState() if data is None else self.pool.codec.unpack(data)
        loaded = _LoadedKey(state, self.pool.stream(state))
        state.arrays, state.records = {}, {}
        if saved is not None:
            try:
                recent, watch, outputs = json.loads(saved[0])
                loaded.recent.extend(Round(*one) for one in recent)
                self._watch.resume(key, watch)
                loaded.outputs = [Outputs.unpack(bytes.fromhex(outputs))] if own else []
            except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
                why = describe_failure(error)
                raise ModelFileError(
                    f"{self._journal.path}: key {key!r:.60} is damaged ({why}); move it away"
                ) from None
        if state.waiting:  # of a fleet that was not told that nothing before them comes any more
            advance = KeyAdvance(self.streams, key, state, loaded.stream)
            advance.finish()
            self._put_out(loaded, advance)
        return loaded

    def _change(self, key: str, number: int) -> _LoadedKey:
        """Return a key, which the entry of this number changes."""
        loaded = self._load(key)
        if key not in self._changed:
            self._changed[key] = number
            del self._clean[key]
        return loaded

    def _trim(self) -> None:
        """Drop keys that were saved and not used for longest, until the rest fits into memory."""
        while self._clean and len(self._loaded) > self.most_loaded:
            self._drop(next(iter(self._clean)))

    def _drop(self, key: str) -> None:
        self._clean.pop(key, None)
        self._loaded.pop(key, None)
        self._watch.forget(key)

    def _require_room(self, keys: Iterable[str | None]) -> None:
        if (count := len({*keys})) > self.most_loaded:
            raise InputError(f"a request may hold rows of {self.most_loaded:,} keys, got {count:,}; split it")

    def _put_out(self, loaded: _LoadedKey, advance: KeyAdvance) -> None:
        """Count what became of rows, and keep it for the fleet's store."""
        rows = advance.count_outputs()
        if rows and self._store is not None:
            loaded.outputs.append(Outputs.from_rows(rows))
            self._outputs += len(rows)

    # ---- rows ----------------------------------------------------------------------------------------------------

    @property
    def work_per_row(self) -> int:
        """One learner, or one for each of several classes."""
        return max(1, len(self.streams.schema.classes or ())) if self.streams.several else 1

    def encode(self, rows: Sequence[Row], number: int, entry: int) -> KeyBatch:
        """Return rows that have come as their streams serve them; refused rows change nothing."""
        origin = RequestOrigin(self.streams.settings, number - 1)
        found = self._parse(rows, number, origin)
        self._require_room(found.keys)
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for i, key in enumerate(found.keys):
            groups[key].append(i)
        by_key = {}
        for key, places in groups.items():
            if key in self.records and entry <= self.records[key].saved_at:
                continue
            loaded = self._load(key)
            part = found.take(places)
            self._check_orders(key, loaded.state, part.order, [origin.at(number + i) for i in places])
            weight = None if part.weight is None else np.array(part.weight)
            times, lines = self.streams.instants(part.order), np.array(places) + number
            unknown = np.full(len(places), math.nan)
            parsed = ParsedRows(lines, times, part.Z, part.texts, unknown, weight)
            waiting = loaded.stream.complete_waiting(parsed, origin)
            if len(waiting.rows.line) < len(places):
                left = int(np.setdiff1d(lines, waiting.rows.line)[0])
                raise InputError(f"{origin.at(left)}: {SKIPPED}; send all values")
            by_key[key] = places, waiting
        return KeyBatch(found.keys, found.order.tolist(), by_key)

    def _parse(self, rows: Sequence[Row], number: int, origin: RequestOrigin) -> KeyedRows:
        """Return the cells of rows as numbers, texts and orders; refuse those that cannot be used."""
        fields = self.streams.fields
        names = [name for name in fields.names if name not in (fields.target, fields.label_of)]
        for row in rows:
            for name in fields.key:
                _check_key(name, row.get(name))
            broken = next((name for name, cell in row.items() if isinstance(cell, str) and not is_unicode(cell)), None)
            if broken is not None:
                raise InputError(f"'{broken:.60}' must be a text that can be written, got {row[broken]!r:.60}")
            strange = self._find_strange(row, names)
            if strange is not None:
                known = [*fields.features, *fields.texts]
                raise InputError(f"the models have no feature '{strange:.60}'{did_you_mean(strange, known)}")
        cells: dict[str, Cells] = {name: [row.get(name) for row in rows] for name in names}
        if fields.weight is not None and not any(fields.weight in row for row in rows):
            cells[fields.weight] = [1.0] * len(rows)
        batch = RowBatch(np.arange(number, number + len(rows), dtype=np.int64), cells)
        reader = RowReader(fields, self.streams.accepted_input, self.streams.time, self.streams.classes, ordered=False)
        found = reader.read(batch, origin)
        if found.bad:
            first = min(found.bad)
            raise InputError(f"{origin.at(number + first)}: {found.bad[first]}; correct it and send the request again")
        for i, key in enumerate(found.keys):
            if not 1 <= len(key) <= LONGEST_KEY:
                raise InputError(
                    f"{origin.at(number + i)}: a key has 1 to {LONGEST_KEY:,} characters, got {len(key):,}"
                )
        return found

    def _find_strange(self, row: Row, names: Sequence[str]) -> str | None:
        """Return a name in a row that no column has; where features were named, only one that is a slip for theirs."""
        strange = [name for name in row if name not in names and name not in self._unused]
        if self.streams.settings.features is not None:
            lacking = [name for name in names if name not in row]
            strange = [name for name in strange if find_similar(name, lacking) is not None]
        return strange[0] if strange else None

    def _check_orders(self, key: str, state: KeyState, orders: Iterable[int], where: Sequence[str]) -> None:
        """Refuse rows whose order was there before, or is behind that of a row that came."""
        following, name, new = state.tracker.next, self.streams.fields.order, set[int]()
        for order, at in zip(orders, where, strict=True):
            if order == ABSENT:
                continue
            if following is not None and order < following:
                came = order in new or state.tracker.was_released(order)
                why = "came before; send each row once" if came else "is behind the last one; send rows in order"
                raise InputError(f"{at}: the place of this row of key {key!r:.60} by '{name}' {why}, or omit '{name}'")
            following = order + 1
            new.add(order)

    def ask(
        self, features: KeyBatch, number: int, references: Sequence[str | None], when: float, entry: int
    ) -> list[AskedRow]:
        """Serve rows, which are numbered from `number` on, but for those that are in what was saved of their key."""
        asked: dict[int, AskedRow] = {}
        for key, (places, waiting) in features.by_key.items():
            record, loaded = self._record(key), self._change(key, entry)
            stream, advance = loaded.stream, KeyAdvance(self.streams, key, loaded.state, loaded.stream)
            orders = [self._pass(advance, features.orders[i]) for i in places]
            rows, answers = stream.serve_rows(waiting)
            serials = answers.serial.tolist()
            shown = self._name_answers(self._at_own_level(stream, serials, rows) or answers)
            released = stream.release_rows(serials)
            loaded.state.asked = True
            record.waiting += len(places)
            self._put_out(loaded, advance)
            sent = make_answers([number + i for i in places], shown, self._show)
            for i, order, serial, kept, answer in zip(places, orders, serials, released, sent, strict=True):
                row = WaitingRow(number + i, key, serial, references[i], when, _join_record(order, kept))
                asked[i] = AskedRow(row, answer, ())
        self._trim()
        return [asked[i] for i in sorted(asked)]

    def _pass(self, advance: KeyAdvance, order: int) -> int:
        """Let a key take note of the order of a row; where rows are in order of arrival, it has the next one."""
        tracker = advance.state.tracker
        if self.streams.fields.order is None:
            order = 0 if tracker.next is None else tracker.next
        if order != ABSENT:
            tracker.observe(order, self.streams.wait)
            advance.release_order(order)
        return order

    def _at_own_level(self, stream: Stream, serials: Sequence[int], rows: Rows) -> Answers | None:
        """Return what was answered to rows that wait, if intervals were asked for at another level than the fleet's."""
        if self.level == self.streams.settings.level or self.streams.schema.task != "regression":
            return None
        return stream.find_answers(serials, rows, level=self.level)

    def _name_answers(self, answers: Answers) -> Answers:
        """Return answers with the two classes as all keys know them."""
        return replace(answers, classes=tuple(self.streams.classes or ("0", "1"))) if self.binary else answers

    def _show(self, label: str) -> Cell:
        numbers = self.binary and self.streams.classes is None
        return show_label(label, "int" if numbers else self.kind)

    # ---- labels --------------------------------------------------------------------------------------------------

    def read_labels(self, cells: Sequence[Cell], numbers: Sequence[int]) -> list[LearnedLabel]:
        """Return labels as models learn them; refuse those of more keys than there is room for."""
        keys = {number: str(stored.row.key) for number, stored in self._journal.find_rows(numbers).items()}
        self._require_room(keys.values())
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for i, number in enumerate(numbers):
            groups[keys.get(number, "") if self.streams.several else ""].append(i)
        out: list[LearnedLabel] = [None] * len(cells)
        for key, places in groups.items():
            stream = self._load(key).stream if key else self._blank
            code, y = self._read_cells(stream, [cells[i] for i in places], [numbers[i] for i in places])
            count = len(code.classes or ())
            if self.streams.several and 1 < len(cells) > LARGEST_BATCH // max(1, count):
                most = max(1, LARGEST_BATCH // count)
                raise RequestSizeError(f"a request with labels of {count} classes holds 1 to {most:,}; split it")
            for i, value in zip(places, y.tolist(), strict=True):
                out[i] = None if value != value else value if code.classes is None else cells[i]
        self._trim()
        return out

    def _read_cells(self, stream: Stream, cells: Sequence[Cell], numbers: Sequence[int]) -> tuple[LabelCode, Vector]:
        """Return labels as numbers, and what knows their names."""
        assert stream.features is not None
        if self.binary:  # all keys have the same two
            classes = self.streams.classes
            stream.features.labels.classes = None if classes is None else list(classes)
        origin, lines = LabelOrigin(self.streams.settings), np.array(numbers, dtype=np.int64)
        code, y = stream.read_labels(cells, origin, lines)
        if self.binary and code.classes is None:
            wrong = np.flatnonzero(~np.isin(y, (-1.0, 0.0, 1.0)) & ~np.isnan(y))
            if len(wrong):
                raise InputError(f"{origin.at(int(lines[wrong[0]]))} is {y[wrong[0]]:g}, not -1, 0 or 1; correct it")
        return code, y

    def tell(self, labels: Sequence[LabelledRow], entry: int) -> Sequence[Event]:
        """Learn labels, or close rows, but for those that are in what was saved of their key; return what changed."""
        events = [event for label in labels for event in self._tell(label, entry)]
        self._trim()
        return events

    def _tell(self, label: LabelledRow, entry: int) -> Sequence[Event]:
        row, key = label.row, str(label.row.key)
        record = self._record(key)
        if entry <= record.saved_at:
            return ()
        loaded, (order, kept) = self._change(key, entry), _split_record(row)
        state, stream = loaded.state, loaded.stream
        record.waiting -= 1
        if label.elsewhere:
            return ()
        given = state.unlabelled.get(order) == row.serial
        if given:
            del state.unlabelled[order]
        else:
            stream.adopt_rows([row.serial], [kept])
        advance = KeyAdvance(self.streams, key, state, stream)
        if label.y is None:
            assert stream.features is not None
            stream.tell_numbers([row.serial], stream.features.labels, np.array([math.nan]))
            if given:
                advance.rows.append((key, order, math.nan, math.nan, EXPIRED, "its label never comes", NO_EXTRAS))
            self._put_out(loaded, advance)
            return ()
        line = np.array([row.number], dtype=np.int64)
        shown = self._at_own_level(stream, [row.serial], Rows(line, None, np.empty((1, 0)), np.empty(1)))
        code, y = self._read_cells(stream if self.streams.several else self._blank, [label.y], [row.number])
        if self.binary:
            self._name_classes(code.classes)
        told = code.decode(y)[0] if self.streams.several else float(y[0])
        assert told is not None  # it is not missing
        answers = advance.learn_label(order, order, row.serial, told, LABELLED if given else OK)
        assert answers is not None  # the label was read before
        self._put_out(loaded, advance)
        self.rounds += 1
        y = np.maximum(y, 0.0) if self.binary else y
        found = [*make_rounds([row.number], y, self._name_answers(shown or answers), code.classes or (), self._show)]
        record.add_label(found[0] if found else None, told, self.streams.schema.task)
        events: list[Event] = []
        for one in found:
            loaded.recent.append(one)
            self._recent.add(one)
            if one.known:
                numbers = self.streams.schema.task == "regression"
                served = one.yhat if numbers else float(sigmoid(np.array(one.yhat)))
                events += self._watch.add_round(key, one.id, one.y, served, one.lower, one.upper)
        return events

    # ---- figures -------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Return how all keys are doing, as JSON values."""
        return {
            "target": self.target,
            "task": self.streams.schema.task,
            "key": ", ".join(self.streams.fields.key),
            "keys": self._count + self._new,
            "rounds": self.rounds,
            "loaded": len(self._loaded),
            **self._recent.summary(self.level, binary=self.binary),
        }

    def key_facts(self, key: str) -> dict[str, Any]:
        """Return how one key is doing, as JSON values."""
        if key not in self.records and self._find_stored(key) is None:
            raise InputError(f"no key {key!r:.60} has been seen")
        figures, model = self._figures(key, self.records.get(key, KeyRecord())), self._load(key).model
        self._trim()
        return {**figures, "half_life": median_half_life(model), "no_interval": model.inspect.missing_interval()}

    def worst_keys(self, count: int) -> list[dict[str, Any]]:
        """Return the keys with the largest error beside the naive guess's, the worst first; a little old if many."""
        until, found = self._worst
        if time.monotonic() >= until:
            worst = heapq.nlargest(50, self.records.items(), key=lambda item: item[1].badness)
            found = [self._figures(key, record) for key, record in worst if record.badness > 0.0]
            self._worst = time.monotonic() + min(60.0, len(self.records) / 10_000), found
        return found[:count]

    def _figures(self, key: str, record: KeyRecord) -> dict[str, Any]:
        judged = self.streams.schema.task == "regression" and record.judged
        return {
            "key": key,
            "rounds": record.rounds,
            "waiting": record.waiting,
            "relative_error": record.badness,
            **({"coverage": record.inside} if judged else {}),
        }

    def recent(self, key: str | None, count: int) -> list[Round]:
        """Return the last rounds of a key, or of all together."""
        return self._recent.last(count) if key is None else list(self._load(key).recent)[-count:]


def _check_key(name: str, cell: Cell) -> None:
    """Refuse what names no key."""
    if isinstance(cell, bool) or not isinstance(cell, (str, int)):
        raise InputError(f"every row needs its key, a text or an integer, as '{name}', got {cell!r:.60}")
    if not is_unicode(str(cell)):
        raise InputError(f"a key must be a text that can be written, got {str(cell)!r:.60}")
    if not 1 <= len(str(cell)) <= LONGEST_KEY:
        raise InputError(f"a key has 1 to {LONGEST_KEY:,} characters, got {len(str(cell)):,}")


def _join_record(order: int, record: Vector) -> Vector:
    """Return what is kept of a row that waits: its order, in two numbers that are exact, and its stream's record."""
    return np.concatenate((np.array(divmod(order, 2**32), dtype=np.float64), record))


def _split_record(row: WaitingRow) -> tuple[int, Vector]:
    """Return the order of a row that waits, and the record of its stream."""
    if len(row.record) < 3 or not np.isfinite(row.record[:2]).all():
        raise ModelFileError(f"the saved record of row {row.number} cannot be used")
    return int(row.record[0]) * 2**32 + int(row.record[1]), row.record[2:]

"""Run a fleet on one machine: records are read in batches, every key is advanced, and each batch is saved."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from undrift._internal.folder import Folder
from undrift.errors import InputError
from undrift.fleet.executor import KEYS, Executor, TaskResult, states_of
from undrift.fleet.fleet import Fleet
from undrift.fleet.state_store import JOURNAL_FILE, STORE_FILE, About, SourceProgress, StateStore, is_store
from undrift.learners import Learner
from undrift.stream.keyed.keyed_rows import KeyedRows, rebatch
from undrift.stream.keyed.keyed_streams import KeyInfo
from undrift.stream.keyed.outputs import Key, Outputs

ROWS_PER_UPDATE = 65_536
"""Records digested at a time."""


class RecordDigest:
    """A running digest over keys, orders, features and labels.

    Examples
    --------
    >>> batch = KeyedRows(["a", 1], np.arange(2), np.ones((2, 3)), np.zeros(2), np.arange(2))
    >>> whole, parts = RecordDigest(), RecordDigest()
    >>> whole.update(batch)
    >>> parts.update(batch.rows(0, 1))
    >>> parts.update(batch.rows(1, 2))
    >>> whole.value() == parts.value()
    True
    """

    def __init__(self) -> None:
        self._names, self._numbers = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)

    def update(self, batch: KeyedRows) -> None:
        """Add the records of a batch."""
        for a in range(0, len(batch), ROWS_PER_UPDATE):
            self._update(batch.rows(a, min(a + ROWS_PER_UPDATE, len(batch))))

    def _update(self, batch: KeyedRows) -> None:
        words = list(map(repr, batch.keys))
        for i, why in batch.bad.items():
            words[i] += f" {why!r}"
        for cells in (*batch.texts.values(), batch.labels or ()):
            for i, cell in enumerate(cells):
                words[i] += f" {cell!r}"
        self._names.update("".join(f"{word}\n" for word in words).encode("utf-8", "backslashreplace"))
        Z = batch.Z if batch.weight is None else np.column_stack([batch.Z, batch.weight])
        rows = np.empty((len(batch), 3 + Z.shape[1]), np.int64)  # a record's numbers side by side, to the bit
        rows[:, 0], rows[:, 1] = batch.order, batch.label_of
        rows[:, 2] = np.ascontiguousarray(batch.y).view(np.int64)
        rows[:, 3:] = np.ascontiguousarray(Z).view(np.int64)
        self._numbers.update(rows.data)

    def value(self) -> bytes:
        """Return the digest of all records so far."""
        return self._names.digest() + self._numbers.digest()


class FleetRun:
    """The result of a run: outputs, and every key's state and model.

    Examples
    --------
    >>> import undrift as ud
    >>> fleet = ud.Fleet(ud.DiscountedMean(), key="shop", features=[], target="sales")
    >>> run = fleet.run([{"shop": "a", "sales": 3.0}, {"shop": "a", "sales": "?"}])
    >>> run.keys(), [row.status for row in run.outputs]
    (['a'], ['ok', 'poison'])
    """

    def __init__(self, fleet: Fleet, states: Mapping[Key, bytes], outputs: Callable[[], Outputs]) -> None:
        self.fleet, self.states, self._outputs = fleet, states, outputs

    @property
    def outputs(self) -> Outputs:
        """What became of every record of the source."""
        return self._outputs()

    def all_outputs(self) -> Outputs:
        """Return what became of the records of every source that the folder was fed from, one after the other."""
        return Outputs.concat(self.states.outputs(None)) if isinstance(self.states, StateStore) else self.outputs

    def progress(self, source: str) -> int:
        """Return how many records of a source are behind the states of the folder."""
        return self.states.progress(source).records if isinstance(self.states, StateStore) else 0

    def keys(self) -> list[Key]:
        """Return the keys."""
        return list(self.states)

    def model(self, key: Key) -> Learner:
        """Return the model of a key, as a learner of its own."""
        return self.fleet.model(self.states[key])

    def iter_models(self, keys: Sequence[Key]) -> Iterator[tuple[Key, Learner]]:
        """Yield keys and their models, to be read at once: a model is valid only until the next one is asked for."""
        pool = self.fleet.make_pool()  # not the fleet's own, which may be in use
        for a in range(0, len(keys), KEYS):
            for key, state in states_of(self.states, keys[a : a + KEYS]).items():
                yield key, pool.acquire_model(pool.codec.unpack(state))

    def info(self, key: Key) -> KeyInfo:
        """Return what is known about a key."""
        return self.fleet.info(self.states[key])


class FleetRunner:
    """One run of a fleet over the records of a source: reads them in batches, advances every key, saves the results."""

    def __init__(
        self, fleet: Fleet, executor: Executor, records: Any, source: str, size: int, progress: Callable[[int], None]
    ) -> None:
        self.fleet, self.executor, self.records = fleet, executor, records
        self.source, self.size, self.progress = source, size, progress
        self.done, self.digest = 0, RecordDigest()

    def run_in_memory(self, states: Mapping[Key, bytes], *, finish: bool) -> FleetRun:
        """Advance every key, states and outputs in memory."""
        known = self.executor.keep_in_memory(states)
        outputs: list[Outputs] = []
        for batch in rebatch(self._read(), self.size):
            outputs += [some for _, some in self.executor.advance(known, batch)]
            self.done += len(batch)
            self.progress(self.done)
        if finish and self.fleet.wait:
            changed, released = self._release_waiting(known, list(known))
            outputs.append(released)
            known.update(changed)
        everything = Outputs.concat(outputs)
        return FleetRun(self.fleet, known, lambda: everything)

    def run_in_folder(
        self, folder: Folder, about: About, states: Mapping[Key, bytes], *, replace: bool, finish: bool
    ) -> FleetRun:
        """Advance every key, states and outputs in a folder that is locked."""
        path = folder.path / STORE_FILE
        if not folder.is_ours(STORE_FILE) and is_store(path):  # it was copied without its manifest
            folder.adopt(STORE_FILE, JOURNAL_FILE)
        folder.claim(STORE_FILE, JOURNAL_FILE)
        if replace and path.exists():
            batches = self._unlearned_batches(SourceProgress(0, b""), folder.path)
            with folder.new_file(STORE_FILE) as temporary:
                with StateStore(temporary, about) as new:
                    self._put_initial_states(new, states)
                    for batch in islice(batches, 1):
                        self._learn_and_save(new, batch)
                StateStore.discard_journal(path)  # it belongs to the file that is replaced now
            folder.delete_except(keep={STORE_FILE})
            folder.claim(STORE_FILE, JOURNAL_FILE)
            store = StateStore(path, about)
        else:
            store = StateStore(path, about)
            self._put_initial_states(store, states)
            batches = self._unlearned_batches(store.progress(self.source), folder.path)
        for batch in batches:
            self._learn_and_save(store, batch)
        if finish and self.fleet.wait:
            keys = list(store)
            for a in range(0, len(keys), KEYS):
                with store.transaction(self.source, self.done):
                    changed, outputs = self._release_waiting(store, keys[a : a + KEYS])
                    store.put(changed)
                    store.add_outputs([outputs], self.source, SourceProgress(self.done, self.digest.value()))
        return FleetRun(self.fleet, store, lambda: Outputs.concat(store.outputs(self.source)))

    def _read(self) -> Iterator[KeyedRows]:
        """Yield records as batches of any size."""
        if hasattr(self.records, "columns"):
            yield self.fleet.batch(self.records)
            return
        stream: Iterator[Any] = iter(self.records)
        first = next(stream, None)
        stream = stream if first is None else chain([first], stream)
        if isinstance(first, KeyedRows):
            yield from stream
            return
        while some := list(islice(stream, self.size)):
            yield self.fleet.batch(some)

    def _unlearned_batches(self, past: SourceProgress, where: object) -> Iterator[KeyedRows]:
        """Yield the records after the `past` ones, which must be those that were learned before."""
        stream = self._read()
        rest: list[KeyedRows] = []
        while self.done < past.records:
            batch = next(stream, None)
            if batch is None:
                break
            cut = min(len(batch), past.records - self.done)
            self.digest.update(batch.rows(0, cut))
            self.done += cut
            rest = [batch.rows(cut, len(batch))]
        if self.done < past.records or (past.records and self.digest.value() != past.digest):
            name = f" '{self.source}'" if self.source else ""
            raise InputError(
                f"{where}: the first {past.records} records of the source{name} are not the ones that were learned; "
                "name another source, or choose another folder"
            )
        yield from rebatch(chain(rest, stream), self.size)

    def _learn_and_save(self, store: StateStore, batch: KeyedRows) -> None:
        """Learn a batch and save its changes in one transaction, some keys at a time, to keep memory small."""
        with store.transaction(self.source, self.done):
            outputs: list[Outputs] = []
            for states, some in self.executor.advance(store, batch):
                store.put(states)
                outputs.append(some)
            self.digest.update(batch)
            self.done += len(batch)
            store.add_outputs(outputs, self.source, SourceProgress(self.done, self.digest.value()))
        self.progress(self.done)

    def _put_initial_states(self, store: StateStore, states: Mapping[Key, bytes]) -> None:
        """Put in the states to go on from, for keys that have none in the store."""
        if states:
            with store.transaction(self.source, store.progress(self.source).records):
                store.put(states, replace=False)

    def _release_waiting(self, known: Mapping[Key, bytes], keys: Sequence[Key]) -> TaskResult:
        """Release the records of keys that wait for those before them."""
        changed: dict[Key, bytes] = {}
        outputs: list[Outputs] = []
        for key, state in states_of(known, keys).items():
            if self.fleet.info(state).waiting:
                changed[key], released = self.fleet.finish(state, key)
                outputs.append(released)
        return changed, Outputs.concat(outputs)

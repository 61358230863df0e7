"""Run a fleet on one machine: records are read in batches, every key is advanced, and each batch is saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from undrift import _check
from undrift.errors import InputError
from undrift.fleet.executor import KEYS, Executor, TaskResult, states_of
from undrift.fleet.fleet import Fleet, KeyInfo
from undrift.fleet.model_pool import ModelPool
from undrift.fleet.outputs import Key, Outputs
from undrift.fleet.record_batch import RecordBatch, rebatch
from undrift.fleet.record_digest import RecordDigest
from undrift.fleet.state_store import JOURNAL_FILE, STORE_FILE, SourceProgress, StateStore, is_store
from undrift.folder import Folder
from undrift.learners import Learner


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

    def keys(self) -> list[Key]:
        """Return the keys."""
        return list(self.states)

    def model(self, key: Key) -> Learner:
        """Return the model of a key, as a learner of its own."""
        return self.fleet.model(self.states[key])

    def iter_models(self, keys: Sequence[Key]) -> Iterator[tuple[Key, Learner]]:
        """Yield keys and their models, to be read at once: a model is valid only until the next one is asked for."""
        pool = ModelPool(self.fleet.prototype, self.fleet.fields.features)  # not the fleet's own, which may be in use
        for a in range(0, len(keys), KEYS):
            for key, state in states_of(self.states, keys[a : a + KEYS]).items():
                yield key, pool.acquire(pool.codec.unpack(state))

    def info(self, key: Key) -> KeyInfo:
        """Return what is known about a key."""
        return self.fleet.info(self.states[key])


def run(
    fleet: Fleet,
    records: Any,
    *,
    states: Mapping[Key, bytes] | None = None,
    folder: str | os.PathLike[str] | Folder | None = None,
    source: str = "",
    about: Mapping[str, Any] | None = None,
    replace: bool = False,
    finish: bool = False,
    batch: int = 100_000,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> FleetRun:
    """Advance every key of a source.

    Parameters
    ----------
    fleet
        Columns and model.
    records
        A data frame of any library, or an iterable of mappings (or of `undrift.fleet.record_batch.RecordBatch`).
    states
        States to go on from, by key; they are not changed.
    folder
        Keep states, outputs and progress there, saved after each batch; killed at any moment, the same call goes on
        where it stopped, to the same bits. One process at a time; an `undrift.folder.Folder` is locked by the caller.
        Refused if the folder's fleet has other columns, another model or another wait, or if the records that were
        learned before are not the first ones of these.
    source
        Name of the records, when a folder is fed from several sources one after the other: progress is kept by source.
    about
        What else decides about the results, JSON values by name; kept in the folder and compared like the fleet itself.
    replace
        Begin anew in a folder that holds a fleet. It is replaced once the first batch of the new one is learned.
    finish
        Release the records that still wait after the last one: nothing before them will come any more.
    batch
        Records advanced, and saved, at a time.
    workers
        Threads, or processes for models that have no compiled rounds. The results do not depend on it.
    progress
        Called with the number of records done so far.

    Returns
    -------
    FleetRun
        With a folder, `outputs` and `states` are read from there.
    """
    _check.integer("Fleet", "batch", batch, 1)
    _check.integer("Fleet", "workers", workers, 1, 1024)
    reader = _RecordFeed(fleet, records, source, batch, progress or (lambda done: None))
    with Executor(fleet, workers) as executor:
        if folder is None:
            return _run_in_memory(fleet, reader, executor, states or {}, finish)
        compared = {**fleet.about, **(about or {})}
        if isinstance(folder, Folder):
            return _run_in_folder(fleet, reader, executor, folder, compared, states or {}, replace, finish)
        kept = Folder(folder, "fleet")
        with kept.hold_lock():
            return _run_in_folder(fleet, reader, executor, kept, compared, states or {}, replace, finish)


class _RecordFeed:
    """The records of a source, and how many of them were read."""

    def __init__(self, fleet: Fleet, records: Any, source: str, size: int, progress: Callable[[int], None]) -> None:
        self.fleet, self.records, self.source, self.size, self.progress = fleet, records, source, size, progress
        self.done, self.digest = 0, RecordDigest()

    def batches(self, past: SourceProgress, where: object) -> Iterator[RecordBatch]:
        """Yield the records after the `past` ones, which must be those that were learned before."""
        stream = _batches(self.fleet, self.records, self.size)
        rest: list[RecordBatch] = []
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

    def learn_and_save(self, store: StateStore, executor: Executor, batch: RecordBatch) -> None:
        """Learn a batch and save its changes in one transaction, some keys at a time, to keep memory small."""
        with store.transaction(self.source, self.done):
            outputs: list[Outputs] = []
            for states, some in executor.advance(store, batch):
                store.put(states)
                outputs.append(some)
            self.digest.update(batch)
            self.done += len(batch)
            store.add_outputs(outputs, self.source, SourceProgress(self.done, self.digest.value()))
        self.progress(self.done)


def _run_in_memory(
    fleet: Fleet, reader: _RecordFeed, executor: Executor, states: Mapping[Key, bytes], finish: bool
) -> FleetRun:
    """Advance every key, states and outputs in memory."""
    known = executor.keep_in_memory(states)
    outputs: list[Outputs] = []
    for batch in rebatch(_batches(fleet, reader.records, reader.size), reader.size):
        outputs += [some for _, some in executor.advance(known, batch)]
        reader.done += len(batch)
        reader.progress(reader.done)
    if finish and fleet.wait:
        changed, released = _release_waiting(fleet, known, list(known))
        outputs.append(released)
        known.update(changed)
    everything = Outputs.concat(outputs)
    return FleetRun(fleet, known, lambda: everything)


def _run_in_folder(
    fleet: Fleet,
    reader: _RecordFeed,
    executor: Executor,
    folder: Folder,
    about: Mapping[str, Any],
    states: Mapping[Key, bytes],
    replace: bool,
    finish: bool,
) -> FleetRun:
    """Advance every key, states and outputs in a folder that is locked."""
    path = folder.path / STORE_FILE
    if not folder.is_ours(STORE_FILE) and is_store(path):  # it was copied without its manifest
        folder.adopt(STORE_FILE, JOURNAL_FILE)
    folder.claim(STORE_FILE, JOURNAL_FILE)
    if replace and path.exists():
        batches = reader.batches(SourceProgress(0, b""), folder.path)
        with folder.new_file(STORE_FILE) as temporary:
            with StateStore(temporary, about) as new:
                _put_initial_states(new, reader.source, states)
                for batch in islice(batches, 1):
                    reader.learn_and_save(new, executor, batch)
            StateStore.discard_journal(path)  # it belongs to the file that is replaced now
        folder.delete_except(keep={STORE_FILE})
        folder.claim(STORE_FILE, JOURNAL_FILE)
        store = StateStore(path, about)
    else:
        store = StateStore(path, about)
        _put_initial_states(store, reader.source, states)
        batches = reader.batches(store.progress(reader.source), folder.path)
    for batch in batches:
        reader.learn_and_save(store, executor, batch)
    if finish and fleet.wait:
        keys = list(store)
        for a in range(0, len(keys), KEYS):
            with store.transaction(reader.source, reader.done):
                changed, outputs = _release_waiting(fleet, store, keys[a : a + KEYS])
                store.put(changed)
                store.add_outputs([outputs], reader.source, SourceProgress(reader.done, reader.digest.value()))
    return FleetRun(fleet, store, lambda: Outputs.concat(store.outputs(reader.source)))


def _put_initial_states(store: StateStore, source: str, states: Mapping[Key, bytes]) -> None:
    """Put in the states to go on from, for keys that have none in the store."""
    if states:
        with store.transaction(source, store.progress(source).records):
            store.put(states, replace=False)


def _release_waiting(fleet: Fleet, known: Mapping[Key, bytes], keys: Sequence[Key]) -> TaskResult:
    """Release the records of keys that wait for those before them."""
    changed: dict[Key, bytes] = {}
    outputs: list[Outputs] = []
    for key, state in states_of(known, keys).items():
        if fleet.info(state).waiting:
            changed[key], released = fleet.finish(state, key)
            outputs.append(released)
    return changed, Outputs.concat(outputs)


def _batches(fleet: Fleet, records: Any, size: int) -> Iterator[RecordBatch]:
    """Yield records as batches of any size."""
    if hasattr(records, "columns"):
        yield fleet.batch(records)
        return
    stream: Iterator[Any] = iter(records)
    first = next(stream, None)
    if isinstance(first, RecordBatch):
        yield first
        yield from stream
        return
    stream = stream if first is None else chain([first], stream)
    while some := list(islice(stream, size)):
        yield fleet.batch(some)

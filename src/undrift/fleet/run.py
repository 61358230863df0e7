"""A fleet on one machine: batches in, every key advanced, saved as it goes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice
from typing import Any

from undrift import _check
from undrift.errors import InputError
from undrift.fleet.batch import Batch, recut
from undrift.fleet.bench import Bench
from undrift.fleet.fleet import Fleet, Info
from undrift.fleet.outputs import Key, Outputs, Said
from undrift.fleet.place import fits, is_compiled
from undrift.fleet.record_digest import RecordDigest
from undrift.fleet.state_store import FILE, JOURNAL, SourceProgress, StateStore, is_store
from undrift.fleet.table import Table
from undrift.folder import Folder
from undrift.learners import Learner

KEYS, ROOM = 1024, 2**26
"""Keys of a batch that are advanced at a time, fewer where a table of them would take more bytes than this."""
Share = tuple[dict[Key, bytes], Batch]
"""States, and records of those keys and of new ones."""
Change = tuple[dict[Key, bytes], Outputs]
"""New states, and what was said about the records."""


class FleetRun:
    """What a run left behind: outputs, and every key's state and model.

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

    def each(self, keys: Sequence[Key]) -> Iterator[tuple[Key, Learner]]:
        """Yield keys and their models to look at, quickly: each is valid only until the next."""
        bench = Bench(self.fleet.prototype, self.fleet.fields.features)  # of our own: the models are lent
        for a in range(0, len(keys), KEYS):
            for key, state in _some(self.states, keys[a : a + KEYS]).items():
                yield key, bench.borrow(bench.form.unpack(state))

    def info(self, key: Key) -> Info:
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
        A data frame of any library, or an iterable of mappings (or of `undrift.fleet.batch.Batch`).
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
    feed = _Feed(fleet, records, source, batch, progress or (lambda done: None))
    with _crew(fleet, workers) as crew:
        if folder is None:
            return _in_memory(fleet, feed, crew, states or {}, finish)
        words = {**fleet.about, **(about or {})}
        if isinstance(folder, Folder):
            return _in_folder(fleet, feed, crew, folder, words, states or {}, replace, finish)
        place = Folder(folder, "fleet")
        with place.locked():
            return _in_folder(fleet, feed, crew, place, words, states or {}, replace, finish)


class _Feed:
    """The records of a source on their way to the models."""

    def __init__(self, fleet: Fleet, records: Any, source: str, size: int, progress: Callable[[int], None]) -> None:
        self.fleet, self.records, self.source, self.size, self.progress = fleet, records, source, size, progress
        self.done, self.digest = 0, RecordDigest()

    def batches(self, past: SourceProgress, where: object) -> Iterator[Batch]:
        """Yield the records after those of the past, which must be the ones that were learned."""
        stream = _batches(self.fleet, self.records, self.size)
        rest: list[Batch] = []
        while self.done < past.records:
            batch = next(stream, None)
            if batch is None:
                break
            cut = min(len(batch), past.records - self.done)
            self.digest.update(batch.part(0, cut))
            self.done += cut
            rest = [batch.part(cut, len(batch))]
        if self.done < past.records or (past.records and self.digest.value() != past.digest):
            name = f" '{self.source}'" if self.source else ""
            raise InputError(
                f"{where}: the first {past.records} records of the source{name} are not the ones that were learned; "
                "name another source, or choose another folder"
            )
        yield from recut(chain(rest, stream), self.size)

    def keep(self, store: StateStore, crew: _crew, batch: Batch) -> None:
        """Learn a batch and save everything it changed, some keys at a time, so that memory need not hold them all."""
        with store.change(self.source, self.done):
            said: list[Outputs] = []
            for states, outputs in crew.advance(store, batch):
                store.put(states)
                said.append(outputs)
            self.digest.update(batch)
            self.done += len(batch)
            store.note(said, self.source, SourceProgress(self.done, self.digest.value()))
        self.progress(self.done)


def _in_memory(fleet: Fleet, feed: _Feed, crew: _crew, states: Mapping[Key, bytes], finish: bool) -> FleetRun:
    """Advance every key, states and outputs in memory."""
    known = crew.memory(states)
    said: list[Outputs] = []
    for batch in recut(_batches(fleet, feed.records, feed.size), feed.size):
        said += [outputs for _, outputs in crew.advance(known, batch)]
        feed.done += len(batch)
        feed.progress(feed.done)
    if finish and fleet.wait:
        changed, outputs = _release(fleet, known, list(known))
        said.append(outputs)
        for key, state in changed.items():
            known.put(key, state) if isinstance(known, Table) else known.update({key: state})
    everything = Outputs.joined(said)
    return FleetRun(fleet, known, lambda: everything)


def _in_folder(
    fleet: Fleet,
    feed: _Feed,
    crew: _crew,
    place: Folder,
    about: Mapping[str, Any],
    states: Mapping[Key, bytes],
    replace: bool,
    finish: bool,
) -> FleetRun:
    """Advance every key, states and outputs in a folder that is locked."""
    path = place.path / FILE
    if not place.is_ours(FILE) and is_store(path):  # a copy without its manifest
        place.adopt(FILE, JOURNAL)
    place.claim(FILE, JOURNAL)
    if replace and path.exists():
        batches = feed.batches(SourceProgress(0, b""), place.path)
        with place.new(FILE) as temporary:
            with StateStore(temporary, about) as new:
                _begin(new, feed.source, states)
                for batch in islice(batches, 1):
                    feed.keep(new, crew, batch)
            StateStore.discard_journal(path)  # it belongs to the file that is replaced now
        place.sweep(keep={FILE})
        place.claim(FILE, JOURNAL)
        store = StateStore(path, about)
    else:
        store = StateStore(path, about)
        _begin(store, feed.source, states)
        batches = feed.batches(store.progress(feed.source), place.path)
    for batch in batches:
        feed.keep(store, crew, batch)
    if finish and fleet.wait:
        keys = list(store)
        for a in range(0, len(keys), KEYS):
            with store.change(feed.source, feed.done):
                changed, outputs = _release(fleet, store, keys[a : a + KEYS])
                store.put(changed)
                store.note([outputs], feed.source, SourceProgress(feed.done, feed.digest.value()))
    return FleetRun(fleet, store, lambda: Outputs.joined(store.outputs(feed.source)))


def _begin(store: StateStore, source: str, states: Mapping[Key, bytes]) -> None:
    """Put in states to go on from, for keys that have none."""
    if states:
        with store.change(source, store.progress(source).records):
            store.put(states, replace=False)


def _release(fleet: Fleet, known: Mapping[Key, bytes], keys: Sequence[Key]) -> Change:
    """Release the records that wait."""
    changed: dict[Key, bytes] = {}
    said: list[Outputs] = []
    for key, state in _some(known, keys).items():
        if fleet.info(state).waiting:
            changed[key], outputs = fleet.finish(state, key)
            said.append(outputs)
    return changed, Outputs.joined(said)


def _batches(fleet: Fleet, records: Any, size: int) -> Iterator[Batch]:
    """Yield records as batches of any size."""
    if hasattr(records, "columns"):
        yield fleet.batch(records)
        return
    stream: Iterator[Any] = iter(records)
    first = next(stream, None)
    if isinstance(first, Batch):
        yield first
        yield from stream
        return
    stream = stream if first is None else chain([first], stream)
    while some := list(islice(stream, size)):
        yield fleet.batch(some)


def _shares(part: Batch, size: int) -> Iterator[Batch]:
    """Cut a batch by keys, `size` of them at a time, in order of appearance."""
    groups: defaultdict[Key, list[int]] = defaultdict(list)
    for i, key in enumerate(part.keys):
        groups[key].append(i)
    rows = iter(groups.values())
    while some := list(islice(rows, size)):
        yield part.take(sorted(chain.from_iterable(some)) if len(some) < len(groups) else range(len(part)))


def _advance(fleet: Fleet, share: Share, threads: int = 1) -> Change:
    """Advance the keys of a batch: in a table if the model can live in one, else one after the other."""
    known, part = share
    if fits(fleet.prototype):
        table = Table(fleet)
        table.find(list(known))
        for key, state in known.items():
            table.put(key, state)
        outputs = table.advance(part, threads)
        return dict(table), outputs
    states: dict[Key, bytes] = {}
    said: list[Said] = []
    for one in _shares(part, 1):
        key = one.keys[0]
        states[key], rows = fleet.advance_rows(known.get(key), one)
        said += rows
    states.pop(None, None)
    return states, Outputs.of(said)


_fleet: Fleet | None = None


def _enter(fleet: Fleet) -> None:
    global _fleet
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the first process ends the others
    _fleet = fleet


def _advance_there(share: Share) -> Change:
    if _fleet is None:
        raise RuntimeError("Fleet: a worker was started without its fleet")
    return _advance(_fleet, share)


class _crew:
    """Who does the work: threads if the model's rounds are compiled, else this process or some others."""

    def __init__(self, fleet: Fleet, workers: int) -> None:
        self.fleet, self.workers, self.pool = fleet, workers, None
        self.compiled = is_compiled(fleet.prototype)
        size = 8 * Table(fleet).place.size if fits(fleet.prototype) else 1
        self.keys = max(1, min(KEYS, ROOM // size))
        if workers > 1 and not self.compiled:
            start = multiprocessing.get_context("spawn")
            self.pool = ProcessPoolExecutor(workers, start, initializer=_enter, initargs=(fleet,))

    def __enter__(self) -> _crew:
        return self

    def __exit__(self, *error: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def memory(self, states: Mapping[Key, bytes]) -> Table | dict[Key, bytes]:
        """Return a place for states, with some to begin with: a table, if it takes no more room than they do."""
        if not self.compiled:
            return dict(states)
        table = Table(self.fleet)
        for key, state in states.items():
            table.put(key, state)
        return table

    def advance(self, known: Mapping[Key, bytes], part: Batch) -> Iterator[Change]:
        """Advance the keys of a batch, some at a time; states in memory are changed in place too."""
        if isinstance(known, Table):
            yield {}, known.advance(part, self.workers)
            return
        shares = ((_some(known, list(dict.fromkeys(one.keys))), one) for one in _shares(part, self.keys))
        while some := list(islice(shares, 1 if self.pool is None else 2 * self.workers)):
            if self.pool is None:
                changes: Iterable[Change] = [_advance(self.fleet, share, self.workers) for share in some]
            else:
                changes = self.pool.map(_advance_there, some)
            for changed, outputs in changes:
                if isinstance(known, dict):
                    known.update(changed)
                yield changed, outputs


def _some(known: Mapping[Key, bytes], keys: Sequence[Key]) -> dict[Key, bytes]:
    """Return the states of keys that have one."""
    return known.some(keys) if isinstance(known, StateStore) else {key: known[key] for key in keys if key in known}

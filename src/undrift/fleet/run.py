"""A fleet on one machine: batches in, every key advanced, saved as it goes."""

from __future__ import annotations

import multiprocessing
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice
from typing import Any

from undrift import _check
from undrift.fleet.batch import Batch, recut
from undrift.fleet.fleet import Fleet, Info
from undrift.fleet.outputs import Key, Outputs, Said
from undrift.fleet.place import fits, is_compiled
from undrift.fleet.shelf import Shelf
from undrift.fleet.table import Table
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
        bench = self.fleet.bench
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
    folder: str | os.PathLike[str] | None = None,
    source: str = "",
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
        where it stopped, to the same bits.
    source
        Name of the records, when a folder is fed from several sources one after the other: progress is kept by source.
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
    shelf = None if folder is None else Shelf(folder, fleet.bench.fingerprint)
    if shelf is not None and states:
        new = {key: state for key, state in states.items() if key not in shelf}
        with shelf.change():
            shelf.put(new)
    said: list[Outputs] = []
    done = skip = 0 if shelf is None else shelf.seen(source)
    with _crew(fleet, workers) as crew:
        known = shelf if shelf is not None else crew.memory(states or {})
        for part in _parts(fleet, records, batch, skip):
            done += len(part)
            if shelf is None:
                said += [outputs for _, outputs in crew.advance(known, part)]
            else:
                _kept(shelf, crew.advance(known, part), source, done)
            if progress is not None:
                progress(done)
    if shelf is None:
        everything = Outputs.joined(said)
        return FleetRun(fleet, known, lambda: everything)
    return FleetRun(fleet, shelf, lambda: Outputs.joined(shelf.outputs(source)))


def _kept(shelf: Shelf, changes: Iterable[Change], source: str, done: int) -> None:
    """Put everything a batch changed on the shelf, some keys at a time, so that they need not all be in memory."""
    said: list[Outputs] = []
    with shelf.change():
        for states, outputs in changes:
            shelf.put(states)
            said.append(outputs)
        shelf.note(Outputs.joined(said), source, done)


def _parts(fleet: Fleet, records: Any, size: int, skip: int) -> Iterator[Batch]:
    """Yield the records after the first `skip`, `size` at a time."""
    if hasattr(records, "columns"):
        whole = fleet.batch(records)
        for a in range(skip, len(whole), size):
            yield whole.take(range(a, min(a + size, len(whole)))) if a or size < len(whole) else whole
        return
    stream: Iterator[Any] = iter(records)
    first = next(stream, None)
    if isinstance(first, Batch):
        yield from recut(chain([first], stream), size, skip)
        return
    stream = islice(stream if first is None else chain([first], stream), skip, None)
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

    def memory(self, states: Mapping[Key, bytes]) -> Mapping[Key, bytes]:
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
    return known.some(keys) if isinstance(known, Shelf) else {key: known[key] for key in keys if key in known}

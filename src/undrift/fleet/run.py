"""A fleet on one machine: batches in, every key advanced, saved as it goes."""

from __future__ import annotations

import multiprocessing
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Any

from undrift import _check
from undrift.fleet.batch import Batch
from undrift.fleet.fleet import Fleet, Info
from undrift.fleet.outputs import Key, Outputs
from undrift.fleet.shelf import Shelf
from undrift.fleet.table import Table, fits
from undrift.learners import Learner

Item = tuple[Key, bytes | None, Batch]


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
        A data frame of any library, or an iterable of mappings.
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
        shelf.commit(new, Outputs.empty(), source, shelf.seen(source))
    said: list[Outputs] = []
    done = skip = 0 if shelf is None else shelf.seen(source)
    with _crew(fleet, workers) as crew:
        known = shelf if shelf is not None else crew.memory(states or {})
        for part in _parts(fleet, records, batch, skip):
            changed, outputs = crew.advance(known, part)
            done += len(part)
            if shelf is None:
                said.append(outputs)
            else:
                shelf.commit(changed, outputs, source, done)
            if progress is not None:
                progress(done)
    if shelf is None:
        everything = Outputs.joined(said)
        return FleetRun(fleet, known, lambda: everything)
    return FleetRun(fleet, shelf, lambda: Outputs.joined(shelf.outputs(source)))


def _parts(fleet: Fleet, records: Any, size: int, skip: int) -> Iterator[Batch]:
    """Yield the records after the first `skip`, `size` at a time."""
    if hasattr(records, "columns"):
        whole = fleet.batch(records)
        for a in range(skip, len(whole), size):
            yield whole.take(range(a, min(a + size, len(whole)))) if a or size < len(whole) else whole
        return
    stream: Iterator[Mapping[str, Any]] = iter(records)
    for _ in islice(stream, skip):
        pass
    while some := list(islice(stream, size)):
        yield fleet.batch(some)


def _grouped(part: Batch) -> dict[Key, list[int]]:
    """Row numbers by key, keys in order of appearance."""
    groups: defaultdict[Key, list[int]] = defaultdict(list)
    for i, key in enumerate(part.keys):
        groups[key].append(i)
    return groups


def _advance(fleet: Fleet, items: Iterable[Item]) -> list[tuple[Key, bytes, Outputs]]:
    return [(key, *fleet.advance(state, part)) for key, state, part in items]


_fleet: Fleet | None = None


def _enter(fleet: Fleet) -> None:
    global _fleet
    _fleet = fleet


def _advance_there(items: list[Item]) -> list[tuple[Key, bytes, Outputs]]:
    if _fleet is None:
        raise RuntimeError("Fleet: a worker was started without its fleet")
    return _advance(_fleet, items)


class _crew:
    """Who does the work: one table if the model can live in one, else this process or some others."""

    def __init__(self, fleet: Fleet, workers: int) -> None:
        self.fleet, self.workers, self.pool = fleet, workers, None
        self.compiled = fits(fleet.prototype)
        if workers > 1 and not self.compiled:
            start = multiprocessing.get_context("spawn")
            self.pool = ProcessPoolExecutor(workers, start, initializer=_enter, initargs=(fleet,))

    def __enter__(self) -> _crew:
        return self

    def __exit__(self, *error: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def memory(self, states: Mapping[Key, bytes]) -> Mapping[Key, bytes]:
        """Return a place for states, with some to begin with."""
        if not self.compiled:
            return dict(states)
        table = Table(self.fleet)
        for key, state in states.items():
            table.put(key, state)
        return table

    def advance(self, known: Mapping[Key, bytes], part: Batch) -> tuple[dict[Key, bytes], Outputs]:
        """Advance the keys of a batch; states in memory are changed in place, others are returned."""
        if isinstance(known, Table):
            return {}, known.advance(part, self.workers)
        groups = _grouped(part)
        if self.compiled:
            table = self.memory({key: known[key] for key in groups if key in known})
            _, outputs = self.advance(table, part)
            return dict(table), outputs
        items = [(key, known.get(key), part.take(rows)) for key, rows in groups.items()]
        shares: list[list[Item]] = [[] for _ in range(1 if self.pool is None else self.workers * 4)]
        for item in items:
            shares[zlib.crc32(repr(item[0]).encode()) % len(shares)].append(item)
        found = {key: (state, said) for key, state, said in self._do([share for share in shares if share])}
        changed = {key: found[key][0] for key in groups if key is not None}
        if isinstance(known, dict):
            known.update(changed)
        return changed, Outputs.joined(found[key][1] for key in groups)

    def _do(self, shares: list[list[Item]]) -> Iterator[tuple[Key, bytes, Outputs]]:
        done = (_advance(self.fleet, share) for share in shares)
        for share in done if self.pool is None else self.pool.map(_advance_there, shares):
            yield from share

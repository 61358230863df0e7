"""Executor: advances the keys of a batch, on threads if the model's rounds are compiled, else in processes."""

from __future__ import annotations

import multiprocessing
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice

from undrift.fleet.fleet import Fleet
from undrift.fleet.state_store import StateStore
from undrift.stream.keyed.keyed_rows import KeyedRows
from undrift.stream.keyed.outputs import Key, OutputRow, Outputs
from undrift.stream.keyed.slots import SlotStore, fits_in_slots, has_compiled_rounds

KEYS, MAX_BYTES = 1024, 2**26
"""Keys of a batch that are advanced at a time, fewer where a slot store of them would take more bytes than this."""
Task = tuple[dict[Key, bytes], KeyedRows]
"""States of keys, and records of those keys and of new ones."""
TaskResult = tuple[dict[Key, bytes], Outputs]
"""New states, and the outputs for the records."""


class Executor:
    """Advances batches with `workers` threads or processes; the results do not depend on which, nor on how many."""

    def __init__(self, fleet: Fleet, workers: int) -> None:
        self.fleet, self.workers, self.processes = fleet, workers, None
        self.compiled = has_compiled_rounds(fleet.prototype) and not fleet.one_by_one
        size = 8 * SlotStore(fleet).layout.size if _uses_slots(fleet) else 1
        self.keys = max(1, min(KEYS, MAX_BYTES // size))
        if workers > 1 and not self.compiled:
            spawn = multiprocessing.get_context("spawn")
            self.processes = ProcessPoolExecutor(workers, spawn, initializer=_start_worker, initargs=(fleet,))

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *error: object) -> None:
        if self.processes is not None:
            self.processes.shutdown(cancel_futures=True)

    def keep_in_memory(self, states: Mapping[Key, bytes]) -> SlotStore | dict[Key, bytes]:
        """Return states in memory: in slots if the model's rounds are compiled, else as bytes, which are smaller."""
        if not self.compiled:
            return dict(states)
        store = SlotStore(self.fleet)
        store.update(states)
        return store

    def advance(self, known: Mapping[Key, bytes], batch: KeyedRows) -> Iterator[TaskResult]:
        """Advance the keys of a batch, some at a time; states in memory are changed in place too."""
        if isinstance(known, SlotStore):
            yield {}, known.advance(batch, self.workers)
            return
        parts = split_by_key(batch, self.keys)
        tasks = ((states_of(known, list(dict.fromkeys(part.keys))), part) for part in parts)
        while some := list(islice(tasks, 1 if self.processes is None else 2 * self.workers)):
            if self.processes is None:
                results: Iterable[TaskResult] = [_run_task(self.fleet, task, self.workers) for task in some]
            else:
                results = self.processes.map(_run_in_worker, some)
            for states, outputs in results:
                if isinstance(known, dict):
                    known.update(states)
                yield states, outputs


def states_of(known: Mapping[Key, bytes], keys: Sequence[Key]) -> dict[Key, bytes]:
    """Return the states of those keys that have one."""
    return known.get_many(keys) if isinstance(known, StateStore) else {key: known[key] for key in keys if key in known}


def split_by_key(batch: KeyedRows, size: int) -> Iterator[KeyedRows]:
    """Yield the rows of `size` keys at a time, keys in order of appearance."""
    groups: defaultdict[Key, list[int]] = defaultdict(list)
    for i, key in enumerate(batch.keys):
        groups[key].append(i)
    rows = iter(groups.values())
    while some := list(islice(rows, size)):
        yield batch.take(sorted(chain.from_iterable(some)) if len(some) < len(groups) else range(len(batch)))


def _uses_slots(fleet: Fleet) -> bool:
    """Whether keys are advanced in slots: their models fit there, and every label is learned with its row alone."""
    return not fleet.one_by_one and fits_in_slots(fleet.prototype)


def _run_task(fleet: Fleet, task: Task, threads: int = 1) -> TaskResult:
    """Advance the keys of a task: in a slot store if the model fits there, else one after the other."""
    known, batch = task
    if _uses_slots(fleet):
        store = SlotStore(fleet)
        store.update(known)
        outputs = store.advance(batch, threads)
        return dict(store), outputs
    states: dict[Key, bytes] = {}
    rows: list[OutputRow] = []
    for part in split_by_key(batch, 1):
        key = part.keys[0]
        states[key], some = fleet.advance_rows(known.get(key), part)
        rows += some
    states.pop(None, None)
    return states, Outputs.from_rows(rows)


_worker_fleet: Fleet | None = None  # set once in each worker process


def _start_worker(fleet: Fleet) -> None:
    global _worker_fleet
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the first process ends the others
    _worker_fleet = fleet


def _run_in_worker(task: Task) -> TaskResult:
    if _worker_fleet is None:
        raise RuntimeError("Fleet: a worker was started without its fleet")
    return _run_task(_worker_fleet, task)

"""What a fleet costs on one machine: nanoseconds of CPU per key-round, kernel alone and from data frame to outputs.

    python -m benchmarks fleet [--keys 100000] [--rounds 16] [--json FILE]

1e5 keys, 8 features, an ensemble of 12 memories, one thread. Four things take turns, once a round each:

- together: every key has one record, keys in order;
- arbitrary: as many records of keys drawn at random;
- in cache: as many records of 20 keys in turn, so that states never come from memory;
- floor: all states read from memory and written back, nothing else: what `together` cannot be faster than.

CPU time of this process; median, least and most over rounds. Then whole runs from a data frame to outputs, three of
each: every key ticks, keys at random, and keys at random whose order column is times.
"""

import argparse
import json
import mmap
import platform
import time

import numpy as np
import polars as pl

import undrift as ud
from undrift import kernels
from undrift.kernels import _native
from undrift.stream.keyed.slots import SlotStore

DIM, MEMBERS = 8, 12
FEATURES = [f"x{j}" for j in range(DIM)]
CACHED = 20


def model():
    return ud.Ensemble([ud.DiscountedVAW(half_life=h) for h in np.geomspace(4.0, 4000.0, MEMBERS).tolist()])


def fleet_of(**more):
    return ud.Fleet(model(), key="key", features=FEATURES, target="y", **more)


def store_of(keys):
    store = SlotStore(fleet_of())
    store.find(list(range(keys)))
    return store


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


def seconds(work, *given):
    began = time.process_time()
    work(*given)
    return time.process_time() - began


def kernel(keys, rounds):
    """Time the compiled call and the memory beneath it, in turn; nanoseconds by name, the slot store, what it takes."""
    rng = np.random.default_rng(0)
    few, before = store_of(CACHED), resident()
    store = store_of(keys)
    taken = (resident() - before) / keys
    flat, yhat = store.states.reshape(-1), np.empty(keys)
    times = {"together": [], "arbitrary": [], "in cache": [], "floor": []}

    def play(which, slots, Z, y):
        assert which.layout.round.play_keys(which.states, which.rounds, slots, Z, y, yhat, 1) == 0

    for turn in range(rounds + 1):
        Z = rng.normal(size=(keys, DIM))
        y = Z[:, 0] + rng.normal(size=keys)
        took = {
            "together": seconds(play, store, np.arange(keys), Z, y),
            "arbitrary": seconds(play, store, rng.integers(0, keys, keys), Z, y),
            "in cache": seconds(play, few, np.arange(keys) % CACHED, Z, y),
            "floor": seconds(_native.stream, flat, 1),
        }
        if turn:  # the first touches fresh pages
            for name, one in took.items():
                times[name].append(one / keys * 1e9)
    return times, store, taken


def whole(keys, rounds, together, timed=False):
    """Time `Fleet.run` from a data frame to outputs, checks, orders and duplicates included, three times."""
    rng = np.random.default_rng(0)
    fleet = fleet_of(order="n", numbered=not timed)
    at = [np.arange(keys) if together else rng.integers(0, keys, keys) for _ in range(rounds)]
    key = np.concatenate(at)
    Z = rng.normal(size=(len(key), DIM))
    frame = pl.DataFrame({"key": key, **{name: Z[:, j] for j, name in enumerate(FEATURES)}, "y": Z[:, 0]})
    if timed:
        seconds_apart = pl.Series(np.cumsum(rng.exponential(size=len(key))) * 1e6).cast(pl.Int64)
        frame = frame.with_columns(n=seconds_apart.cast(pl.Datetime("us")))
    else:
        frame = frame.with_columns(n=pl.int_range(pl.len()).over("key"))
    times = []
    for _ in range(3):
        began = time.process_time()
        run = fleet.run(frame, batch=keys)
        times.append((time.process_time() - began) / len(key) * 1e9)
        assert run.outputs.count() == {"ok": len(key)}
        del run
    return times


def plain(records=2000):
    """Time a Python loop of predict and learn over models in a dictionary."""
    rng = np.random.default_rng(0)
    models = {k: model() for k in range(20)}
    Z, keys = rng.normal(size=(records, DIM)), rng.integers(0, 20, records).tolist()
    began = time.process_time()
    for z, k in zip(Z, keys, strict=True):
        models[k].predict(z)
        models[k].learn(z, float(z[0]))
    return (time.process_time() - began) / records * 1e9


def shown(name, ns):
    """Print a line and return what it says."""
    said = {"median_ns": float(np.median(ns)), "low_ns": min(ns), "high_ns": max(ns)}
    print(f"{name:30}", *(f"{value:7.0f}" for value in said.values()))
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--json")
    options = parser.parse_args()
    found = {"keys": options.keys, "level": kernels.level(), "machine": platform.processor() or platform.machine()}
    times, store, found["bytes_per_key_in_memory"] = kernel(options.keys, options.rounds)
    print(f"{'ns a key-round':30} {'median':>7} {'least':>7} {'most':>7}")
    for name, ns in times.items():
        found[name] = shown(name, ns)
    moved = 2 * store.layout.size * 8
    found["bytes_moved_per_key_round"] = moved
    found["GB_per_second"] = moved / found["floor"]["median_ns"]
    print(f"the floor moves {moved} bytes a key-round, {found['GB_per_second']:.1f} GB/s")
    found["bytes_per_slot"] = store.layout.size * 8
    found["bytes_per_key_packed"] = len(store[0])
    del store
    few = min(options.keys, 50_000)
    for name, how in {"together": (True, False), "arbitrary": (False, False), "times": (False, True)}.items():
        found[f"{name}, frame to outputs"] = shown(f"{name}, frame to outputs", whole(few, 4, *how))
    found["python loop"] = shown("Python loop, predict and learn", [plain() for _ in range(3)])
    taken, slot, saved = (found[f"bytes_per_{name}"] for name in ("key_in_memory", "slot", "key_packed"))
    print(f"a key takes {taken:.0f} bytes of resident memory, {slot} of them its slot, and {saved} saved")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()

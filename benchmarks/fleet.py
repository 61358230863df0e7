"""What a fleet costs on one machine: nanoseconds of CPU per key-round, kernel alone and from data frame to outputs.

    python benchmarks/fleet.py [--keys 100000] [--rounds 8] [--json FILE]

1e5 keys, 8 features, an ensemble of 12 memories. "together": every key has one record a round, keys in order;
"arbitrary": records of keys drawn at random. The kernel is timed as CPU of this process, one thread; median and range
over rounds.
"""

import argparse
import json
import platform
import time

import numpy as np
import polars as pl

import undrift as ud
from undrift import kernels
from undrift.fleet.table import Table

DIM, MEMBERS = 8, 12
FEATURES = [f"x{j}" for j in range(DIM)]


def model():
    return ud.Ensemble([ud.DiscountedVAW(half_life=h) for h in np.geomspace(4.0, 4000.0, MEMBERS).tolist()])


def fleet_of(**more):
    return ud.Fleet(model(), key="key", features=FEATURES, target="y", **more)


def spread(times, records):
    ns = np.array(times) / records * 1e9
    return {"median_ns": float(np.median(ns)), "low_ns": float(ns.min()), "high_ns": float(ns.max())}


def kernel(keys, rounds, together, threads=1):
    """Time the compiled call alone, states already in memory."""
    rng = np.random.default_rng(0)
    table = Table(fleet_of())
    table.find(list(range(keys)))
    times = []
    for _ in range(rounds + 1):  # the first touches fresh pages and is dropped
        slots = np.arange(keys) if together else rng.integers(0, keys, keys)
        Z = rng.normal(size=(keys, DIM))
        y, yhat = Z[:, 0] + rng.normal(size=keys), np.empty(keys)
        clock = time.process_time if threads == 1 else time.perf_counter
        began = clock()
        assert table.place.round.play_keys(table.states, table.rounds, slots, Z, y, yhat, threads) == 0
        times.append(clock() - began)
    return spread(times[1:], keys), table


def whole(keys, rounds, together):
    """Time `Fleet.run` from a data frame to outputs, checks, orders and duplicates included."""
    rng = np.random.default_rng(0)
    fleet = fleet_of(order="n")
    at = [np.arange(keys) if together else rng.integers(0, keys, keys) for _ in range(rounds)]
    key = np.concatenate(at)
    Z = rng.normal(size=(len(key), DIM))
    frame = pl.DataFrame({"key": key, **{name: Z[:, j] for j, name in enumerate(FEATURES)}, "y": Z[:, 0]})
    frame = frame.with_columns(n=pl.int_range(pl.len()).over("key"))
    began = time.process_time()
    run = fleet.run(frame, batch=keys)
    seconds = time.process_time() - began
    assert run.outputs.count() == {"ok": len(key)}
    return seconds / len(key) * 1e9


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json")
    options = parser.parse_args()
    found = {"keys": options.keys, "level": kernels.LEVEL, "machine": platform.processor() or platform.machine()}
    for name, together in (("together", True), ("arbitrary", False)):
        found[name], table = kernel(options.keys, options.rounds, together)
        found["bytes_per_key_in_memory"] = table.place.size * 8 + sum(
            one.itemsize for one in (table.rounds, table.next, table.start, table.learned, table.loss, table.busy)
        )
        found["bytes_per_key_packed"] = len(table[0])
        del table
        found[f"{name}, frame to outputs, ns"] = whole(min(options.keys, 50_000), 4, together)
        print(f"{name:10} kernel {found[name]['median_ns']:6.0f} ns a key-round "
              f"({found[name]['low_ns']:.0f}..{found[name]['high_ns']:.0f}), "
              f"frame to outputs {found[f'{name}, frame to outputs, ns']:.0f} ns")  # fmt: skip
    found["python loop, ns"] = plain()
    print(f"a Python loop of predict and learn: {found['python loop, ns']:.0f} ns a key-round")
    print(f"a key takes {found['bytes_per_key_in_memory']} bytes in memory, {found['bytes_per_key_packed']} packed")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()

"""What `undrift fleet` costs with many young keys: CPU for a record with everything, peak memory, what is written.

    python -m benchmarks fleet_command [--keys 100000] [--json FILE]

Files of 8 features: rows of all keys shuffled, or every key's first row, then every key's second, and so on. The
command runs as a process of its own, report and all; its start is included. Beside it, a Python loop that gives each of
some keys an estimator of its own and plays that key's rows in one call; its predictions must be those in
predictions.csv, to the bit.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import undrift as ud
from undrift.losses import sigmoid

DIM = 8
FEATURES = [f"x{j}" for j in range(DIM)]
SAMPLE = 400
"""Keys of the loop."""
CASES = (
    ("csv", "regression", 5, "shuffled"),
    ("parquet", "regression", 5, "shuffled"),
    ("parquet", "regression", 20, "in turn"),
    ("parquet", "classification", 5, "shuffled"),
)
COMMAND = [sys.executable, "-c", "from undrift.cli import main; main()"]


def frame_of(keys, rows, task, order):
    rng = np.random.default_rng(0)
    key = np.tile(np.arange(keys), rows)
    if order == "shuffled":
        rng.shuffle(key)
    Z = rng.normal(size=(len(key), DIM))
    y = 2.0 * Z[:, 0] + key / keys + rng.normal(size=len(key))
    y = (y > 0.5).astype(float) if task == "classification" else y
    columns = {name: Z[:, j] for j, name in enumerate(FEATURES)}
    return pl.DataFrame({"key": key, **columns, "y": y}).with_columns(key=pl.format("k{}", "key"))


def command(file, folder):
    """Run the command; return CPU seconds, wall seconds and peak memory in MB."""
    began = time.perf_counter()
    arguments = [*COMMAND, "fleet", str(file), "--key", "key", "--target", "y", "-o", str(folder), "--quiet"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - began, usage.ru_maxrss / 1024.0


def loop(frame, task):
    """Return CPU seconds a record of one estimator per key, and the predictions by key."""
    estimator = ud.OnlineClassifier if task == "classification" else ud.OnlineRegressor
    wanted = [f"k{k}" for k in range(0, frame["key"].n_unique(), -(-frame["key"].n_unique() // SAMPLE))]
    some = frame.filter(pl.col("key").is_in(wanted)).partition_by("key", as_dict=True)
    arrays = {key: (part.select(FEATURES).to_numpy(), part["y"].to_numpy()) for (key,), part in some.items()}
    began = time.process_time()
    said = {key: estimator(speed="light").play(Z, y).yhat for key, (Z, y) in arrays.items()}
    took = time.process_time() - began
    return took / sum(len(y) for _, y in arrays.values()), said


def measured(base, keys, kind, task, rows, order):
    frame = frame_of(keys, rows, task, order)
    file, folder = base / f"rows.{kind}", base / "fleet"
    frame.write_csv(file) if kind == "csv" else frame.write_parquet(file)
    cpu, wall, memory = command(file, folder)
    each, expected = loop(frame, task)
    told = pl.read_csv(folder / "predictions.csv").filter(pl.col("key").is_in(list(expected)))
    for (key,), part in told.partition_by("key", as_dict=True).items():
        classes = [name for name in part.columns if name.startswith("p(")]
        said = part.sort("order")[classes[-1] if classes else "prediction"].to_numpy()
        assert np.isnan(said[0])
        assert said[1:].tobytes() == (sigmoid(expected[key]) if classes else expected[key])[1:].tobytes(), key
    return {
        "file": kind, "task": task, "keys": keys, "rows": rows, "order": order,
        "cpu_us": cpu / len(frame) * 1e6, "wall_us": wall / len(frame) * 1e6, "loop_us": each * 1e6,
        "memory_MB": memory,
        "saved_bytes_per_key": (folder / "fleet.db").stat().st_size / keys,
        "report_MB": (folder / "report.html").stat().st_size / 1e6,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print("| file | task | rows a key | CPU us a record | loop over keys | peak MB | saved bytes a key | report MB |")
    print("|---|---|---|---|---|---|---|---|")
    found = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as name:
            one = measured(Path(name), options.keys, *case)
        found.append(one)
        words = (
            one["file"],
            one["task"],
            f"{one['rows']}, {one['order']}",
            f"{one['cpu_us']:.0f}",
            f"{one['loop_us']:.0f}",
        )
        sizes = f"{one['memory_MB']:.0f}", f"{one['saved_bytes_per_key']:,.0f}", f"{one['report_MB']:.1f}"
        print(f"| {' | '.join(words + sizes)} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

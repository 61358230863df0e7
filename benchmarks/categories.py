"""Columns of many categories: learned by means, dropped, or hashed: `python -m benchmarks categories [--rows N]`.

Test then train on every row, in order, by `undrift run`. Hashed: the texts are put into 20 groups by a checksum, with
a feature each. The synthetic columns have 300 and 5,000 texts, some far more frequent than others, whose effects
drift; `route` is a real one, made of the origin and the distance in flights_late of the data folder, UNDRIFT_DATA, by
default ../shared/data. Errors are RMSE and log-loss.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import zlib
from pathlib import Path

import numpy as np
import polars as pl

from undrift.run import Settings, play_file

GROUPS = 20
DATA = Path(os.environ.get("UNDRIFT_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))


def synthetic(texts, rows, seed, *, binary):
    rng = np.random.default_rng(seed)
    often = np.arange(1, texts + 1) ** -0.7
    which = rng.choice(texts, size=rows, p=often / often.sum())
    X = rng.normal(size=(rows, 4))
    weights = rng.normal(size=4) + np.cumsum(0.01 * rng.normal(size=(rows, 4)), axis=0)
    time = np.linspace(0.0, 1.0, rows)
    size, phase = 2.0 * rng.normal(size=texts), rng.uniform(0.0, 2.0 * np.pi, size=texts)
    y = (X * weights).sum(axis=1) + size[which] * np.cos(2.0 * time + phase[which])
    y += 3.0 * np.sin(6.0 * time) + rng.normal(size=rows)
    if binary:
        y = (rng.uniform(size=rows) < 1.0 / (1.0 + np.exp(-y))).astype(int)
    return pl.DataFrame({"text": [f"t{k}" for k in which], **{f"x{j}": X[:, j] for j in range(4)}, "y": y})


def flights(rows):
    frame = pl.read_csv(DATA / "flights_late.csv.gz", n_rows=rows)
    route = pl.format("{}{} {}", "origin_EWR", "origin_LGA", "distance").alias("text")
    return frame.with_columns(route).drop("time").rename({"late15": "y"})


def streams(rows):
    for seed in range(2):
        for texts in (300, 5000):
            yield f"{texts:,} texts, numbers, seed {seed}", synthetic(texts, rows, seed, binary=False)
            yield f"{texts:,} texts, two classes, seed {seed}", synthetic(texts, rows, seed, binary=True)
    if DATA.exists():
        yield "route, two classes", flights(2 * rows)


def error(frame, folder):
    frame.write_csv(folder / "t.csv")
    found = play_file(str(folder / "t.csv"), folder / "run", Settings(target="y", speed="fast"), force=True)
    return next(iter(found["scores"]["model"].values()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    rows = parser.parse_args().rows
    print(f"{'stream':40s} {'texts':>6s} {'dropped':>8s} {'hashed':>8s} {'means':>8s}")
    for name, frame in streams(rows):
        group = [f"g{zlib.crc32(text.encode()) % GROUPS}" for text in frame["text"]]
        with tempfile.TemporaryDirectory() as folder:
            ways = (frame.drop("text"), frame.with_columns(text=pl.Series(group)), frame)
            errors = [error(one, Path(folder)) for one in ways]
        print(f"{name:40s} {frame['text'].n_unique():6d} " + " ".join(f"{one:8.4f}" for one in errors), flush=True)


if __name__ == "__main__":
    main()

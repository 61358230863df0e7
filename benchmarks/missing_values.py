"""Missing numbers: filled, or filled with a feature that tells where: `python -m benchmarks missing_values`.

Streams of many kinds are drawn: 500 to 20,000 rows; 3 to 30 numbers, a fifth or all of them missing in 1% to 50% of the
rows, at random, in blocks, where they are large, or with a meaning of its own for the target; fast or slow numbers;
little or much noise; weights that drift or not; of numbers or two classes. The table shows by how much the error (RMSE,
log-loss) with a feature for each number that is missing is above that without. It takes
ten minutes on one core.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

import undrift as ud
from undrift.metrics import scores

ROWS = ([500, 1000, 2000, 5000, 20_000], [0.25, 0.25, 0.25, 0.17, 0.08])
SHARES = (0.01, 0.03, 0.1, 0.3, 0.5)
KINDS = {
    "random": "at random", "blocks": "blocks of 30 rows", "size": "where it is large", "meaning": "with a meaning"
}  # fmt: skip
BLOCK = 30


def draw_holes(rng, kind, share, column):
    rows = len(column)
    if kind == "size":
        return column > np.quantile(column, 1.0 - share)
    if kind == "blocks":
        return np.repeat(rng.random(rows // BLOCK + 1) < share, BLOCK)[:rows]
    return rng.random(rows) < share


def draw_stream(rng, kind, share):
    """Return features with holes, labels, and whether they are classes."""
    rows, dim = int(rng.choice(ROWS[0], p=ROWS[1])), int(rng.choice([3, 8, 15, 30]))
    noise, columns = rng.choice([0.3, 1.0, 3.0]), rng.choice([0.2, 1.0])
    drift, slow, binary = rng.random(3) < (0.5, 0.5, 0.25)
    X = rng.normal(size=(rows, dim))
    for t in range(1, rows if slow else 0):
        X[t] = 0.95 * X[t - 1] + 0.31 * X[t]
    weights = 2.0 * rng.normal(size=dim) / np.sqrt(dim)
    walk = np.cumsum(0.5 * rng.normal(size=(rows, dim)), axis=0) / np.sqrt(rows)
    y, Z = (X * (weights + drift * walk)).sum(axis=1), X.copy()
    for j in rng.choice(dim, max(1, round(columns * dim)), replace=False):
        holes = draw_holes(rng, kind, share, X[:, j])
        Z[holes, j] = np.nan
        y += rng.normal() * holes if kind == "meaning" else 0.0
    y += noise * rng.normal(size=rows)
    if binary:
        y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-y))).astype(float)
    return Z, y, binary


def error(Z, y, binary, speed):
    model = (ud.OnlineClassifier if binary else ud.OnlineRegressor)(speed=speed)
    return next(iter(scores(model.play(Z, y).yhat[1:], y[1:], binary=binary).values()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=20, help="of each kind and share")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    rng, found = np.random.default_rng(given.seed), defaultdict(list)
    for _ in range(given.streams):
        for kind in KINDS:
            for share in SHARES:
                Z, y, binary = draw_stream(rng, kind, share)
                speed = "best" if rng.random() < 0.6 else "fast"
                holes = np.isnan(Z)
                told = np.column_stack([Z, holes[:, holes.any(axis=0)].astype(float)])
                found[kind, share].append(error(told, y, binary, speed) / error(Z, y, binary, speed) - 1.0)
    print("| missing | share | streams | median | mean | worst | best |")
    print("|---|---|---|---|---|---|---|")
    for (kind, share), above in sorted(found.items()):
        shown = " | ".join(f"{one:+.1%}" for one in (np.median(above), np.mean(above), max(above), min(above)))
        print(f"| {KINDS[kind]} | {share:.0%} | {len(above)} | {shown} |")


if __name__ == "__main__":
    main()

"""A feature for each text of a column, or means of the target by text, or both: `python -m benchmarks text_features`.

Streams of many kinds are drawn: 1,000 to 30,000 rows; 10 to 120 texts, all alike or some of them rare, with effects
that are fixed, drift or jump; little or much noise; with or without an interaction with a number; of numbers or two
classes. Each is learned three ways by the default estimator or the fast one. The table shows by how much the error
(RMSE, log-loss) of a feature for each text is above that of means, by texts and by first rows a text, and by how much
that of both is above that of a feature for each text. It takes a quarter of an hour on one core.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

import undrift as ud
from undrift.metrics import scores
from undrift.stream.category_means import CategoryMeans

FIRST = 8192
"""Rows that `undrift run` infers columns from."""
ROWS = ([1000, 2000, 4000, 10_000, 30_000], [0.25, 0.25, 0.25, 0.17, 0.08])
TEXTS = [10, 20, 30, 40, 60, 80, 120, 200, 500, 3000]
BANDS = ((1, 20), (21, 60), (61, 100), (101, 120))
ROWS_A_TEXT = ((0, 20), (20, 40), (40, 100), (100, 10_000))


def draw_effects(rng, texts, time, drift):
    """Return an effect for each row of each text."""
    size = rng.normal(size=texts.max() + 1)
    if drift == "fixed":
        return size[texts]
    if drift == "slow":
        phase = rng.uniform(0.0, 2.0 * np.pi, len(size))
        return np.sqrt(2.0) * size[texts] * np.cos(3.0 * time + phase[texts])
    jumps = np.sort(rng.uniform(size=(len(size), 3)), axis=1)
    sizes = rng.normal(size=(len(size), 4))
    return sizes[texts, (time[:, None] > jumps[texts]).sum(axis=1)]


def draw_stream(rng):
    """Return texts as numbers, other features, labels, whether they are classes, and the speed of the estimator."""
    rows, levels = int(rng.choice(ROWS[0], p=ROWS[1])), int(rng.choice(TEXTS))
    drift, noise = rng.choice(["fixed", "slow", "jumps"]), rng.choice([0.3, 1.0, 3.0])
    often = np.arange(1, levels + 1) ** -rng.choice([0.0, 0.7, 1.2])
    interaction, binary = rng.random() < 0.3, rng.random() < 0.3
    speed = "best" if rng.random() < 0.6 else "fast"
    texts, X = rng.choice(levels, size=rows, p=often / often.sum()), rng.normal(size=(rows, 4))
    y = X @ rng.normal(size=4) + 1.5 * draw_effects(rng, texts, np.linspace(0.0, 1.0, rows), drift)
    if interaction:
        y += rng.normal(size=levels)[texts] * X[:, 0]
    y += noise * rng.normal(size=rows)
    if binary:
        y = (rng.uniform(size=rows) < 1.0 / (1.0 + np.exp(-y))).astype(float)
    return texts, X, y, binary, speed


def error(Z, y, binary, speed):
    model = (ud.OnlineClassifier if binary else ud.OnlineRegressor)(speed=speed)
    return next(iter(scores(model.play(Z, y).yhat[1:], y[1:], binary=binary).values()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=300)
    parser.add_argument("--seed", type=int, default=101)
    given = parser.parse_args()
    rng, found = np.random.default_rng(given.seed), defaultdict(list)
    for _ in range(given.streams):
        texts, X, y, binary, speed = draw_stream(rng)
        seen = np.unique(texts[:FIRST])
        each = min(len(y), FIRST) / len(seen)
        if len(seen) > BANDS[-1][1] or (len(y) > 10_000 and len(seen) > 80):
            continue
        encoder = CategoryMeans(binary=binary)
        encoder.begin("text")
        means = encoder.encode(0, {"text": [f"t{k}" for k in texts]}, y)
        features = (texts[:, None] == seen).astype(float)
        by_mean, by_text, by_both = (
            error(np.column_stack(columns), y, binary, speed)
            for columns in ((X, means), (X, features), (X, means, features))
        )
        band = next(band for band in BANDS if len(seen) <= band[1])
        rows = next(band for band in ROWS_A_TEXT if each < band[1])
        found[band, rows].append((by_text / by_mean - 1.0, by_both / by_text - 1.0))
    print("| texts | first rows a text | streams | median | mean | worst | best | both, mean |")
    print("|---|---|---|---|---|---|---|---|")
    for (band, rows), pairs in sorted(found.items()):
        above, both = np.array(pairs).T
        numbers = (np.median(above), above.mean(), above.max(), above.min(), both.mean())
        shown = " | ".join(f"{one:+.1%}" for one in numbers)
        print(f"| {band[0]} to {band[1]} | {rows[0]} to {rows[1]:,} | {len(above)} | {shown} |")


if __name__ == "__main__":
    main()

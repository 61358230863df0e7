"""Several classes beside River's forests, softmax regression and LightGBM: `python -m benchmarks classes [--rows N]`.

With `--many`, what a row costs for each class instead, with 3, 10 and 40 classes and 20 features: `best` without trees,
in blocks and row by row (CPU us).

Test then train on every row, in order. Log-loss of the probability given to the class that came, at least 1e-6 of it
(a class that was never seen has none elsewhere), then accuracy. LightGBM is refitted on all rows so far every `EVERY`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import islice

import numpy as np
from river import datasets, forest, linear_model, preprocessing
from river.datasets import synth
from sklearn.datasets import load_digits

import undrift as ud
from undrift.river import DriftClassifier

LEAST = 1e-6
EVERY = 250


def segments(rows):
    return list(islice(datasets.ImageSegments(), rows))


def led(rows):
    return list(
        islice(synth.LEDDrift(seed=1, noise_percentage=0.1, irrelevant_features=True, n_drift_features=4), rows)
    )


def rbf(rows):
    stream = synth.RandomRBFDrift(
        seed_model=1, seed_sample=1, n_classes=5, n_features=10, n_centroids=20, change_speed=1e-3, n_drift_centroids=10
    )
    return list(islice(stream, rows))


def digits(rows):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:rows]
    return [({f"p{j}": float(v) for j, v in enumerate(X[i])}, int(y[i])) for i in order]


STREAMS = {"ImageSegments": segments, "LEDDrift": led, "RandomRBFDrift": rbf, "digits": digits}


class RefittedLightGBM:
    """LightGBM with its own defaults, refitted on all rows so far."""

    def __init__(self):
        self.rows, self.labels, self.model = [], [], None

    def predict_proba_one(self, x):
        if self.model is None:  # before the first fit: how often each class came
            return {label: self.labels.count(label) / len(self.labels) for label in set(self.labels)}
        p = self.model.predict_proba(np.array([list(x.values())]))[0]
        return dict(zip(self.model.classes_.tolist(), p.tolist(), strict=True))

    def learn_one(self, x, y):
        from lightgbm import LGBMClassifier

        self.rows.append(list(x.values()))
        self.labels.append(y)
        if len(self.rows) % EVERY == 0 and len(set(self.labels)) > 1:
            self.model = LGBMClassifier(n_jobs=1, verbose=-1).fit(np.array(self.rows), np.array(self.labels))


MODELS: dict[str, Callable[[], object]] = {
    "undrift best": DriftClassifier,
    "undrift max": lambda: DriftClassifier(speed="max"),
    "undrift fast": lambda: DriftClassifier(speed="fast"),
    "River ARF": lambda: forest.ARFClassifier(seed=1),
    "River AMF": lambda: forest.AMFClassifier(seed=1),
    "River softmax": lambda: preprocessing.StandardScaler() | linear_model.SoftmaxRegression(),
    "LightGBM refitted": RefittedLightGBM,
}


def score(model, stream):
    lost = right = 0.0
    start = time.perf_counter()
    for x, y in stream:
        p = model.predict_proba_one(x)
        total = sum(p.values()) or 1.0
        lost -= np.log(max(p.get(y, 0.0) / total, LEAST))
        right += bool(p) and max(p, key=p.get) == y
        model.learn_one(x, y)
    spent = time.perf_counter() - start
    return lost / len(stream), right / len(stream), 1e6 * spent / len(stream)


def measure_many(classes: int) -> tuple[float, float]:
    """Return what a row costs for each class, in a block and row by row: CPU us, the least of three turns."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, size=1000)
    Z = rng.normal(size=(classes, 20))[labels] + 1.5 * rng.normal(size=(1000, 20))
    spent: list[list[float]] = [[], []]
    for _ in range(3):
        model = ud.OnlineClassifier(trees=False)
        model.play(Z[:400], labels[:400])
        start = time.process_time()
        model.play(Z[400:], labels[400:])
        spent[0].append((time.process_time() - start) / 600)
        start = time.process_time()
        for t in range(400, 500):
            model.predict_proba(Z[t])
            model.learn(Z[t], int(labels[t]))
        spent[1].append((time.process_time() - start) / 100)
    block, single = (1e6 * min(part) / classes for part in spent)
    return block, single


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--rows", type=int, default=2500)
    parser.add_argument("--stream", choices=STREAMS, action="append")
    given = parser.parse_args()
    if given.many:
        print("| classes | block, us a row and class | predict_proba and learn |\n|---|---|---|")
        for classes in (3, 10, 40):
            print("| {} | {:.1f} | {:.1f} |".format(classes, *measure_many(classes)), flush=True)
        return
    rows = given.rows
    print("| stream | model | log-loss | accuracy | us a row |\n|---|---|---|---|---|")
    for name in given.stream or STREAMS:
        stream = STREAMS[name](rows)
        for who, build in MODELS.items():
            print("| {} | {} | {:.4f} | {:.4f} | {:.0f} |".format(name, who, *score(build(), stream)), flush=True)


if __name__ == "__main__":
    main()

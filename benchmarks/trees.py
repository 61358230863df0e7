"""CPU time of a fit, a refresh and a prediction of boosted trees, LightGBM interleaved on one thread.

python -m benchmarks trees [ROWS, 16000 by default]; the rows are those of bike_hourly in UNDRIFT_DATA, by default
../shared/data, or random ones where the folder is absent. Times are the least of several interleaved passes.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable

import lightgbm
import numpy as np

import undrift as ud
from benchmarks import streams

PASSES = 7
OPTIONS = {
    "num_leaves": 31,
    "learning_rate": 0.1,
    "feature_fraction": 0.5,
    "min_data_in_leaf": 20,
    "max_bin": 63,
    "verbose": -1,
    "num_threads": 1,
}


def problem(rows: int) -> tuple[np.ndarray, np.ndarray]:
    if "bike_hourly" in streams.names():
        stream = streams.raw("bike_hourly", rows)
        return np.ascontiguousarray(stream.Z), stream.y.copy()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 15))
    return X, X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + rng.normal(size=rows)


def least_times(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return milliseconds of CPU time of each work, the least of interleaved passes."""
    found = dict.fromkeys(works, np.inf)
    for _ in range(PASSES):
        for name, work in works.items():
            start = time.process_time()
            work()
            found[name] = min(found[name], 1e3 * (time.process_time() - start))
    return found


def refresh(model: ud.BoostedTrees, X: np.ndarray, y: np.ndarray) -> None:
    """Grow 8 trees more on rows, on a copy of the model."""
    copy.copy(model).refresh(X, y)


def longest_step(model: ud.BoostedTrees, X: np.ndarray, y: np.ndarray) -> float:
    """Return the longest CPU time of one step of a fit in steps of the default budget, in milliseconds."""
    growth, longest = model.begin_fit(X, y), 0.0
    while not growth.done:
        start = time.process_time()
        growth.step()
        longest = max(longest, 1e3 * (time.process_time() - start))
    return longest


def main() -> None:
    X, y = problem(int(sys.argv[1]) if len(sys.argv) > 1 else 16_000)
    ours = ud.BoostedTrees().fit(X, y)

    def fit_peer() -> lightgbm.Booster:
        return lightgbm.train(OPTIONS, lightgbm.Dataset(X, y, params=OPTIONS), 100)

    peer = fit_peer()
    found = least_times(
        {
            "fit": lambda: ud.BoostedTrees().fit(X, y),
            "LightGBM fit": fit_peer,
            "refresh": lambda: refresh(ours, X[-4000:], y[-4000:]),
            "predict": lambda: ours.predict(X),
            "LightGBM predict": lambda: peer.predict(X, num_threads=1),
        }
    )
    print(f"{X.shape[0]} rows of {X.shape[1]} columns, 100 trees of 31 leaves, one thread, milliseconds of CPU time")
    for name, value in found.items():
        print(f"{name:20s} {value:8.1f}")
    print(f"{'longest step':20s} {longest_step(ud.BoostedTrees(), X, y):8.1f}")


if __name__ == "__main__":
    main()

"""What trees cost: CPU a row with none, at "best" and at "max", beside LightGBM refitted, and the longest `learn`.

    python -m benchmarks forests [--rows 8000] [--held-back]

Streams are those of the data folder, and one made up with 15 columns. Runs are interleaved, one thread each; ours plays
whole blocks. With `--held-back` the scores on streams that no choice was made by are shown instead: parts and rotated
features of the data folder, and made-up interactions.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np

import undrift as ud
from benchmarks import streams
from benchmarks.streams import Stream
from undrift import metrics
from undrift.losses import log_odds
from undrift.run.finish.peers import forest_makers, play_retrained

WARM = 256
FULL = 41_300
"""Rows of the made-up stream: the window is full, and a fit over it is in work."""
SEEDS = 3


def made_up(rows: int, seed: int, binary: bool, dim: int = 15) -> Stream:
    """Return a stream with interactions, bends and a slow change."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, dim))
    drift = np.linspace(-1.0, 1.0, rows)
    y = Z[:, 0] * Z[:, 1] + np.abs(Z[:, 2]) + np.where(Z[:, 3] > 0.5, Z[:, 4], drift) + 0.3 * rng.normal(size=rows)
    return Stream(f"made up, seed {seed}", Z, (y > 0.5).astype(float) if binary else y, binary)


OURS = {"no trees": {"trees": False}, "best": {}, "max": {"speed": "max"}}


def estimator(stream: Stream, name: str) -> ud.OnlineRegressor | ud.OnlineClassifier:
    return (ud.OnlineClassifier if stream.binary else ud.OnlineRegressor)(**OURS[name])


def play_ours(name: str) -> Callable[[Stream], np.ndarray]:
    def play(stream: Stream) -> np.ndarray:
        return estimator(stream, name).play(np.ascontiguousarray(stream.Z), stream.y).yhat

    return play


def play_lightgbm(every: int) -> Callable[[Stream], np.ndarray]:
    def play(stream: Stream) -> np.ndarray:
        task = "classification" if stream.binary else "regression"
        make = next(make for library, _, make in forest_makers(task, seed=0) if library == "lightgbm")
        return play_retrained(make, every, task, stream.Z, stream.y)

    return play


CONTENDERS = {name: play_ours(name) for name in OURS} | {
    "every 250": play_lightgbm(250),
    "every 1,000": play_lightgbm(1000),
}


def score(yhat: np.ndarray, stream: Stream) -> float:
    """R2, or log-loss."""
    if not stream.binary:
        return metrics.r2(yhat[WARM:], stream.y[WARM:])
    return metrics.log_loss(np.clip(yhat, log_odds(1e-6), log_odds(1.0 - 1e-6))[WARM:], stream.y[WARM:])


def compare_cost(rows: int) -> None:
    given = [streams.raw(name, rows) for name in streams.names()]
    print(f"{'first ' + format(rows, ',') + ' rows':<20}{''.join(f'{name:>24}' for name in CONTENDERS)}")
    for stream in [*given, made_up(rows, 0, False)]:
        cells = []
        for play in CONTENDERS.values():
            begin = time.process_time()
            yhat = play(stream)
            spent = (time.process_time() - begin) / len(stream.y)
            cells.append(f"{score(yhat, stream):>12.4f} {1e6 * spent:>8.0f} us")
        print(f"{stream.name:<20}{''.join(f'{cell:>24}' for cell in cells)}", flush=True)


def measure_single_rows(rows: int, first: int) -> None:
    """Print the largest CPU times of single rows, learned one by one after `first` rows in a block."""
    for name, binary in itertools.product(OURS, (False, True)):
        stream = made_up(rows, 0, binary)
        model = estimator(stream, name)
        if first:
            model.play(stream.Z[:first], stream.y[:first])
        spent = np.empty(rows - first)
        for k, (z, y) in enumerate(zip(stream.Z[first:], stream.y[first:].tolist(), strict=True)):
            begin = time.thread_time()
            model.learn(z, y)
            spent[k] = time.thread_time() - begin
        after = np.sort(spent[max(0, WARM - first) :])[::-1]
        kind = "two classes" if binary else "numbers"
        print(f"{name}, {kind}, learn, rows {max(first, WARM)} to {rows}: mean {1e6 * spent.mean():.0f} us, largest "
              + ", ".join(f"{1e3 * one:.1f}" for one in after[:5]) + " ms", flush=True)  # fmt: skip


def held_back(rows: int) -> Iterator[Stream]:
    """Yield streams that no setting was chosen by."""
    rng = np.random.default_rng(5)
    for name in streams.names():
        whole = streams.raw(name)
        middle = len(whole.y) // 3
        yield Stream(f"{name}, from {middle}", *(part[middle : middle + rows] for part in whole[1:3]), whole.binary)
        backwards = slice(None, None, -1)
        yield Stream(f"{name}, backwards", whole.Z[:rows][backwards], whole.y[:rows][backwards], whole.binary)
        Z = streams.carried(whole.Z[-rows:])
        turned = (Z - Z.mean(axis=0)) / np.maximum(Z.std(axis=0), 1e-9)
        turn = np.linalg.qr(rng.normal(size=(Z.shape[1], Z.shape[1])))[0]
        yield Stream(f"{name}, last, turned", turned @ turn, whole.y[-rows:], whole.binary)
    for seed in range(SEEDS):
        for binary in (False, True):
            yield made_up(rows, 10 + seed, binary, dim=6)


def compare_held_back(rows: int) -> None:
    for stream in held_back(rows):
        found = {name: score(play(stream), stream) for name, play in CONTENDERS.items() if name != "every 1,000"}
        gain = (found["every 250"] - found["max"]) * (1.0 if stream.binary else -1.0)
        print(
            f"{stream.name:<36}" + "".join(f"{name} {one:.4f}  " for name, one in found.items()) + f"{gain:+.4f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--held-back", action="store_true")
    options = parser.parse_args()
    if options.held_back:
        compare_held_back(options.rows)
        return
    measure_single_rows(6000, 0)
    measure_single_rows(FULL, FULL - 500)
    compare_cost(options.rows)


if __name__ == "__main__":
    main()

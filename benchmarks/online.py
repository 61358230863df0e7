"""What one row costs an online estimator, replayed, alone, asked and told, or through River, beside River's learners.

    python -m benchmarks online [--turns N] [--write FILE]

All learn the same rows of bike_hourly, 15 features. River's learners get rows that are scaled, complete and already
dictionaries; ours get raw rows, holes and all, and scale, fill, learn and mix in the time measured. The machine's speed
wanders, so everybody takes a piece of the stream in turn; a piece gives one ratio, and the median over pieces is the
figure. Times are CPU seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from river import linear_model, optim

import undrift as ud
from benchmarks import pages, streams
from benchmarks.quality_peers import named
from undrift.river import DriftRegressor

MARK = "<!-- made by python -m benchmarks online -->"
PIECE = 500
RIVER = "River BayesianLinearRegression"


class Piece(NamedTuple):
    """Some rows of the stream, in the forms that contenders take."""

    Z: np.ndarray
    y: np.ndarray
    rows: list[np.ndarray]
    labels: list[float]
    dictionaries: list[dict[str, float]]
    scaled: list[dict[str, float]]
    scaled_labels: list[float]


def replay(model: ud.OnlineRegressor, piece: Piece) -> None:
    model.play(piece.Z, piece.y)


def predict_and_learn(model: ud.OnlineRegressor, piece: Piece) -> None:
    for row, label in zip(piece.rows, piece.labels, strict=True):
        model.predict(row)
        model.learn(row, label)


def ask_and_tell(model: ud.OnlineRegressor, piece: Piece) -> None:
    for row, label in zip(piece.rows, piece.labels, strict=True):
        model.tell(model.ask(row), label)


def host(model: DriftRegressor, piece: Piece) -> None:
    for row, label in zip(piece.dictionaries, piece.labels, strict=True):
        model.predict_one(row)
        model.learn_one(row, label)


def peer(model: linear_model.LinearRegression, piece: Piece) -> None:
    for row, label in zip(piece.scaled, piece.scaled_labels, strict=True):
        model.predict_one(row)
        model.learn_one(row, label)


def contenders() -> dict[str, tuple[Callable[..., None], object]]:
    """Return what is measured: a way to learn a piece, and a fresh model."""
    found: dict[str, tuple[Callable[..., None], object]] = {
        RIVER: (peer, linear_model.BayesianLinearRegression()),
        "River LinearRegression": (peer, linear_model.LinearRegression(optimizer=optim.SGD(0.01))),
    }
    for speed in ("fast", "best"):
        found[f"{speed}, replayed"] = replay, ud.OnlineRegressor(speed=speed)
        found[f"{speed}, predict and learn"] = predict_and_learn, ud.OnlineRegressor(speed=speed)
        found[f"{speed}, ask and tell"] = ask_and_tell, ud.OnlineRegressor(speed=speed)
        found[f"{speed}, River adapter"] = host, DriftRegressor(speed=speed)
    return found


def cut(stream: str) -> list[Piece]:
    given, scaled = streams.raw(stream), streams.load(stream)
    names = [f"x{j}" for j in range(given.Z.shape[1])]
    pieces = []
    for a in range(0, len(given.y) - PIECE + 1, PIECE):
        Z, y = np.ascontiguousarray(given.Z[a : a + PIECE]), np.ascontiguousarray(given.y[a : a + PIECE])
        dictionaries = [dict(zip(names, row, strict=True)) for row in Z.tolist()]
        rows = [row.copy() for row in Z]
        peers = named(scaled.Z[a : a + PIECE]), scaled.y[a : a + PIECE].tolist()
        pieces.append(Piece(Z, y, rows, y.tolist(), dictionaries, *peers))
    return pieces


def measure(pieces: list[Piece]) -> dict[str, list[float]]:
    """Return the seconds of each contender for each piece but the first, in which ours warm up."""
    spent: dict[str, list[float]] = {name: [] for name in contenders()}
    models = contenders()
    for k, piece in enumerate(pieces):
        for name, (learn, model) in models.items():
            begin = time.process_time()
            learn(model, piece)
            if k:
                spent[name].append(time.process_time() - begin)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--write", type=Path, help="put the table between the marks of this file")
    options = parser.parse_args()
    pieces = cut("bike_hourly")
    turns = [measure(pieces) for _ in range(options.turns)]
    spent = {name: np.concatenate([one[name] for one in turns]) for name in turns[0]}
    lines = [
        f"bike_hourly, rows of {pieces[0].Z.shape[1]} features, {len(spent[RIVER])} pieces of {PIECE} rows.",
        "",
        f"| | us a row, median | times faster than {RIVER}: median | least | most |",
        "|---|---|---|---|---|",
    ]
    for name, times in spent.items():
        ratio = spent[RIVER] / times
        shown = " | ".join(f"{f(ratio):.2f}" for f in (np.median, np.min, np.max)) if name != RIVER else "1 | |"
        lines.append(f"| {name} | {1e6 * np.median(times) / PIECE:.2f} | {shown} |")
    print("\n".join(lines))
    if options.write:
        pages.put(options.write, MARK, "\n".join(lines))


if __name__ == "__main__":
    main()

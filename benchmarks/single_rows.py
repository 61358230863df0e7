"""What one row costs by the kind of row and of label that a program holds: arrays, lists, dictionaries, series.

    python -m benchmarks single_rows [--turns N] [--write FILE]

Each kind has a fresh `fast` estimator that predicts and learns the same 15 features row by row, 300 rows at a time in
turn with the others; the usual kind also by `ask` and `tell`, and by `peek`. The figure is the median over these
pieces, the difference that to a float64 array and a Python float. Times are CPU seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import undrift as ud
from benchmarks import pages

MARK = "<!-- made by python -m benchmarks single_rows -->"
ROWS, FEATURES, PIECE = 3000, 15, 300
USUAL = "array, Python float"
ASKED = "array, Python float, by `ask` and `tell`"
PEEKED = "array, Python float, by `peek` and `learn(served=)`"


def kinds(Z: np.ndarray, y: np.ndarray) -> dict[str, tuple[Sequence[Any], Sequence[Any]]]:
    """Return the same rows and labels in every form; float32 and integers are rounded."""
    names = [f"x{j}" for j in range(Z.shape[1])]
    plain, labels, frame = list(Z), y.tolist(), pd.DataFrame(Z, columns=names)
    return {
        USUAL: (plain, labels),
        "array, NumPy float64": (plain, list(y)),
        "array, NumPy float32": (plain, list(y.astype(np.float32))),
        "array, Python int": (plain, [round(one) for one in labels]),
        "array, NumPy int64": (plain, list(np.round(y).astype(np.int64))),
        "float32 array": (list(Z.astype(np.float32)), labels),
        "integer array": (list(np.round(100.0 * Z).astype(np.int64)), labels),
        "row of an array by columns": (list(np.asfortranarray(Z)), labels),
        "list": (Z.tolist(), labels),
        "tuple": ([tuple(row) for row in Z.tolist()], labels),
        "list of NumPy numbers": ([list(row) for row in Z], list(y)),
        "dict": (frame.to_dict("records"), labels),
        "dict of NumPy numbers": ([dict(zip(names, row, strict=True)) for row in Z], list(y)),
        "pandas Series": ([frame.iloc[t] for t in range(len(frame))], list(y)),
    }


def measure(classes: bool) -> dict[str, list[float]]:
    """Return the seconds of each kind for each piece but the first two, in which estimators warm up."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(ROWS, FEATURES))
    y = Z @ rng.normal(size=FEATURES) + rng.normal(size=ROWS)
    spent: dict[str, list[float]] = {}
    models = {}
    for name, (rows, labels) in kinds(Z, y).items():
        given = [type(one)(one > 0) for one in labels] if classes else labels
        for also in (name, ASKED, PEEKED) if name == USUAL else (name,):
            models[also] = (ud.OnlineClassifier if classes else ud.OnlineRegressor)(speed="fast"), rows, given
    for begin in range(0, ROWS, PIECE):
        for name, (model, rows, labels) in models.items():
            start = time.process_time()
            for t in range(begin, begin + PIECE):
                if name == ASKED:
                    model.tell(model.ask(rows[t]), labels[t])
                elif name == PEEKED:
                    model.learn(rows[t], labels[t], served=model.peek(rows[t]))
                else:
                    model.predict(rows[t])
                    model.learn(rows[t], labels[t])
            if begin >= 2 * PIECE:
                spent.setdefault(name, []).append(time.process_time() - start)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--write", type=Path, help="put the table between the marks of this file")
    options = parser.parse_args()
    both = []
    for classes in (False, True):
        turns = [measure(classes) for _ in range(options.turns)]
        both.append({name: 1e6 / PIECE * np.median([one[name] for one in turns]) for name in turns[0]})
    lines = [
        f"Rows of {FEATURES} features, speed fast; `predict` and `learn` of one row, CPU us.",
        "",
        "| row, label | OnlineRegressor | more than usual | OnlineClassifier | more than usual |",
        "|---|---|---|---|---|",
    ]
    for name in both[0]:
        shown = " | ".join(f"{one[name]:.1f} | {one[name] - one[USUAL]:+.1f}" for one in both)
        lines.append(f"| {name} | {shown} |")
    print("\n".join(lines))
    if options.write:
        pages.put(options.write, MARK, "\n".join(lines))


if __name__ == "__main__":
    main()

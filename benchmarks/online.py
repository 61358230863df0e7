"""How fast the online estimators replay bike_hourly, beside River's single BayesianLinearRegression.

    python benchmarks/online.py [--turns N] [--write FILE]     (make bench-online; one thread)

River gets rows that are scaled, complete and already dictionaries; ours get the raw array, holes and all, and scale,
fill, learn and mix in the time measured. The machine's speed wanders, so River's replay is cut into pieces with ours
between them; a turn gives one ratio, and the median over turns is the figure. Times are CPU seconds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pages
import streams
from quality_peers import named
from river import linear_model

import undrift as ud

MARK = "<!-- made by make bench-online -->"
PIECE = 2200


def replay(model: ud.OnlineRegressor, Z: np.ndarray, y: np.ndarray) -> float:
    begin = time.process_time()
    model.play(Z, y)
    return time.process_time() - begin


def turn(rows: list[dict[str, float]], labels: list[float], Z: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Seconds of each contender, River's in pieces and ours between them."""
    model, spent = linear_model.BayesianLinearRegression(), 0.0
    own: dict[str, list[float]] = {"best": [], "fast": []}
    for a in range(0, len(rows), PIECE):
        begin = time.process_time()
        for row, label in zip(rows[a : a + PIECE], labels[a : a + PIECE], strict=True):
            model.predict_one(row)
            model.learn_one(row, label)
        spent += time.process_time() - begin
        for speed, times in own.items():
            times.append(replay(ud.OnlineRegressor(speed=speed), Z, y))
    return {"River": spent, **{speed: float(np.mean(times)) for speed, times in own.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--write", type=Path, help="put the table between the marks of this file")
    options = parser.parse_args()
    given = streams.raw("bike_hourly")
    Z, y = np.ascontiguousarray(given.Z), np.ascontiguousarray(given.y)
    scaled = streams.load("bike_hourly")
    rows, labels = named(scaled.Z), scaled.y.tolist()
    turns = [turn(rows, labels, Z, y) for _ in range(options.turns)]
    lines = [
        f"bike_hourly, {len(y):,} rows of {Z.shape[1]} features, {options.turns} turns.",
        "",
        "| | us a row, median | times faster than River: median | least | most |",
        "|---|---|---|---|---|",
    ]
    names = {"River": "River BayesianLinearRegression", "best": "OnlineRegressor()"}
    names["fast"] = 'OnlineRegressor(speed="fast")'
    for key, name in names.items():
        cost = 1e6 * np.median([one[key] for one in turns]) / len(y)
        ratio = [one["River"] / one[key] for one in turns]
        shown = " | ".join(f"{f(ratio):.1f}" for f in (np.median, min, max)) if key != "River" else "1 | |"
        lines.append(f"| {name} | {cost:.2f} | {shown} |")
    print("\n".join(lines))
    if options.write:
        pages.put(options.write, MARK, "\n".join(lines))


if __name__ == "__main__":
    main()

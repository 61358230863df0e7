"""Forecasts of published sets by the published protocol, without leaks: undrift with defaults beside naive forecasts.

    python benchmarks/forecast.py [--set ETTh2] [--horizon 24] [--write docs/forecast.md]     (make bench-forecast)

The sets are in `forecast` of the data folder, UNDRIFT_DATA, by default ../shared/data. Protocol: all channels, z-scores
by the training part (ETTh: rows 0 to 2,880; others 20%), scored rows 3,600 to 14,400 of ETTh, the last 75% of others;
the mean over origins, steps and channels of squared errors; a value is known when its row has come, not before.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from pathlib import Path

import numpy as np
import pages
import streams

import undrift as ud

SETS = ("ETTh2", "exchange_rate")
HORIZONS = (1, 24, 48)
SEASON = {"ETTh2": 24, "exchange_rate": 7}
"""For "same as last season" only; undrift finds its own."""
MARK = "<!-- made by make bench-forecast -->"


def load(path: Path):
    """Return the values (rows, channels) in z-scores, times or None, and the first scored origin."""
    with gzip.open(path, "rt") as file:
        lines = [line.strip().split(",") for line in file if line.strip()]
    timed = lines[0][0] == "date"
    body = [line for line in lines if line[0][0].isdigit()][0 if timed else 1 :]
    times = np.array([line[0] for line in body], "datetime64[s]") if timed else None
    Y = np.array([[float(cell) for cell in line[1 if timed else 0 :]] for line in body])
    if path.name.startswith("ETTh"):
        Y, times, training, first = Y[:14400], times[:14400], 2880, 3600
    else:
        training, first = len(Y) // 5, len(Y) // 4
    return (Y - Y[:training].mean(axis=0)) / Y[:training].std(axis=0), times, first


def season_values(Y, origins, steps: int, season: int):
    """Return the last values known at each origin with the steps' places in the season."""
    h = np.arange(1, steps + 1)
    return np.stack([Y[origins + step - season * -(-step // season)] for step in h], axis=2)


def cell(name: str, Y, times, first: int, horizon: int) -> str:
    """Return one line of the table."""
    origins = np.arange(first, len(Y) - horizon)
    truth = np.stack([Y[origins + h] for h in range(1, horizon + 1)], axis=2)
    begin = time.process_time()
    model = ud.Forecaster(horizon)
    trace = model.play(Y, times=times)
    seconds = time.process_time() - begin
    ours = np.mean((trace.yhat[origins] - truth) ** 2)
    last = np.mean((Y[origins][:, :, None] - truth) ** 2)
    season = np.mean((season_values(Y, origins, horizon, SEASON[name]) - truth) ** 2)
    inside = (trace.lower[origins] <= truth) & (truth <= trace.upper[origins])
    covered = inside.mean(axis=(0, 1))
    return (
        f"| {name} | {horizon} | {ours:.4f} | {last:.4f} | {season:.4f} | {ours / last:.4f} | "
        f"{covered.min():.1%} to {covered.max():.1%} | {seconds:.0f} |"
    )


def main() -> None:
    """Print the table, and put it into a page if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=SETS, action="append", help="a part of the sets")
    parser.add_argument("--horizon", type=int, action="append", help="other horizons than 1, 24 and 48")
    parser.add_argument("--write", type=Path, help="put the table between the marks of this file")
    options = parser.parse_args()
    lines = [
        "| set | H | undrift | same as last time | same as last season | ratio to last time | covered by step, of 90% "
        "| CPU seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    for name in options.set or SETS:
        path = streams.folder() / "forecast" / f"{name}.csv.gz"
        if not path.exists():
            sys.exit(f"no {path.name} in {path.parent}; set UNDRIFT_DATA")
        Y, times, first = load(path)
        for horizon in options.horizon or HORIZONS:
            lines.append(cell(name, Y, times, first, horizon))
            print(lines[-1], flush=True)
    if options.write:
        pages.put(options.write, MARK, "\n".join(["", *lines, ""]))


if __name__ == "__main__":
    main()

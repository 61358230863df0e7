"""Time between rows: metro_traffic with its gaps told and without: `python -m benchmarks elapsed [--speed fast]`.

Test then train on every row, in order. The file misses hours now and then, and ten months in one place; `elapsed` is
the time since the row before in units of the median spacing. Without it every row is the next one. The data folder is
UNDRIFT_DATA, by default ../shared/data. Errors are RMSE over all rows, over the 500 rows after the longest gap, and
over the 24 rows after every gap of more than a day.
"""

from __future__ import annotations

import argparse
import csv
import gzip

import numpy as np

import undrift as ud
from benchmarks.streams import folder, raw

AFTER = 500
DAY = 24
MODELS = {
    "DiscountedVAW, half-life 168": lambda: ud.DiscountedVAW(half_life=168, hint="last"),
    "linear_ensemble": lambda: ud.linear_ensemble(hint="last"),
}


def spacing(name: str) -> np.ndarray:
    """Return the time before each row, in units of the median spacing; 1 before the first."""
    with gzip.open(folder() / f"{name}.csv.gz", "rt") as file:
        times = [line[0] for line in csv.reader(file)][1:]
    seconds = np.diff(np.array(times, dtype="datetime64[s]")).astype(float)
    return np.concatenate(([1.0], seconds / np.median(seconds)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speed", choices=("best", "fast"), default="best")
    speed = parser.parse_args().speed
    stream, elapsed = raw("metro_traffic"), spacing("metro_traffic")
    gap = int(np.argmax(elapsed))
    late = np.flatnonzero(elapsed > DAY)
    first = np.unique(np.minimum(late[:, None] + np.arange(DAY), len(elapsed) - 1))
    parts = {
        "all rows": slice(None),
        f"{AFTER} after the gap": slice(gap, gap + AFTER),
        f"{DAY} after each of {len(late)} gaps": first,
    }
    print(f"metro_traffic: {len(elapsed):,} rows, longest gap {elapsed[gap]:,.0f} spacings before row {gap:,}\n")
    print("| RMSE | " + " | ".join(parts) + " |")
    print("|---" * (1 + len(parts)) + "|")
    head = stream.Z[:AFTER]
    scaled = np.nan_to_num((stream.Z - np.nanmean(head, axis=0)) / (np.nanstd(head, axis=0) + 1.0))
    rows = np.column_stack([scaled, np.ones(len(elapsed))])
    models = {**MODELS, f"OnlineRegressor, {speed}": lambda: ud.OnlineRegressor(speed=speed)}
    for name, make in models.items():
        Z = stream.Z if name.startswith("Online") else rows
        for told, times in (("rows alone", None), ("elapsed", elapsed)):
            miss = make().play(Z, stream.y, elapsed=times).yhat - stream.y
            errors = [float(np.sqrt(np.mean(miss[part] ** 2))) for part in parts.values()]
            print(f"| {name}, {told} | " + " | ".join(f"{one:.1f}" for one in errors) + " |", flush=True)


if __name__ == "__main__":
    main()

"""How often a watch rings when nothing changes, and how soon when something does.

python -m benchmarks events    (streams of the data folder, UNDRIFT_DATA, with labels shuffled; then synthetic changes)
"""

import gzip
import os
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl

import undrift as ud
from undrift.events import Watch
from undrift.losses import sigmoid

DATA = Path(os.environ.get("UNDRIFT_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
STREAMS = {
    "bike_hourly": False, "metro_traffic": False, "air_quality_co": False,
    "elec2": True, "weather_nebraska": True, "flights_late": True,
}  # fmt: skip
STEP, BEFORE, AFTER, RUNS = 10, 1500, 200, 50


def read(name):
    with gzip.open(DATA / f"{name}.csv.gz") as file:
        frame = pl.read_csv(file.read(), infer_schema_length=None)
    table = frame.select(pl.col(column).cast(pl.Float64) for column in frame.columns[1:]).to_numpy()
    return np.ascontiguousarray(table[:, :-1]), table[:, -1]


def watch_rounds(Z, y, *, binary, speed):
    """Return the events of a stream: errors, coverage and memory."""
    model = (ud.OnlineClassifier if binary else ud.OnlineRegressor)(speed=speed)
    watch, events = Watch(binary=binary), []
    for a in range(0, len(y), STEP):
        if binary:
            trace = model.play(Z[a : a + STEP], y[a : a + STEP])
            shown, ends = sigmoid(trace.yhat), [(None, None)] * len(trace.yhat)
        else:
            trace = model.play(Z[a : a + STEP], y[a : a + STEP], interval=0.9)
            shown, ends = trace.yhat, list(zip(trace.lower, trace.upper, strict=True))
        for i in np.flatnonzero(trace.known):
            events += watch.add_round(a + i + 1, float(y[a + i]), float(shown[i]), *ends[i])
        events += watch.add_memory(a + STEP, model.spectrum())
    return events


def changed_stream(rng, change):
    count = BEFORE + AFTER
    after = np.arange(count) >= BEFORE
    Z, noise = rng.normal(size=(count, 5)), rng.normal(size=count)
    noise[after] *= 2.0 if change == "noise doubled" else 1.0
    y = Z @ rng.normal(size=5) + noise
    y[after] += {"level + 1": 1.0, "coefficient + 1": Z[after, 0]}.get(change, 0.0)
    return Z, y


def main():
    rng = np.random.default_rng(0)
    print("labels shuffled: rows, events")
    total = rows = 0
    for name, binary in STREAMS.items():
        Z, y = read(name)
        y = rng.permutation(y)
        y = (y > 0.5).astype(float) if binary else y
        events = watch_rounds(Z, y, binary=binary, speed="fast")
        total, rows = total + len(events), rows + len(y)
        print(f"  {name:18} {len(y):7,} {dict(Counter(str(event.kind) for event in events))}", flush=True)
    print(f"  in all {total} in {rows:,} rows: one in {rows / max(total, 1):,.0f} (a month of hours: 720)")
    print(f"a change after {BEFORE:,} rows, {RUNS} runs, fast and best in turn")
    print(f"  found within {AFTER} rows, median row, false alarms before")
    for change in ("level + 1", "coefficient + 1", "noise doubled"):
        found, false = [], 0
        for i in range(RUNS):
            events = watch_rounds(*changed_stream(rng, change), binary=False, speed="best" if i % 2 else "fast")
            false += sum(event.row <= BEFORE for event in events)
            found.append(next((event.row - BEFORE for event in events if event.row > BEFORE), np.inf))
        print(f"  {change:16} {np.mean(np.array(found) <= AFTER):.0%} {np.median(found):.0f} {false}", flush=True)


if __name__ == "__main__":
    main()

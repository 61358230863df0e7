"""What a row costs that comes to a `Stream` alone, or with nine others as requests to a service bring them.

    python -m benchmarks stream_rows [--turns N] [--speed SPEED]

Tables have 10 columns of numbers; one has a column of times and one of texts too, the others a target of two or three
classes. Each kind of call has a stream of its own that has learned 1,000 rows, and gets rows in turn with the others.
The figure is the least CPU time of all turns, in microseconds a row; of `ask` and `tell` it is that of both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import undrift as ud
from undrift.stream.cells import RowBatch
from undrift.stream.first_rows import RowOrigin

WARM, PIECE, FEATURES, TOGETHER, WAITING = 1000, 200, 10, 10, 50_000
Row = dict[str, Any]


def draw(rows: int, kind: str) -> list[Row]:
    """Return rows with their label `y`."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(rows, FEATURES)).round(4)
    y = (Z @ rng.normal(size=FEATURES) + rng.normal(size=rows)).round(4)
    table: dict[str, Any] = {f"x{j}": Z[:, j].tolist() for j in range(FEATURES)}
    if kind == "times and texts":
        begin = np.datetime64("2024-01-01T00:00:00") + np.arange(rows) * np.timedelta64(1, "h")
        table["when"] = [str(when) for when in begin]
        table["shop"] = [f"shop {k}" for k in rng.integers(0, 8, size=rows)]
    classes = {"two classes": ["no", "yes"], "three classes": ["low", "mid", "high"]}.get(kind)
    edges = np.quantile(y, np.arange(1, len(classes)) / len(classes)) if classes else ()
    table["y"] = [classes[k] for k in np.digitize(y, edges)] if classes else y.tolist()
    return [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]


KINDS = ("numbers", "times and texts", "two classes", "three classes")


def bare(rows: list[Row]) -> list[Row]:
    """Return rows without their label."""
    return [{name: cell for name, cell in row.items() if name != "y"} for row in rows]


def predict(stream: ud.Stream, rows: list[Row]) -> None:
    for row in bare(rows):
        stream.predict(row)


def learn(stream: ud.Stream, rows: list[Row]) -> None:
    for row in rows:
        stream.learn(row)


def ask_and_tell(stream: ud.Stream, rows: list[Row]) -> None:
    for row, question in zip(rows, bare(rows), strict=True):
        stream.tell(stream.ask(question), row["y"])


def serve_and_tell(stream: ud.Stream, rows: list[Row], together: int = TOGETHER) -> None:
    origin = RowOrigin("the request", stream.settings)
    for begin in range(0, len(rows), together):
        part, before = rows[begin : begin + together], 0 if stream.features is None else stream.features.taken
        lines = before + 1 + np.arange(len(part), dtype=np.int64)
        columns = {name: [row[name] for row in part] for name in part[0] if name != "y"}
        _, answers = stream.serve_batch(RowBatch(lines, columns), origin)
        stream.tell_rows(answers.serial.tolist(), [row["y"] for row in part], origin, lines=lines)


CALLS: dict[str, Callable[[ud.Stream, list[Row]], None]] = {
    "predict": predict,
    "learn": learn,
    "ask, tell": ask_and_tell,
    "serve, tell of ten": serve_and_tell,
}


def make_stream(kind: str, speed: str, waiting: int, turns: int) -> tuple[ud.Stream, list[Row]]:
    """Return a stream that has learned, with so many rows that wait, and the rows of all turns."""
    rows = draw(WARM + waiting + turns * PIECE, kind)
    stream = ud.Stream("y", speed=speed, **({"time": "when"} if "when" in rows[0] else {}))
    stream.play(rows[:WARM])
    if waiting:
        stream.ask(bare(rows[WARM : WARM + waiting]))
    return stream, rows[WARM + waiting :]


def measure(speed: str, turns: int, waiting: int = 0, kinds: tuple[str, ...] = KINDS) -> dict[str, dict[str, float]]:
    """Return the least CPU time of a row by kind of table and of call, in microseconds."""
    made = {kind: make_stream(kind, speed, waiting, turns) for kind in kinds}
    streams = {(kind, call): stream.copy() for kind, (stream, _) in made.items() for call in CALLS}
    least: dict[str, dict[str, float]] = {kind: dict.fromkeys(CALLS, np.inf) for kind in kinds}
    for turn in range(turns):
        for (kind, call), stream in streams.items():
            rows = made[kind][1][turn * PIECE : (turn + 1) * PIECE]
            start = time.process_time()
            CALLS[call](stream, rows)
            least[kind][call] = min(least[kind][call], 1e6 * (time.process_time() - start) / PIECE)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--speed", default="fast")
    options = parser.parse_args()
    found = measure(options.speed, options.turns)
    busy = measure(options.speed, options.turns, WAITING, ("numbers",))
    lines = [
        f"Tables of {FEATURES} numbers, speed {options.speed}, CPU us a row.",
        "",
        f"| table | {' | '.join(CALLS)} |",
        f"|---|{'---|' * len(CALLS)}",
    ]
    for kind, figures in {**found, f"numbers, {WAITING:,} rows waiting": busy["numbers"]}.items():
        lines.append(f"| {kind} | {' | '.join(f'{figure:.0f}' for figure in figures.values())} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

"""Small files of rows for the tests of runs."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np


def table(rows: int = 600, seed: int = 0) -> dict[str, list]:
    """Return a drifting stream with a time, two numbers (one with holes), a text, and both kinds of target."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=rows), 10.0 * rng.normal(size=rows)
    city = rng.choice(["Oslo", "Rome", "Lima"], size=rows)
    drift = np.where(np.arange(rows) < rows // 2, 1.0, -2.0)
    y = 3.0 + drift * a + 0.1 * b + 2.0 * (city == "Rome") + 0.2 * rng.normal(size=rows)
    when = np.datetime64("2024-01-01T00:00") + np.arange(rows) * np.timedelta64(1, "h")
    holes = rng.random(rows) < 0.05
    return {
        "when": [str(one).replace("T", " ") for one in when],
        "a": [round(float(one), 6) for one in a],
        "b": [None if hole else round(float(one), 6) for one, hole in zip(b, holes, strict=True)],
        "city": [str(one) for one in city],
        "y": [round(float(one), 6) for one in y],
        "hot": ["yes" if one > 3.0 else "no" for one in y],
    }


def write_csv(path: Path, columns: dict[str, list], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def write_ndjson(path: Path, columns: dict[str, list]) -> Path:
    rows = zip(*columns.values(), strict=True)
    path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    return path


def without_times(state: dict) -> dict:
    """Return what `run.json` holds, but for its checksum, when that was and by which command."""
    times = ("started", "finished", "seconds", "command")
    provenance = {name: value for name, value in state["provenance"].items() if name not in times}
    lists = {name: [entry | {"when": ""} for entry in state[name]] for name in ("learned", "versions")}
    return {name: value for name, value in state.items() if name != "sha256"} | {"provenance": provenance} | lists


def require_same_learning(first, second):
    """Assert that two streams have learned the same, though one began with fewer rows, which its schema tells."""
    assert first.model == second.model
    (values, arrays), (values2, arrays2) = first.features.state(), second.features.state()
    assert values == values2
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: array.tobytes() for name, array in arrays2.items()
    }

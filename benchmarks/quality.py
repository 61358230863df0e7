"""Test-then-train on every stream of the data folder: our defaults beside peers and the naive.

    python -m benchmarks quality [--quick] [--again PART] [--write docs/benchmarks.md]

Finished cells (stream, contender) are kept in build/quality.json and not run again; `--again PART` forgets those whose
contender's name contains PART. `--quick` runs the first 1500 rows. Times are CPU seconds of this process.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks import pages, streams
from benchmarks.quality_peers import SURE, Contender, Data, contenders, named
from undrift import metrics

MARK = "<!-- made by python -m benchmarks quality -->"
PREFIXES = (5_000, 10_000, 20_000)
QUICK = 1_500
WARM = 200
"""Rows that scale those of peers which want a scale that stands still."""

Cell = dict[str, object]


def prepare(name: str, rows: int | None) -> Data:
    given = streams.raw(name, rows)
    raw, y = np.ascontiguousarray(given.Z), np.ascontiguousarray(given.y)
    filled, head = streams.carried(raw), y[:WARM]
    # Classes: VW does better on rows scaled by 500 and clipped, as benchmarks/streams.py has them.
    Z = streams.load(name, rows).Z if given.binary else np.column_stack([scaled_once(filled), np.ones(len(y))])
    center, unit = (0.0, 1.0) if given.binary else (float(head.mean()), float(head.std()))
    labels = np.where(y > 0.0, 1.0, -1.0) if given.binary else (y - center) / unit
    return Data(raw, filled, named(filled), streams.Stream(name, Z, labels, given.binary), y, center, unit)


def scaled_once(Z: np.ndarray) -> np.ndarray:
    """Scaled by the first rows; columns that are constant there by the largest value they will have."""
    spread = Z[:WARM].std(axis=0)
    unit = np.where(spread > 0.0, spread, np.maximum(np.abs(Z).max(axis=0), 1.0))
    return (Z - Z[:WARM].mean(axis=0)) / unit


def cut(data: Data, rows: int | None) -> Data:
    """The first rows only, scaled as all of them are."""
    s = data.scaled
    scaled = streams.Stream(s.name, s.Z[:rows], s.y[:rows], s.binary)
    return Data(data.raw[:rows], data.filled[:rows], data.dicts[:rows], scaled, data.y[:rows], data.center, data.unit)


def score(yhat: np.ndarray, y: np.ndarray, binary: bool) -> Cell:
    """The figures of a run; rows without a finite prediction are counted and spoil the rest, as they would in use."""
    broken = int(np.count_nonzero(~np.isfinite(yhat)))
    if broken:
        return {"rows": len(y), "broken": broken}
    if binary:
        sure = np.clip(yhat, -SURE, SURE)
        return {"rows": len(y), "log_loss": metrics.log_loss(sure, y), "accuracy": metrics.accuracy(yhat, y)}
    with np.errstate(over="ignore"):
        return {"rows": len(y), "r2": metrics.r2(yhat, y), "mae": metrics.mae(yhat, y)}


def run(contender: Contender, data: Data) -> Cell:
    part = cut(data, contender.rows)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # peers on their way to infinity say so row by row
        try:
            contender.play(cut(data, 20))  # imports and caches are not its speed
            begin = time.process_time()
            told = contender.play(part)
        except (ArithmeticError, ValueError, ImportError, np.linalg.LinAlgError) as error:
            return {"rows": len(part.y), "failed": f"{type(error).__name__}: {error}"[:120]}
        seconds = time.process_time() - begin
    cell = score(told.yhat, part.y, part.scaled.binary) | {"seconds": seconds}
    half = len(part.y) // 2
    cell["second_half"] = score(told.yhat[half:], part.y[half:], part.scaled.binary)
    if told.coverage is not None:
        cell["coverage"] = told.coverage
    if contender.name.startswith("undrift"):
        whole = len(part.y)
        cell["prefix"] = {str(n): score(told.yhat[:n], part.y[:n], part.scaled.binary) for n in PREFIXES if n < whole}
    return cell


def number(x: float, digits: int) -> str:
    return f"{x:.{digits}f}" if abs(x) < 1e4 else f"{x:.1e}"


def shown(cell: Cell) -> list[str]:
    """The two scores, or in their place what went wrong."""
    if "failed" in cell:
        return [f"fails: {str(cell['failed']).split(':')[0]}", ""]
    if "broken" in cell:
        return [f"not finite in {cell['broken']:,} rows", ""]
    pair = ("log_loss", "accuracy") if "log_loss" in cell else ("r2", "mae")
    first, second = (float(cell[key]) for key in pair)
    good = math.isfinite(first) and (pair[0] == "log_loss" or first > -10.0)
    return [number(first, 4) if good else f"blows up ({first:.0e})", number(second, 4) if good else ""]


def tables(cells: dict[str, Cell]) -> list[str]:
    out: list[str] = []
    for name in dict.fromkeys(key.split("|")[0] for key in cells):
        found = {key.split("|")[1]: cell for key, cell in cells.items() if key.split("|")[0] == name}
        rows = max(int(cell["rows"]) for cell in found.values())
        binary = any("log_loss" in cell for cell in found.values())
        heads = ("log-loss", "accuracy") if binary else ("R2", "MAE")
        out += [f"**{name}**, {rows:,} rows", ""]
        out += [
            f"| | {heads[0]} | second half | {heads[1]} | 90% intervals | CPU us a row |",
            "|---|---|---|---|---|---|",
        ]
        for contender, cell in found.items():
            label = contender if cell["rows"] == rows else f"{contender}, first {cell['rows']:,} rows"
            cover = f"{float(cell['coverage']):.1%}" if "coverage" in cell else ""
            spent = f"{1e6 * float(cell['seconds']) / int(cell['rows']):,.1f}" if "seconds" in cell else ""
            first, second = shown(cell)
            later = shown(cell["second_half"])[0] if second else ""
            out.append(f"| {label} | {first} | {later} | {second} | {cover} | {spent} |")
        for prefix in PREFIXES:
            same = found["undrift best (default)"].get("prefix", {}).get(str(prefix))
            if same and any(cell["rows"] == prefix for cell in found.values()):
                first, second = shown(same)
                out.append(f"| undrift best, first {prefix:,} rows | {first} | | {second} | | |")
        out.append("")
    return out[:-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the first rows only")
    parser.add_argument("--again", help="forget cells whose contender contains this text")
    parser.add_argument("--write", type=Path, help="put the tables between the marks of this file")
    options = parser.parse_args()
    kept = Path("build") / ("quality-quick.json" if options.quick else "quality.json")
    cells: dict[str, Cell] = json.loads(kept.read_text()) if kept.exists() else {}
    if options.again:
        cells = {key: cell for key, cell in cells.items() if options.again not in key.split("|")[1]}
    order = []
    for name in sorted(streams.names(), key=lambda one: (one in streams.BINARY, one)):
        fighters = contenders(name in streams.BINARY)
        order += [f"{name}|{one.name}" for one in fighters]
        left = [one for one in fighters if f"{name}|{one.name}" not in cells]
        data = prepare(name, QUICK if options.quick else None) if left else None
        for one in left:
            print(f"{name}: {one.name} ...", end=" ", file=sys.stderr, flush=True)
            cells[f"{name}|{one.name}"] = cell = run(one, data)
            print(" ".join(shown(cell)), file=sys.stderr, flush=True)
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(json.dumps(cells, indent=1))
    if not order:
        sys.exit(f"no streams in {streams.folder()}; set UNDRIFT_DATA")
    lines = tables({key: cells[key] for key in order})
    print("\n".join(lines))
    if options.write:
        pages.put(options.write, MARK, "\n".join(lines))


if __name__ == "__main__":
    main()

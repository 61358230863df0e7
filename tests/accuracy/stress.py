"""The full accuracy matrix through the kernels, in two processes: `python -m tools stress accuracy`.

Prints a table and leaves with status 1 if any cell is further than 1e-8 from its multi-precision reference or any
number is not finite. `--write FILE` puts the table between the marks of a Markdown file, `--resume FILE` keeps finished
cells and skips those it has, `--quick` is a rehearsal.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pathlib
import sys
import time
from collections.abc import Iterator

from tests.accuracy import absurd, chaos, measure, streams
from tests.accuracy.measure import Row, good
from undrift import kernels

DIMS = (20, 6, 2)
FUZZ = 200
MARK = "<!-- made by python -m tools stress accuracy -->"

KINDS = {"vaw": "vaw", "aioli": "aioli", "aioli_closed": "closed"}

Job = tuple[str, str, int, int]


def jobs(quick: bool) -> Iterator[Job]:
    """(kind, scenario, dim, rounds), the long ones first."""
    for kind, rounds in (("vaw", 10**6), ("aioli_closed", 20_000), ("aioli", 200_000)):
        for dim in DIMS:
            for name in streams.NAMES:
                # the exact sums of numbers up to 1e60 take thousands of binary places
                most = min(rounds, 50_000) if name.startswith("fill") else rounds
                yield kind, name, dim, most // 50 if quick else most


def work(job: Job) -> list[Row]:
    """Measure one scenario under all discounts."""
    kind, name, dim, rounds = job
    rows: list[Row] = getattr(measure, kind)(streams.make(name, dim, rounds, seed=2))
    return rows


def fuzz(first: int) -> list[str]:
    """Return what was not finite in a batch of absurd problems."""
    return [f"seed {seed}: {fault}" for seed in range(first, first + FUZZ) for fault in absurd.trial(seed)]


def table(rows: list[Row]) -> list[str]:
    """One line per kind, scenario and dimension; one column per discount."""
    betas = sorted({row.beta for row in rows})
    out = [
        "| | d | rounds | "
        + " | ".join(f"beta {b:g}" for b in betas)
        + " | leader | ridge | floored | resets | not finite |"
    ]
    out.append("|---|---|---|" + "---|" * (len(betas) + 5))
    keys = sorted({(r.kind, streams.NAMES.index(r.name), r.dim) for r in rows}, key=lambda k: (k[0], k[1], k[2]))
    for kind, name, dim in keys:
        cells = {r.beta: r for r in rows if (r.kind, r.name, r.dim) == (kind, streams.NAMES[name], dim)}
        errors = [f"{cells[b].error:.0e}" if b in cells else "" for b in betas]
        leader, ridge = (f"{max(getattr(r, what) for r in cells.values()):.0e}" for what in ("leader", "ridge"))
        if kind != "vaw":
            leader = ridge = ""
        sums = [sum(getattr(r, what) for r in cells.values()) for what in ("floored", "resets", "broken")]
        rounds = max(r.rounds for r in cells.values())
        head = f"| {kind}, {streams.NAMES[name]} | {dim} | {rounds} | "
        out.append(head + " | ".join([*errors, leader, ridge, *map(str, sums)]) + " |")
    return out


def line(r: Row) -> str:
    """One cell for the log."""
    verdict = "" if good(r) else "  FAILS"
    return (
        f"{r.kind:7s} {r.name:12s} d={r.dim:<3d} beta={r.beta:<6g} {r.error:.1e} at {r.at:<8d} leader {r.leader:.1e} "
        f"ridge {r.ridge:.1e} gap {r.gap:.1e} of {r.asked:<6d} floored {r.floored}{verdict}"
    )


def kept(path: pathlib.Path | None) -> list[Row]:
    """Return the cells an interrupted run had finished."""
    if path is None or not path.exists():
        return []
    return [Row(**json.loads(text)) for text in path.read_text().splitlines()]


def keep(path: pathlib.Path | None, row: Row) -> None:
    """Note a finished cell."""
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(row._asdict()) + "\n")


def main() -> int:
    """Run the matrix, the fuzz and the chaos table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--resume", type=pathlib.Path)
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # two processes share two cores
    start, rows, faults = time.time(), kept(options.resume), []
    done = {(r.kind, r.name, r.dim, r.rounds) for r in rows}
    left = [job for job in jobs(options.quick) if (KINDS[job[0]], *job[1:]) not in done]
    count = 4 if options.quick else 20
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        cells = pool.imap_unordered(work, left)
        storm = pool.map_async(chaos.work, chaos.jobs(options.quick), chunksize=1)
        noise = pool.map_async(fuzz, range(0, count * FUZZ, FUZZ), chunksize=1)
        for found in cells:
            rows += found
            for r in found:
                keep(options.resume, r)
                print(line(r), flush=True)
        storms, faults = storm.get(), [fault for batch in noise.get() for fault in batch]
    lines = [
        f"{len(rows)} cells, kernel level {kernels.level()}; {count * FUZZ} absurd problems, {len(faults)} faults.",
        "",
        *table(rows),
        "",
        *chaos.table(storms),
    ]
    print("\n".join(lines))
    print(f"{time.time() - start:.0f} s")
    if options.write:
        before, _, after = options.write.read_text().split(MARK)
        options.write.write_text(MARK.join([before, "\n" + "\n".join(lines) + "\n", after]))
    bad = [r for r in rows if not good(r)]
    for text in [*(f"FAILS: {r}" for r in bad), *faults[:20]]:
        print(text, file=sys.stderr)
    return 1 if bad or faults else 0


if __name__ == "__main__":
    sys.exit(main())

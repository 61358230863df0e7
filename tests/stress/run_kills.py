"""Kill -9 at random moments, many times, then resume: predictions, model and trace must be those of a calm run.

python -m tests.stress.run_kills [kills] [seed]
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from tests.run.row_files import without_times
from undrift import store

ROWS = 60_000
COMMAND = [sys.executable, "-c", "from undrift.cli import main; main()", "run"]
OPTIONS = ["-t", "y", "--lag", "1,24", "--calendar", "--no-report", "--no-certify", "--quiet", "--json"]


def write_drifting_file(path: Path, rows: int = ROWS, seed: int = 0) -> Path:
    """Write a drifting stream with holes, a text that comes late, and times."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, 6))
    u = np.cumsum(rng.normal(scale=0.01, size=(rows, 6)), axis=0)
    y = np.sum(Z * u, axis=1) + rng.normal(size=rows)
    frame = pl.DataFrame({f"x{j}": Z[:, j] for j in range(6)} | {"y": y})
    frame = frame.with_columns(
        when=pl.datetime(2020, 1, 1) + pl.duration(minutes=pl.int_range(rows)),
        place=pl.when(pl.int_range(rows) < rows // 2).then(pl.lit("here")).otherwise(pl.lit("there")),
        x0=pl.when(pl.col("x0") > 2.0).then(None).otherwise(pl.col("x0")),
    )
    frame.write_csv(path)
    return path


def bits(folder: Path) -> tuple[object, ...]:
    """Return what a finished run holds, but for times."""
    state = json.loads((folder / "run.json").read_text())
    assert state["status"] == "finished"
    out: list[object] = [without_times(state)]
    for name in ("model.undrift", "trace.undrift"):
        header, arrays = store.read(folder / name)
        out += [header, {key: array.tobytes() for key, array in arrays.items()}]
    frame = pl.read_parquet(folder / "predictions.parquet")
    return (*out, {name: frame[name].to_numpy().tobytes() for name in frame.columns})


def committed(folder: Path) -> int:
    """Return how many rows the last commit holds."""
    state = folder / "run.json"
    return int(json.loads(state.read_text())["rows"]) if state.exists() else 0


def kills(tries: int, seed: int = 0) -> None:
    """Kill runs with SIGKILL at random moments until `tries` of them died, resuming each to its end."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        run = [*COMMAND, str(write_drifting_file(base / "stream.csv")), *OPTIONS, "--resume"]
        begin = time.perf_counter()
        subprocess.run([*run, "-o", str(base / "calm")], check=True, stdout=subprocess.DEVNULL)
        calm, expected = time.perf_counter() - begin, bits(base / "calm")
        print(f"{ROWS:,} rows in {calm:.1f} s undisturbed")
        killed = runs = resumed = 0
        while killed < tries:
            folder, runs = base / f"run{runs}", runs + 1
            while True:
                process = subprocess.Popen([*run, "-o", str(folder)], stdout=subprocess.DEVNULL)
                try:
                    code = process.wait(dice.uniform(0.4 * calm, 1.05 * calm) if killed < tries else None)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    killed += 1
                    rows = committed(folder)
                    resumed += rows > 0
                    print(f"kill {killed} after {rows:,} committed rows")
                    continue
                assert code == 0, code
                break
            assert bits(folder) == expected, f"run {runs} differs"
            print(f"run {runs}: equal")
        print(f"{killed} kills ({resumed} with rows committed), {runs} runs, every one equal to the calm one")


def main() -> int:
    kills(
        int(sys.argv[1]) if len(sys.argv) > 1 else 20,
        int(sys.argv[2]) if len(sys.argv) > 2 else 0,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

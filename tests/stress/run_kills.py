"""Kill -9 at random moments, many times, then resume: predictions, model and trace must be those of a calm run.

python tests/stress/run_kills.py [kills] [seed]
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

from undrift import store

ROWS = 60_000
COMMAND = [sys.executable, "-c", "from undrift.cli import main; main()", "run"]


def stream(path: Path) -> Path:
    """Write a drifting stream with holes, a text that comes late, and times."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(ROWS, 6))
    u = np.cumsum(rng.normal(scale=0.01, size=(ROWS, 6)), axis=0)
    y = np.sum(Z * u, axis=1) + rng.normal(size=ROWS)
    frame = pl.DataFrame({f"x{j}": Z[:, j] for j in range(6)} | {"y": y})
    frame = frame.with_columns(
        when=pl.datetime(2020, 1, 1) + pl.duration(minutes=pl.int_range(ROWS)),
        place=pl.when(pl.int_range(ROWS) < ROWS // 2).then(pl.lit("here")).otherwise(pl.lit("there")),
        x0=pl.when(pl.col("x0") > 2.0).then(None).otherwise(pl.col("x0")),
    )
    frame.write_csv(path)
    return path


def bits(folder: Path) -> tuple[object, ...]:
    """Return what a finished run holds, but for times."""
    state = json.loads((folder / "run.json").read_text())
    assert state["status"] == "finished"
    for word in ("started", "finished", "seconds", "command"):
        del state["provenance"][word]
    out: list[object] = [state]
    for name in ("model.undrift", "trace.undrift"):
        header, arrays = store.read(folder / name)
        out += [header, {key: array.tobytes() for key, array in arrays.items()}]
    frame = pl.read_parquet(folder / "predictions.parquet")
    return (*out, {name: frame[name].to_numpy().tobytes() for name in frame.columns})


def main() -> int:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    dice = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        file = stream(base / "stream.csv")
        options = [str(file), "-t", "y", "--lag", "1,24", "--calendar", "--no-report", "--no-certify", "--quiet"]
        options += ["--json", "--resume"]
        begin = time.perf_counter()
        subprocess.run([*COMMAND, *options, "-o", str(base / "calm")], check=True, stdout=subprocess.DEVNULL)
        calm, expected = time.perf_counter() - begin, bits(base / "calm")
        print(f"{ROWS:,} rows in {calm:.1f} s undisturbed")
        kills = runs = resumed = 0
        while kills < wanted:
            folder, runs = base / f"run{runs}", runs + 1
            while True:
                process = subprocess.Popen([*COMMAND, *options, "-o", str(folder)], stdout=subprocess.DEVNULL)
                try:
                    code = process.wait(dice.uniform(0.4 * calm, 1.05 * calm) if kills < wanted else None)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    kills += 1
                    state = folder / "run.json"
                    rows = json.loads(state.read_text())["rows"] if state.exists() else 0
                    resumed += rows > 0
                    print(f"kill {kills} after {rows:,} committed rows")
                    continue
                assert code == 0, code
                break
            assert bits(folder) == expected, f"run {runs} differs"
            print(f"run {runs}: equal")
        print(f"{kills} kills ({resumed} with rows committed), {runs} runs, every one equal to the calm one")
    return 0


if __name__ == "__main__":
    sys.exit(main())

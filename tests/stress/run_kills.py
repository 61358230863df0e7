"""Kill -9 at random moments, many times, then give the command again: everything must be as in a calm run.

python -m tests.stress.run_kills [kills] [seed] [run | update | forecast | fleet]

"run" resumes a run. The others kill `undrift update`: of a run, of forecasts, or of a fleet, with the new rows in a
file of their own or at the end of the first file, in turn. After a kill of an update the folder must hold what it held
before, or the whole update; that of a fleet, any number of whole batches.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from tests.run.row_files import without_times
from tests.stress import fleet_folders, forecast_days
from undrift import store
from undrift.run.play.run_folder import RunFolder

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


def content(folder: Path) -> tuple[object, ...]:
    """Return what counts in a folder of a run, whatever its files are called."""
    opened = RunFolder(folder)
    state = opened.state()
    header, arrays = store.read(folder / state["model"])
    frame = opened.table(state)
    columns = {name: frame[name].to_numpy().tobytes() for name in frame.columns}
    return state["rows"], header, {key: array.tobytes() for key, array in arrays.items()}, columns


def forecast_bits(folder: Path) -> tuple[object, ...]:
    """Return what a folder of forecasts holds, but for times; no file may be left beside it."""
    state = forecast_days.state(folder)
    names = {"run.json", ".undrift", *state["files"].values()}  # type: ignore[attr-defined]
    assert {path.name for path in folder.iterdir()} == names
    learned = [{**entry, "when": ""} for entry in state["learned"]]  # type: ignore[attr-defined]
    return (*forecast_days.bits(folder), learned, (folder / "next.csv").read_bytes())


def fleet_bits(folder: Path) -> tuple[object, ...]:
    """Return what a fleet holds, but for times."""
    learned = json.loads((folder / "run.json").read_text())["learned"]
    return (*fleet_folders.results(folder), [{**entry, "when": ""} for entry in learned])


def saved_rows(folder: Path) -> object:
    """Return how many rows of each file a fleet has saved."""
    return fleet_folders.results(folder)[1]


class Task(NamedTuple):
    """A command that is killed, or runs out of room, and the folder it begins with."""

    first: list[str] | None
    """Command that makes the folder; the folder's name follows `-o`."""
    command: list[str]
    """The command, with FOLDER in place of its name."""
    bits: Callable[[Path], tuple[object, ...]]
    """Returns what a finished folder holds."""
    content: Callable[[Path], object]
    """Returns what counts in a folder that a kill left."""
    whole: bool = True
    """Whether that is what the folder held before, or all of it, at any moment."""

    def prepare(self, kept: Path) -> None:
        """Make the folder with which every try begins, if there is one."""
        if self.first is not None:
            subprocess.run([*self.first, "-o", str(kept)], check=True, stdout=subprocess.DEVNULL)

    def words(self, folder: Path) -> list[str]:
        """Return the command for a folder."""
        return [str(folder) if word == "FOLDER" else word for word in self.command]


UNDRIFT = COMMAND[:-1]
QUIET = ["--no-report", "--quiet", "--json"]


def split_file(base: Path, header: str, lines: list[str], begin: int) -> tuple[Path, Path, Path]:
    """Write the first rows of a file, the others, and all of them."""
    parts = {"first": lines[:begin], "later": lines[begin:], "all": lines}
    for name, some in parts.items():
        (base / f"{name}.csv").write_text("\n".join([header, *some]) + "\n")
    return base / "first.csv", base / "later.csv", base / "all.csv"


def make_task(kind: str, base: Path, *, appended: bool = False, rows: int = ROWS) -> Task:
    """Return a task; with `appended`, the new rows stand at the end of the first file."""
    if kind == "run":
        words = [*COMMAND, str(write_drifting_file(base / "stream.csv", rows)), *OPTIONS, "--resume", "-o", "FOLDER"]
        return Task(None, words, bits, committed, whole=False)
    update = [*UNDRIFT, "update", "FOLDER"]
    if kind == "update":
        header, *lines = write_drifting_file(base / "stream.csv", rows).read_text().splitlines()
        first, later, everything = split_file(base, header, lines, rows // 2)
        begin = [*COMMAND, str(first), *OPTIONS]
        return Task(begin, [*update, str(everything if appended else later), *QUIET], bits, content)
    if kind == "forecast":
        lines = forecast_days.year(100, 0)
        first, later, everything = split_file(base, "time,value", lines, len(lines) * 2 // 3)
        begin = [*UNDRIFT, "forecast", str(first), "-t", "value", *QUIET]
        return Task(begin, [*update, str(everything if appended else later), *QUIET], forecast_bits, forecast_days.bits)
    if kind == "first forecast":
        path = forecast_days.write(base / "all.csv", forecast_days.year(100, 0))
        words = [*UNDRIFT, "forecast", path, "-t", "value", *QUIET, "-o", "FOLDER", "--resume"]
        return Task(None, words, forecast_bits, forecast_days.bits)
    header, *lines = fleet_folders.write_keys(base / "keys.csv").read_text().splitlines()
    first, later, everything = split_file(base, header, lines, len(lines) // 2)
    begin = [*fleet_folders.COMMAND, str(first), *fleet_folders.OPTIONS]
    small = [*fleet_folders.COMMAND[:-1], "update", "FOLDER"]
    return Task(begin, [*small, str(everything if appended else later), *QUIET], fleet_bits, saved_rows, whole=False)


KINDS = ("run", "update", "forecast", "fleet")


def kills(tries: int, seed: int = 0, kind: str = "run") -> None:
    """Kill a command with SIGKILL at random moments until `tries` of them died, giving it again each time."""
    dice, killed, runs, between = random.Random(seed), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        halves = (False,) if kind == "run" else (False, True)
        for k, appended in enumerate(halves):
            base = Path(name) / str(k)
            base.mkdir()
            more = _kill_task(
                make_task(kind, base, appended=appended), base, tries * (k + 1) // len(halves) - killed, dice
            )
            killed, runs, between = killed + more[0], runs + more[1], between + more[2]
    print(f"{kind}: {killed} kills ({between} with rows committed), {runs} tries, every one equal to the calm one")


def _kill_task(task: Task, base: Path, tries: int, dice: random.Random) -> tuple[int, int, int]:
    """Return how many commands were killed, how many folders were finished, and after how many kills rows were new."""
    kept, calm = base / "kept", base / "calm"
    task.prepare(kept)

    def begin(folder: Path) -> None:
        if kept.exists():
            shutil.copytree(kept, folder)

    begin(calm)
    before = task.content(calm)
    began = time.perf_counter()
    subprocess.run(task.words(calm), check=True, stdout=subprocess.DEVNULL)
    seconds, expected, after = time.perf_counter() - began, task.bits(calm), task.content(calm)
    print(f"{seconds:.1f} s undisturbed")
    killed = finished = between = 0
    while killed < tries:
        folder, finished = base / f"try{finished}", finished + 1
        begin(folder)
        while True:
            process = subprocess.Popen(task.words(folder), stdout=subprocess.DEVNULL)
            try:
                code = process.wait(dice.uniform(0.4 * seconds, 1.05 * seconds) if killed < tries else None)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                killed += 1
                left = task.content(folder)
                assert not task.whole or left in (before, after), "neither what was there, nor the whole update"
                between += left != before
                continue
            assert code == 0, code
            break
        assert task.bits(folder) == expected, f"try {finished} differs"
        shutil.rmtree(folder)
    return killed, finished, between


def main() -> int:
    kills(
        int(sys.argv[1]) if len(sys.argv) > 1 else 20,
        int(sys.argv[2]) if len(sys.argv) > 2 else 0,
        sys.argv[3] if len(sys.argv) > 3 else "run",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Kill -9 a live run at random moments, many times, and go on from its folder: it must equal a run over the whole file.

The first rows are learned from a file; the others come through a pipe, which begins again after the last row committed.

python -m tests.stress.live_kills [kills] [seed]
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import polars as pl

from tests.stress.run_kills import COMMAND, OPTIONS, bits, committed, write_drifting_file

ROWS, HISTORY = 20_000, 2_000
LIVE = ["-", "--live", "-t", "y", "--no-report", "--quiet", "--resume"]


def feed(lines: list[str], folder: Path, seconds: float | None) -> tuple[int | None, int]:
    """Send lines to a live run that goes on from a folder; return its exit code and how many rows it answered.

    After so many seconds the run is killed, and there is no exit code.
    """
    command = [*COMMAND, *LIVE, "-o", str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    answers: list[str] = []

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), process.stdin:  # it may be killed meanwhile
            process.stdin.writelines(lines)

    threads = [threading.Thread(target=work) for work in (write, lambda: answers.extend(process.stdout))]
    for thread in threads:
        thread.start()
    code: int | None = None
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    for thread in threads:
        thread.join()
    process.stdout.close()
    return code, len(answers)


def content(folder: Path) -> tuple[object, ...]:
    """Return what a run holds that does not depend on where its rows came from: predictions, model, number of rows."""
    state, header, arrays, *_, table = bits(folder)
    del table["line"]
    learned = {name: value for name, value in arrays.items() if name.startswith("model.")}
    return state["rows"], header["model"], learned, table


def kills(tries: int, seed: int = 0) -> None:
    """Kill live runs with SIGKILL at random moments until `tries` of them died, going on from each to the end."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        file = write_drifting_file(base / "stream.csv", ROWS)
        rows = pl.read_csv(file)
        rows[:HISTORY].write_csv(base / "history.csv")
        lines = [json.dumps(row) + "\n" for row in rows[HISTORY:].to_dicts()]
        run = [*COMMAND, *OPTIONS]
        for source, folder in ((file, "whole"), (base / "history.csv", "history")):
            subprocess.run([*run, str(source), "-o", str(base / folder)], check=True, stdout=subprocess.DEVNULL)
        expected = content(base / "whole")
        begin, calm = time.perf_counter(), base / "calm"
        shutil.copytree(base / "history", calm)
        assert feed(lines, calm, None) == (0, len(lines))
        seconds = time.perf_counter() - begin
        assert content(calm) == expected, "a live run differs from the run over the file"
        print(f"{len(lines):,} rows in {seconds:.1f} s undisturbed, equal to the run over the file")
        killed = runs = resumed = 0
        while killed < tries:
            folder, runs = base / f"run{runs}", runs + 1
            shutil.copytree(base / "history", folder)
            while True:
                done = committed(folder) - HISTORY
                left = dice.uniform(0.2 * seconds, 0.8 * seconds) if killed < tries else None
                code, answered = feed(lines[done:], folder, left)
                if code is None:
                    killed += 1
                    after = committed(folder) - HISTORY
                    resumed += after > done
                    assert done <= after <= done + answered, "a row was committed that was not answered"
                    print(f"kill {killed} after {after:,} committed rows, {done + answered:,} answered")
                    continue
                assert code == 0, code
                break
            assert content(folder) == expected, f"run {runs} differs"
            print(f"run {runs}: equal")
        print(f"{killed} kills ({resumed} with rows committed), {runs} runs, every one equal to the run over the file")


if __name__ == "__main__":
    kills(int(sys.argv[1]) if len(sys.argv) > 1 else 20, int(sys.argv[2]) if len(sys.argv) > 2 else 0)

"""Fleets that are killed, run twice at once, or short of disk: nothing lost, nothing learned twice.

python -m tests.stress.fleet_folders [tries]

Every disturbed fleet is continued by the same command and compared to one that nobody disturbed: all states, the
progress, predictions.csv and keys.csv, to the byte.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

ROWS, KEYS, BATCH = 12_000, 150, 1500
SMALL = f"""
import sys
from undrift.run.fleet import play as fleet_play
fleet_play.MOST_RECORDS = fleet_play.FEWEST_RECORDS = {BATCH}  # small commits: most kills fall between two
from undrift.cli import main
main()
"""
COMMAND = [sys.executable, "-c", SMALL, "fleet"]
OPTIONS = ["-k", "key", "-t", "y", "--order", "n", "--wait", "3", "--no-report", "--quiet", "--json"]
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def write_keys(path: Path, rows: int = ROWS) -> Path:
    """Write a file of many keys, a little out of order, with copies and cells that are no numbers."""
    rng = np.random.default_rng(0)
    n = rows // KEYS * KEYS
    order = np.repeat(np.arange(n // KEYS), KEYS)
    frame = pl.DataFrame(
        {
            "key": 2**62 + np.tile(np.arange(KEYS), n // KEYS),
            "n": order,
            "a": rng.normal(size=n),
            "b": rng.normal(size=n),
        }
    )
    frame = frame.with_columns(y=2.0 * pl.col("a") + rng.normal(size=n), late=order + 3.0 * rng.random(n)).sort("late")
    lines = frame.drop("late").write_csv().splitlines()
    for at in range(500, n, 700):
        lines[at] = lines[at - 3] if at % 3 else lines[at].replace(".", "x", 1)
    path.write_text("\n".join(lines) + "\n")
    return path


def started(file: Path, folder: Path, *more: str) -> subprocess.Popen[str]:
    """Start the command."""
    command = [*COMMAND, str(file), *OPTIONS, "-o", str(folder), *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finished(file: Path, folder: Path) -> tuple[int, str]:
    """Run the command to its end; return its exit code and what it said."""
    process = started(file, folder)
    _, said = process.communicate(timeout=600)
    return process.returncode, said


def results(folder: Path) -> tuple[object, ...]:
    """Return everything that was learned and said, and what else lies in the folder."""
    with contextlib.closing(sqlite3.connect(folder / "fleet.db")) as db:
        states = db.execute("SELECT key, state FROM states ORDER BY key").fetchall()
        progress = db.execute("SELECT * FROM progress").fetchall()
    files = {path.name: path.read_bytes() for path in folder.glob("*.csv")}
    left = sorted(path.name for path in folder.glob("*") if path.name != ".undrift")
    left += [path.name for path in (folder / ".undrift").glob("*tmp-*")]
    return states, progress, files, left


def disturb_by_kill(file: Path, base: Path, expected: object, calm: float, tries: int, dice: random.Random) -> str:
    """Kill -9 `tries` times at random moments, and other signals in between; continue; compare."""
    kills = others = trial = 0
    slowest, signals = 0.0, (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, *SIGNALS)
    while kills < tries:
        folder = base / f"kill{trial}"
        trial += 1
        while True:
            process = started(file, folder)
            try:
                code = process.wait(dice.uniform(0.1, 1.1) * calm if kills < tries else 600.0)
            except subprocess.TimeoutExpired:
                number = dice.choice(signals)
                begin = time.perf_counter()
                process.send_signal(number)
                code = process.wait(60)
                kills, others = kills + (number == signal.SIGKILL), others + (number != signal.SIGKILL)
                if code == 128 + number:
                    slowest = max(slowest, time.perf_counter() - begin)
                continue
            assert code == 0, (code, process.stderr and process.stderr.read())
            break
        assert results(folder) == expected, f"{folder} differs"
    return f"{kills} kills -9 and {others} other signals ({slowest:.2f} s at most), {trial} fleets went on to equal"


def disturb_by_twins(file: Path, base: Path, expected: object, tries: int) -> str:
    """Start two at once: one is turned away, or comes after the other; nothing is learned twice."""
    refused = 0
    for trial in range(tries):
        folder = base / f"twins{trial}"
        pair = [started(file, folder) for _ in range(2)]
        ends = [(process.communicate(timeout=600)[1], process.returncode) for process in pair]
        for said, code in ends:
            assert code == 0 or (code == 2 and "is writing this fleet; wait for it to end" in said), (code, said)
        refused += sum(code == 2 for _, code in ends)
        assert any(code == 0 for _, code in ends)
        assert results(folder) == expected, f"{folder} differs"
    return f"{tries} pairs, {refused} turned away, all equal to one alone"


def disturb_by_full_disk(file: Path, base: Path, expected: object, sizes: list[int]) -> str:
    """Let the disk, or the room for one file, be too small; make room; continue."""
    stopped = 0
    for size in sizes:
        folder = base / f"full{size}"
        folder.mkdir()
        mounted = (
            os.geteuid() == 0
            and not subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(folder)], capture_output=True, check=False
            ).returncode
        )
        if not mounted:
            return "no disk could be made small here (mount needs root); not tried"
        try:
            code, said = finished(file, folder / "out")
            if code:
                assert code == 1, (size, code, said)
                assert "the disk is full; make room, then give the same command again" in said, said
                assert said.count("\n") == 1, said
                stopped += 1
                subprocess.run(["mount", "-o", "remount,size=500m", str(folder)], check=True, capture_output=True)
                code, said = finished(file, folder / "out")
            assert code == 0, (size, code, said)
            assert results(folder / "out") == expected, f"{size} kB: differs"
        finally:
            subprocess.run(["umount", str(folder)], check=True)
    return f"{len(sizes)} sizes, {stopped} ran full with one sentence, all equal once there was room"


def undisturbed(base: Path) -> tuple[Path, float, tuple[object, ...], int]:
    """Run a fleet that nobody disturbs: its file, how long it took, its results, and the kilobytes of its files."""
    file = write_keys(base / "rows.csv")
    begin = time.perf_counter()
    assert finished(file, base / "calm")[0] == 0
    calm, expected = time.perf_counter() - begin, results(base / "calm")
    size = sum(path.stat().st_size for path in (base / "calm").iterdir() if path.is_file()) // 1024
    print(f"{ROWS:,} rows, {KEYS} keys, {size} kB in {calm:.1f} s undisturbed", flush=True)
    return file, calm, expected, size


def kills(tries: int) -> int:
    """Kill fleets at random moments; print what came of it."""
    with tempfile.TemporaryDirectory() as name:
        file, calm, expected, _ = undisturbed(Path(name))
        print(disturb_by_kill(file, Path(name), expected, calm, tries, random.Random(0)), flush=True)
    return 0


def two_writers(tries: int) -> int:
    """Start two fleets on one folder; print what came of it."""
    with tempfile.TemporaryDirectory() as name:
        file, _, expected, _ = undisturbed(Path(name))
        print(disturb_by_twins(file, Path(name), expected, tries), flush=True)
    return 0


def disk_full(tries: int) -> int:
    """Let disks of so many sizes run full; print what came of it."""
    with tempfile.TemporaryDirectory() as name:
        file, _, expected, size = undisturbed(Path(name))
        sizes = [max(40, size * (k + 1) // 8) for k in range(tries)]
        print(disturb_by_full_disk(file, Path(name), expected, sizes), flush=True)
    return 0


def main(tries: int = 50) -> int:
    """Disturb fleets in every way; print what was tried."""
    return kills(tries) or two_writers(tries) or disk_full(max(1, tries // 5))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))

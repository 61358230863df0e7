"""What `undrift run` costs: start-up, a real file, growth in rows, and beside the library alone; seconds and memory.

python -m benchmarks run [largest number of rows, 1000000 by default]; the data folder is UNDRIFT_DATA.
python -m benchmarks run library [rows, 200000 by default] [--turns N]

The second line compares CPU seconds of the command with those of `OnlineRegressor.play` on the same array, at every
speed, and at fast for five times the rows; the two take turns, and a figure is the least of all turns. So is that of an
unfriendly file, whose rows have a time, texts, quotes and holes, beside `play` on its numbers alone.
"""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from benchmarks.streams import folder

COMMAND = [sys.executable, "-c", "from undrift.cli import main; main()"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Modules are compiled once, as they are where people work."""


def timed(*arguments: str) -> tuple[float, float, float]:
    """Run the command; return wall seconds, processor seconds, and the child's peak memory in MB."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    assert os.waitstatus_to_exitcode(status) == 0, arguments
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024.0


def show(what: str, rows: int | None, *arguments: str, times: int = 1) -> None:
    wall, cpu, memory = min(timed(*arguments) for _ in range(times))
    rate = "" if rows is None else f"{rows / wall:12,.0f}"
    print(f"{what:52} {wall:9.3f} {cpu:9.3f} {memory:9.0f} {rate}", flush=True)


PLACES = ("Oslo", "Bergen", "New York", '"Paris, TX"', '"the ""old"" town"', "Rome", "Lima")
SHOPS = 500


def draw(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features that move a target less and less alike."""
    rng = np.random.default_rng(0)
    Z, u = rng.normal(size=(rows, 10)), np.cumsum(0.01 * rng.normal(size=(rows, 10)), axis=0)
    return Z, np.sum(Z * u, axis=1) + 0.5 * rng.normal(size=rows)


def plain_lines(Z: np.ndarray, y: np.ndarray) -> Iterator[str]:
    """Yield the lines of a file of numbers."""
    yield ",".join([*(f"x{j}" for j in range(Z.shape[1])), "y"])
    for z, label in zip(Z.tolist(), y.tolist(), strict=True):
        yield ",".join(map(repr, [*z, label]))


def unfriendly_lines(Z: np.ndarray, y: np.ndarray) -> Iterator[str]:
    """Yield the lines of a file with times, texts, quotes and holes."""
    rng, begin = np.random.default_rng(1), dt.datetime(2020, 1, 1)
    holes, shops = rng.random(Z.shape) < 0.05, rng.integers(SHOPS, size=len(y)).tolist()
    yield ",".join(["date", "place", "shop", *(f"x{j}" for j in range(Z.shape[1])), "y"])
    for t, (z, label) in enumerate(zip(Z.tolist(), y.tolist(), strict=True)):
        when, place = begin + dt.timedelta(minutes=5 * t), PLACES[shops[t] % len(PLACES)]
        cells = ["" if hole else f"{value:.4f}" for value, hole in zip(z, holes[t].tolist(), strict=True)]
        yield ",".join([f"{when:%Y-%m-%d %H:%M:%S}", place, f"shop {shops[t]}", *cells, f"{label:.4f}"])


PLAY = """
import sys, time
import numpy as np
import undrift as ud
with np.load(sys.argv[1]) as arrays:
    Z, y = arrays["Z"], arrays["y"]
model = ud.OnlineRegressor(speed=sys.argv[2])
begin = time.process_time()
model.play(Z, y, interval=0.9)
print(time.process_time() - begin)
"""


def compare_with_library(rows: int, turns: int) -> None:
    """Print CPU seconds of the command and of the library's `play`, which take turns."""
    print(f"{'file':28} {'speed':>6} {'command':>9} {'library':>9} {'ratio':>7} {'less 1 s':>9}")
    cases = [("numbers", rows, speed) for speed in ("light", "fast", "best")]
    cases += [("numbers", 5 * rows, "fast"), ("times, texts, quotes, holes", rows, "fast")]
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        for kind, count, speed in cases:
            Z, y = draw(count)
            lines = (plain_lines if kind == "numbers" else unfriendly_lines)(Z, y)
            (base / "rows.csv").write_text("".join(chain.from_iterable((line, "\n") for line in lines)))
            np.savez(base / "rows.npz", Z=Z, y=y)
            options = ("run", str(base / "rows.csv"), "-t", "y", "--speed", speed, "--no-report", "--quiet", "--force")
            command, library = np.inf, np.inf
            for _ in range(turns):
                command = min(command, timed(*options, "-o", str(base / "run"))[1])
                play = [sys.executable, "-c", PLAY, str(base / "rows.npz"), speed]
                library = min(library, float(subprocess.run(play, check=True, capture_output=True, text=True).stdout))
            what = f"{count:,} x 10 {kind}"
            print(
                f"{what:28.28} {speed:>6} {command:9.2f} {library:9.2f} {command / library:7.2f} "
                f"{(command - 1.0) / library:9.2f}",
                flush=True,
            )


def main() -> None:
    if sys.argv[1:2] == ["library"]:
        numbers = [word for word in sys.argv[2:] if not word.startswith("--")]
        turns = int(numbers.pop()) if "--turns" in sys.argv else 3
        compare_with_library(int(numbers[0]) if numbers else 200_000, turns)
        return
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print(f"{'command':52} {'seconds':>9} {'cpu':>9} {'MB':>9} {'rows/second':>12}")
    show("undrift --version", None, "--version", times=10)
    show("undrift --help", None, "--help", times=5)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        metro = folder() / "metro_traffic.csv.gz"
        if metro.exists():
            options = (str(metro), "-t", "traffic_volume", "--no-report", "--force", "-o", str(base / "metro"))
            show("run metro_traffic (40,575 rows), no report", 40_575, "run", *options)
            show("run metro_traffic, certified", 40_575, "run", *options, "--certify")
        rows = most // 100
        while rows <= most:
            file = str(base / "stream.csv")
            subprocess.run(
                [*COMMAND, "synth", "gradual", file, "-n", str(rows), "-d", "10", "--force"],
                check=True,
                capture_output=True,
            )
            size = Path(file).stat().st_size / 1e6
            options = ("run", file, "-t", "y", "--speed", "fast", "--no-report", "--no-certify", "--force")
            show(f"run --speed fast, {rows:,} x 10 ({size:.0f} MB)", rows, *options, "-o", str(base / "run"))
            rows *= 10


if __name__ == "__main__":
    main()

"""What `undrift run` costs: start-up, a real file, and growth in rows; wall time, processor time, memory.

python -m benchmarks run [largest number of rows, 1000000 by default]; the data folder is UNDRIFT_DATA.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.streams import folder

COMMAND = [sys.executable, "-c", "from undrift.cli import main; main()"]


def timed(*arguments: str) -> tuple[float, float, float]:
    """Run the command; return wall seconds, processor seconds, and the child's peak memory in MB."""
    begin = time.perf_counter()
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    assert os.waitstatus_to_exitcode(status) == 0, arguments
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024.0


def show(what: str, rows: int | None, *arguments: str, times: int = 1) -> None:
    wall, cpu, memory = min(timed(*arguments) for _ in range(times))
    rate = "" if rows is None else f"{rows / wall:12,.0f}"
    print(f"{what:52} {wall:9.3f} {cpu:9.3f} {memory:9.0f} {rate}", flush=True)


def main() -> None:
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

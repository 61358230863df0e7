"""Small files that unpack to gigabytes: refused in little memory, or stopped by SIGTERM within a second.

python -m tests.stress.bombs [signals]
"""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.run.read.test_bounded_reading import BOMBS, HEAD, MOST, gzip_bomb, run, zstd_bomb

COMMAND = [sys.executable, "-m", "undrift", "run"]


def stop(folder: Path, name: str, after: float) -> tuple[float, int]:
    """Return how long a run of a bomb took to end after SIGTERM, and the most MiB it ever held."""
    process = subprocess.Popen(
        [*COMMAND, name, "-t", "y", "-q", "--no-report", "--force", "--task", "regression"],
        cwd=folder,
        stderr=subprocess.PIPE,
    )
    time.sleep(after)
    status = Path(f"/proc/{process.pid}/status").read_text() if process.poll() is None else "VmHWM: 0 kB"
    most = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) // 1024
    begin = time.perf_counter()
    process.terminate()
    error = process.communicate(timeout=60)[1].decode()
    assert process.returncode in (143, -signal.SIGTERM), (process.returncode, error)
    assert "Traceback" not in error, error
    return time.perf_counter() - begin, most


def main(tries: int = 6) -> int:
    most, slowest, dice = 0, 0.0, random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for name, (make, sentence) in BOMBS.items():
            (folder / name).write_bytes(make())
            code, said, used = run(folder, name)
            assert code == 3, (name, code, said)
            assert sentence in said, (name, said)
            print(f"{name}: refused, {used} MiB")
            most = max(most, used)
            (folder / name).unlink()
        (folder / "rows.csv.zst").write_bytes(zstd_bomb(HEAD, b"7,8\n", 16))
        (folder / "rows.csv.gz").write_bytes(gzip_bomb(HEAD, b"7,8\n", 4))
        for k in range(tries):
            file = ("rows.csv.zst", "rows.csv.gz")[k % 2]
            seconds, used = stop(folder, file, dice.uniform(2.0, 8.0))
            print(f"{file} ({(folder / file).stat().st_size / 1000:.0f} kB): {used} MiB, SIGTERM {seconds:.2f} s")
            most, slowest = max(most, used), max(slowest, seconds)
    assert most < MOST, most
    assert slowest < 1.0, slowest
    print(f"{len(BOMBS)} refused and {tries} stopped by SIGTERM, at most {most} MiB, the slowest after {slowest:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))

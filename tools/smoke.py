"""What a fresh install of undrift[cli] must do: learn and pass its own checks at every kernel level, and run the demo.

python tools/smoke.py    with the interpreter of the environment to try
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LEARN = """
import undrift as ud
from undrift import kernels

model = ud.DiscountedVAW(beta=0.5)
for y in (4.0, 4.0, 8.0):
    model.learn([1.0], y)
ensemble = ud.linear_ensemble()
ensemble.play([[1.0, 2.0]] * 50, [3.0] * 50)
print(kernels.level(), model.predict([1.0]), ensemble.predict([1.0, 2.0]))
"""


def run(folder: str, level: str, *arguments: str) -> str:
    """Run the interpreter at a kernel level in an empty folder, warnings being errors; return what it printed."""
    environment = {**os.environ, "UNDRIFT_KERNELS": level}
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} at level {level}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Try everything, and say in one line what was tried."""
    with tempfile.TemporaryDirectory() as folder:
        levels = run(folder, "", "-c", "from undrift import kernels; print(*kernels.levels())").split()
        for level in levels:
            used, one, many = run(folder, level, "-c", LEARN).split()
            assert used == level
            b, A = 8.0 + 4.0 / 2 + 4.0 / 4, 1.0 + 1.0 / 2 + 1.0 / 4 + 1.0 / 8  # the last is the pull towards zero
            assert abs(float(one) - 0.5 * b / (0.5 * A + 1.0)) < 1e-14
            assert abs(float(many) - 3.0) < 0.2
            assert json.loads(run(folder, level, "-m", "undrift", "doctor", "--json"))["fine"]
        run(folder, levels[0], "-m", "undrift", "demo")
        assert Path(folder, "undrift-demo", "report.html").stat().st_size > 100_000
    print(f"Python {sys.version_info[0]}.{sys.version_info[1]}: levels {', '.join(levels)} and the demo are fine")


if __name__ == "__main__":
    main()

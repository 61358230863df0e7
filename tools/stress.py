"""Run long random trials of one kind, or of all: theorems, certificates, kills, full disks, damaged files, threads.

python -m tools stress [adam] [accuracy] [run] [serve] [forecast] [fleet] [certify] [threads]
"""

from __future__ import annotations

import subprocess
import sys

TRIALS = {
    "adam": ["tests.stress.adam_theorems"],
    "accuracy": ["tests.accuracy.stress --write docs/accuracy.md"],
    "run": [
        "tests.stress.run_kills 20",
        "tests.stress.run_kills 20 0 update",
        "tests.stress.live_kills 20",
        "tests.stress.run_folders 10",
        "tests.stress.run_fuzz 1000",
        "tests.stress.spoiled_files 1000",
    ],
    "serve": ["tests.stress.serve_kills 50", "tests.stress.damaged_journals 500"],
    "forecast": ["tests.stress.forecast_days 365 20", "tests.stress.run_kills 20 0 forecast"],
    "fleet": ["tests.stress.run_kills 20 0 fleet"],
    "certify": [
        "tests.stress.certificates 100000",
        "tests.stress.certificates 6000 --climb 60",
        "tests.stress.certificates 3000 --calibrate --climb 60",
        "tests.stress.costs 10000 --climb 10",
    ],
    "threads": ["tests.stress.threads 100000"],
}
"""What each kind runs: modules of tests with their arguments."""


def main() -> int:
    """Run the trials that are named, all of them without a name; return the number that failed."""
    failed = 0
    for name in sys.argv[1:] or TRIALS:
        if name not in TRIALS:
            sys.exit(f"stress has no trials {name!r}; there are {', '.join(TRIALS)}")
        for line in TRIALS[name]:
            print(f"python -m {line}", flush=True)
            failed += subprocess.run([sys.executable, "-m", *line.split()]).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""Run every test at every kernel level of this machine but the best, which make test uses.

python -m tools levels [arguments for pytest]
"""

from __future__ import annotations

import os
import subprocess
import sys

from undrift import kernels


def main() -> int:
    """Return the first exit code that is not 0."""
    for level in kernels.levels()[1:]:
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "--suite", "all", *sys.argv[1:]]
        print(f"level {level}", flush=True)
        code = subprocess.run(command, env={**os.environ, "UNDRIFT_KERNELS": level}).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Run all that takes long, or the parts that are named; a part that fails does not keep the others from running.

python -m tools nightly [test-all] [levels] [neon] [wheels] [newest] [lowest] [fuzz] [sanitize] [mutants] [stress]
    [attack]
"""

from __future__ import annotations

import subprocess
import sys
import time

PARTS = {
    "test-all": "make test-all",
    "levels": "python -m tools levels",
    "neon": "python -m tests.stress.neon_level",
    "wheels": "make wheels",
    "newest": "python -m tools newest",
    "lowest": "python -m tools lowest",
    "fuzz": "python -m tests.stress.kernel_fuzz 300",
    "sanitize": "python -m tests.stress.sanitized",
    "mutants": "python -m tools mutants",
    "stress": "python -m tools stress",
    "attack": "python -m tests.stress.attack --write docs/survives.md",
}


def main() -> int:
    """Return 1 if a part failed."""
    failed = []
    for name in sys.argv[1:] or PARTS:
        if name not in PARTS:
            sys.exit(f"nightly has no part {name!r}; there are {', '.join(PARTS)}")
        program, *arguments = PARTS[name].split()
        begin = time.monotonic()
        code = subprocess.run([sys.executable if program == "python" else program, *arguments]).returncode
        print(f"nightly {name}: exit code {code}, {time.monotonic() - begin:.0f} s", flush=True)
        if code:
            failed.append(name)
    print(f"failed: {', '.join(failed) or 'nothing'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

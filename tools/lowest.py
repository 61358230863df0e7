"""Run tests of what users install with the lowest versions inside the published ranges, in .venv-lowest.

python -m tools lowest [arguments for pytest]

Every extra that users install but torch and Spark, whose old versions bring gigabytes or need old Pythons; what those
packages depend on is as new as it can be. Warnings of old packages about new ones do not count.
"""

from __future__ import annotations

import subprocess
import sys

from tools.newest import PYTEST, ROOT, install, make_environment

EXTRAS = ("serve", "river", "sklearn", "optax")
TOOLS = ("pytest!=9.2.0", "pytest-xdist", "hypothesis", "packaging", "pyarrow")
FOLDERS = ("cli", "run", "serve", "report", "online", "forecast", "contract", "fleet", "optax", "river", "sklearn")
TESTS = (*(f"tests/{name}" for name in FOLDERS), "tests/test_store.py")


def main() -> int:
    """Install, and return the exit code of pytest."""
    python = make_environment(".venv-lowest")
    held = ROOT / "locks" / "held.txt"
    install(python, held, "packaging")
    listed = subprocess.run(
        [python, "-m", "tools", "locks", "--lowest", *EXTRAS], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    lowest = python.parents[1] / "lowest.txt"
    lowest.write_text(listed)
    install(python, lowest, "--editable", f".[{','.join(EXTRAS)}]", *TOOLS)
    command = [python, *PYTEST, "-W", "default", *(sys.argv[1:] or TESTS)]
    return subprocess.run(command, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())

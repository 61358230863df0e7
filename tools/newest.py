"""Run the quick tests with the newest versions inside the published ranges, in .venv-newest; locks stay as they are.

python -m tools newest [arguments for pytest]
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTEST = ("-m", "pytest", "-n", "2", "--dist", "loadgroup")


def make_environment(name: str) -> Path:
    """Return the interpreter of a virtual environment in the project's folder, made where there is none."""
    folder = ROOT / name
    if not folder.exists():
        venv.create(folder, with_pip=True)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def install(python: Path, constraints: Path, *wanted: str) -> None:
    """Install packages within constraints, which hold for builds too."""
    limits = {"PIP_CONSTRAINT": str(constraints), "PIP_BUILD_CONSTRAINT": str(constraints)}
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **limits}, check=True)


def main() -> int:
    """Install, print where versions differ from the lock, and return the exit code of pytest."""
    python = make_environment(".venv-newest")
    held = ROOT / "locks" / "held.txt"
    install(python, held, "--upgrade", "--upgrade-strategy", "eager", "--editable", ".[test]")
    subprocess.run([python, "-m", "tools", "locks", "--compare", "test"], cwd=ROOT, check=True)
    return subprocess.run([python, *PYTEST, *sys.argv[1:]], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())

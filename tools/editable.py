"""Compile undrift once: write an editable wheel of this checkout to build/editable, for every environment to install.

    python tools/editable.py

The build folder is kept, so that only what changed is compiled again. Build tools are installed where Python runs.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "editable"


def install(requirements: list[str]) -> None:
    """Install packages into the environment of this Python; pip's settings come from the environment."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    subprocess.run(command, check=True)
    importlib.invalidate_caches()


def main() -> None:
    """Build the wheel."""
    os.chdir(ROOT)
    install(tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"])
    backend = importlib.import_module("scikit_build_core.build")
    settings = {"build-dir": f"build/native-{sys.implementation.cache_tag}"}
    if missing := backend.get_requires_for_build_editable(settings):  # CMake and Ninja, where the system has none
        install(missing)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    print(backend.build_editable(str(OUT), settings))


if __name__ == "__main__":
    main()

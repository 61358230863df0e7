"""Build the kernels with the address and undefined-behaviour sanitizers, and run the kernel tests on them.

python -m tests.stress.sanitized
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "sanitize"
LIBRARIES = ("libasan.so", "libubsan.so")


def build() -> None:
    """Compile the kernels with sanitizers into build/sanitize."""
    configure = ["-S", ROOT, "-B", BUILD, "-DUNDRIFT_SANITIZE=ON", f"-DPython_EXECUTABLE={sys.executable}"]
    for arguments in (configure, ["--build", BUILD, "--parallel", "2"]):
        subprocess.run(["cmake", *arguments], check=True)


def run_tests() -> int:
    """Run the kernel tests on the compiled module, in a process that has the sanitizers loaded."""
    site = BUILD / "site"
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "undrift", site / "undrift", ignore=shutil.ignore_patterns("native", "__pycache__"))
    for module in BUILD.glob("_native*.so"):
        shutil.copy(module, site / "undrift" / "kernels")
    # The editable install would otherwise answer for `undrift`.
    sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
    sys.path.insert(0, str(site))
    tests = sorted(str(path) for path in (ROOT / "tests" / "parity").glob("test_kernel*.py"))
    options = ["-q", "-x", "--suite", "all", "--capture=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return int(pytest.main([*options, *tests]))


def main() -> int:
    """Build, then run the tests in a process of their own; return its exit code."""
    if "tests" in sys.argv[1:]:
        return run_tests()
    build()
    find = [os.environ.get("CXX", "c++")]
    paths = [
        subprocess.run([*find, f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
        for name in LIBRARIES
    ]
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "LD_PRELOAD": " ".join(paths)}
    command = [sys.executable, "-m", "tests.stress.sanitized", "tests"]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())

"""The NEON level on any machine: kernels cross-compiled, run by an emulator, and put through the kernels' own tests.

    python -m tests.stress.neon_level [arguments for pytest]

Needs g++ for 64-bit ARM and qemu's user mode; without them it says so and ends well. The level `portable`, compiled for
the same processor, goes through the same tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NATIVE, BUILD = ROOT / "src/undrift/kernels/native", ROOT / "build/neon"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
# as in CMakeLists.txt
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]
LEVELS = {"portable": 0, "neon": 1}
TESTS = ["tests/parity", "tests/accuracy"]
SHAPES = "not fit"  # names of tests about arrays that do not fit together, which only the bindings check


def build() -> Path:
    """Compile the levels and the server; return the server's path."""
    BUILD.mkdir(parents=True, exist_ok=True)
    objects = []
    for name, number in LEVELS.items():
        for source in ("level", "adam_level"):
            objects.append(BUILD / f"{source}_{name}.o")
            define = f"-DUNDRIFT_LEVEL={number}"
            subprocess.run([COMPILER, *FLAGS, define, "-c", NATIVE / f"{source}.cpp", "-o", objects[-1]], check=True)
    server, sources = BUILD / "kernel_server", [NATIVE / "dispatch.cpp", HERE / "neon/kernel_server.cpp"]
    linked = ["-DUNDRIFT_NEON", "-static", "-pthread", *sources, *objects, "-o", server]
    subprocess.run([COMPILER, *FLAGS, *linked], check=True)
    return server


def main() -> int:
    missing = [tool for tool in (COMPILER, EMULATOR) if shutil.which(tool) is None]
    if missing:
        print(
            f"the NEON level is not tested: {' and '.join(missing)} not found; "
            "on Debian: apt install g++-aarch64-linux-gnu qemu-user"
        )
        return 0
    environment = {**os.environ, "UNDRIFT_SERVER": f"{EMULATOR} {build()}"}
    environment.pop("UNDRIFT_KERNELS", None)  # a level of this machine's own
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(HERE / "neon"), str(HERE.parents[1]), os.environ.get("PYTHONPATH")])
    )
    chosen = sys.argv[1:] or TESTS
    command = [sys.executable, "-m", "pytest", "-q", "-p", "remote_kernels", "-k", SHAPES, *chosen]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())

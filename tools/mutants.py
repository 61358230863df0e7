"""Deliberate errors that the tests must notice: python tools/mutants.py [--quick] [NAME ...].

`mutants.toml` lists them: a text of a source file and what to put in its place, and the tests that must then fail.
Nothing in the working tree changes. A mutated Python module exists only in the process that runs its tests, a fork of
one that has pytest and NumPy loaded already; a mutated kernel is compiled in build/mutants. Exit code 1 if an error
goes unnoticed, or if the tests fail without one.

They are written by hand because generated ones are other errors: of the 41 in theory/bounds.py and regret/d2d.py (a
term halved, dropped or of the wrong round, another path measured), cosmic-ray 8.7 makes 2 among 1,847 mutants. And they
reach the C++ kernels.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Sequence
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tools" / "mutants.toml"
NATIVE = "src/undrift/kernels/native"
PATIENCE = 300.0
"""Seconds after which a run with an error that does not end is given up: it has noticed nothing."""
PASSED, FAILED = 0, 1
"""Exit codes of pytest; any other one says that tests could not be run."""


class Mutant(NamedTuple):
    """One deliberate error."""

    name: str
    file: str
    """Path from the root of the repository."""
    old: str
    """Text that occurs exactly once in the file."""
    new: str
    tests: tuple[str, ...]
    """What must fail: files, or tests by their pytest names."""
    quick: bool = False
    """Whether the ordinary tests try it too."""

    @property
    def source(self) -> str:
        """The file with the error in it."""
        text = (ROOT / self.file).read_text()
        if text.count(self.old) != 1:
            raise SystemExit(f"{self.name}: its text occurs {text.count(self.old)} times in {self.file}; mend the list")
        return text.replace(self.old, self.new)

    @property
    def module(self) -> str:
        """The Python module that differs."""
        if self.file.startswith(NATIVE):
            return "undrift.kernels._native"
        return self.file.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def read_list() -> list[Mutant]:
    """Return all deliberate errors."""
    entries = tomllib.loads(LIST.read_text())["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


class MutatedSource(importlib.abc.InspectLoader):
    """Load one module from a text instead of its file."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text

    def get_source(self, fullname: str) -> str:
        """Return the text."""
        return self.text

    def get_code(self, fullname: str) -> CodeType:
        """Return the text compiled; no cache is read or written."""
        return compile(self.text, str(self.path), "exec")


class Redirect(importlib.abc.MetaPathFinder):
    """Answer for one module; everything else is found as usual."""

    def __init__(self, mutant: Mutant, library: Path | None) -> None:
        self.mutant, self.library = mutant, library

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where the mutated module comes from; None for any other module."""
        if fullname != self.mutant.module:
            return None
        if self.library is not None:
            return spec_from_file_location(fullname, self.library)
        file = ROOT / self.mutant.file
        places = [str(file.parent)] if file.name == "__init__.py" else None
        loader = MutatedSource(file, self.mutant.source)
        return spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=places)


def run_tests(tests: Sequence[str], mutant: Mutant | None = None, library: Path | None = None) -> tuple[int, str]:
    """Run tests in a fork of this process and return pytest's exit code, -1 if it did not end, and what it printed."""
    with tempfile.TemporaryFile() as printed:
        child = os.fork()
        if not child:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            if mutant is not None:
                sys.meta_path.insert(0, Redirect(mutant, library))
            import pytest

            plain = ["-x", "-q", "--suite=all", "--no-header", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist"]
            code = 3
            try:
                code = int(pytest.main([*plain, *tests]))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        code = _wait(child, PATIENCE if mutant else math.inf)
        printed.seek(0)
        return code, printed.read().decode(errors="replace")


def _wait(child: int, patience: float) -> int:
    """Return a child's exit code; negative for one that had to be stopped, or crashed."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


def build_kernels(mutant: Mutant) -> Path:
    """Compile the kernels with the error in them, at the portable level only, and return the library."""
    tree, build = ROOT / "build" / "mutants" / "tree", ROOT / "build" / "mutants" / "build"
    (tree / NATIVE).mkdir(parents=True, exist_ok=True)
    for path in [ROOT / "CMakeLists.txt", *sorted((ROOT / NATIVE).iterdir())]:
        name = path.relative_to(ROOT).as_posix()
        text = mutant.source if name == mutant.file else path.read_text()
        place = tree / name
        if not place.exists() or place.read_text() != text:  # what did not change is not compiled again
            place.write_text(text)
    options = [f"-DPython_EXECUTABLE={sys.executable}", "-DUNDRIFT_CAN_X86=OFF", "-DUNDRIFT_CAN_NEON=OFF"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    for command in (
        ["cmake", "-S", str(tree), "-B", str(build), *options],
        ["cmake", "--build", str(build), "--parallel", "2"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(
                f"{mutant.name}: the kernels cannot be compiled\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
    (library,) = build.glob("_native*.so")
    return library


def judge(mutant: Mutant) -> str:
    """Return "killed", or what went wrong."""
    code, printed = run_tests(mutant.tests, mutant, build_kernels(mutant) if mutant.file.startswith(NATIVE) else None)
    if code == FAILED:
        return "killed"
    if code == PASSED:
        return "SURVIVED: " + ", ".join(mutant.tests)
    reason = "did not end or crashed" if code < 0 else f"pytest ended with {code}"
    return f"BROKEN: {reason}\n{printed[-1500:]}"


def main() -> int:
    """Try the errors that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only errors whose name contains one of these")
    parser.add_argument("--quick", action="store_true", help="only those that the ordinary tests try")
    options = parser.parse_args()
    chosen = [one for one in read_list() if one.quick or not options.quick]
    if options.names:
        chosen = [one for one in chosen if any(part in one.name for part in options.names)]
    os.chdir(ROOT)
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for name in ("mpmath", "numpy.testing", "pytest"):  # loaded once, before the forks
        __import__(name)
    if not options.quick:
        code, printed = run_tests(sorted({test for one in chosen for test in one.tests}))
        if code != PASSED:
            print(printed[-3000:], "\nthe tests fail without any error; mend them first", sep="")
            return 1
    missed = 0
    for number, one in enumerate(chosen, 1):
        begin = time.monotonic()
        verdict = judge(one)
        missed += verdict != "killed"
        print(f"{number:3}/{len(chosen)} {time.monotonic() - begin:5.1f} s  {one.name}: {verdict}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} deliberate errors noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

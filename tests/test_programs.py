"""`make`, `python -m tools` and `python -m benchmarks`: what there is is listed, and what is wrong is one sentence."""

import re
import subprocess
import sys

import pytest

from tests.helpers import ROOT
from tools import nightly, stress
from tools.__main__ import find_programs

PACKAGES = ("tools", "benchmarks")


def call(package, *arguments):
    command = [sys.executable, "-m", package, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_makefile_keeps_what_people_type():
    (targets,) = re.findall(r"^\.PHONY: (demo .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets.split() == ["demo", "test", "test-all", "docs", "wheels", "nightly", "clean"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_program_is_listed_with_a_line(package):
    programs = find_programs(ROOT / package)
    assert len(programs) > 8
    listed = call(package).stdout
    for name, line in programs.items():
        assert line, name
        assert f"  {name:16} {line}\n" in listed


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_told_what_there_is(package):
    done = call(package, "no-such-thing")
    assert done.returncode == 1
    assert done.stderr.startswith(f"{package} has no program 'no-such-thing'; there are ")


def test_a_missing_library_is_named(tmp_path):
    (tmp_path / "pieces").mkdir()
    (tmp_path / "pieces" / "one.py").write_text(
        '"""One."""\nimport no_such_library\nif __name__ == "__main__":\n    pass\n'
    )
    program = "import sys; from pathlib import Path; from tools.__main__ import main; main('pieces', Path(sys.path[0]))"
    code = f"import sys; sys.path[0:0] = [{str(tmp_path / 'pieces')!r}, {str(tmp_path)!r}]; {program}"
    done = subprocess.run([sys.executable, "-c", code, "one"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (
        done.stderr.strip() == "pieces one needs no_such_library, which is not installed: pip install no_such_library"
    )


def test_nightly_and_stress_name_modules_that_exist():
    lines = [*nightly.PARTS.values(), *(f"python -m {line}" for trials in stress.TRIALS.values() for line in trials)]
    for line in lines:
        program, *arguments = line.split()
        if program == "python":
            assert arguments[0] == "-m"
            path = ROOT / f"{arguments[1].replace('.', '/')}.py"
            assert path.exists() or arguments[1] == "tools", line
            if arguments[1] == "tools":
                assert arguments[2] in find_programs(ROOT / "tools"), line

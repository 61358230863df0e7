"""The list of deliberate errors is up to date, and the quick ones are noticed; `python -m tools mutants`: all."""

import subprocess
import sys

import pytest

from tools.mutants import ROOT, read_list

MUTANTS = read_list()


def test_every_error_changes_one_text_that_is_there():
    for one in MUTANTS:
        assert (ROOT / one.file).read_text().count(one.old) == 1, one.name
        assert one.new != one.old, one.name
        if one.file.endswith(".py"):
            compile(one.source, one.file, "exec")
    assert len({one.name for one in MUTANTS}) == len(MUTANTS) >= 94


def test_every_error_names_tests_that_exist():
    for one in MUTANTS:
        assert one.tests, one.name
        for test in one.tests:
            file, _, name = test.partition("::")
            assert (ROOT / file).is_file(), one.name
            assert not name or f"def {name}(" in (ROOT / file).read_text(), one.name


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_dozen_errors_are_noticed():
    command = [sys.executable, str(ROOT / "tools" / "mutants.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 of 12 deliberate errors noticed" in done.stdout

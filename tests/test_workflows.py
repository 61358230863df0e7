"""The workflows are valid, cover the Pythons of the locks, call targets that exist, and need no secret."""

import re
import subprocess
import sys

import pytest
import yaml

from tests.helpers import ROOT
from tools import locks

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def check(schema, *files):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_workflows_are_valid():
    assert {path.stem for path in WORKFLOWS} == {"test", "wheels", "release", "docs", "nightly"}
    done = check("vendor.github-workflows", *WORKFLOWS)
    assert done.returncode == 0, done.stdout
    done = check("vendor.dependabot", ROOT / ".github" / "dependabot.yml")
    assert done.returncode == 0, done.stdout


def test_the_schema_refuses_a_misspelt_key(tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "run-on:"))
    assert check("vendor.github-workflows", wrong).returncode == 1


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_reads_only_and_pins_its_actions(path):
    text = path.read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}  # jobs that publish ask for more
    assert "secrets." not in text
    for action in re.findall(r"uses: ([^./\s]\S*)", text):
        assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", action), action


def test_the_tests_run_on_every_python_that_the_locks_serve():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    for name in ("unix", "windows"):
        assert jobs[name]["strategy"]["matrix"]["python"] == list(locks.PYTHONS)


def test_workflows_call_targets_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    called = set(re.findall(r"run: make ([\w-]+)", "".join(path.read_text() for path in WORKFLOWS)))
    assert called == {"test", "test-all", "docs", "nightly"}
    for target in called:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target

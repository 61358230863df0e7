"""CONTRIBUTING keeps its word: in a copy of the project, a learner is one file and one export line, and all follows."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import undrift as ud
from tests.docs.test_site import ROOT, blocks
from undrift.kernels import _native

pytestmark = pytest.mark.slow

EXPORT = "from undrift.learners.midrange import Midrange as Midrange\n"
START = """
import sys
sys.meta_path = [finder for finder in sys.meta_path if isinstance(finder, type)]  # not that of an editable install
sys.path.insert(0, "src")
import undrift as ud
assert ud.__file__.startswith(sys.argv[1]), ud.__file__
"""
USE = """
model = ud.Midrange()
model.play([[]] * 3, [1.0, 4.0, 2.0])
model.save("midrange.undrift")
again = ud.load("midrange.undrift")
assert again == model and again.predict([]) == 2.5, again
try:
    model.template([[]] * 3, [1.0, 4.0, 2.0])
except ud.errors.ConditionError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """A copy of the project with the learner of CONTRIBUTING.md: one new file, one more line."""
    root = tmp_path_factory.mktemp("project")
    unused = shutil.ignore_patterns("__pycache__", "native", "*.so", "*.pyd", "data")
    for name in ("src/undrift", "docs", "tests/contract", "tests/docs"):
        shutil.copytree(ROOT / name, root / name, ignore=unused)
    tests = [f"tests/{name}.py" for name in ("__init__", "conftest", "helpers")]
    for name in (*tests, "pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, root / name)
    shutil.copy(_native.__file__, root / "src" / "undrift" / "kernels" / Path(_native.__file__).name)
    learners = root / "src" / "undrift" / "learners"
    (code,) = blocks(ROOT / "CONTRIBUTING.md", "python")
    (learners / "midrange.py").write_text(code, encoding="utf-8")
    with (learners / "__init__.py").open("a", encoding="utf-8") as exports:
        exports.write(EXPORT)
    return root


def run(root, program):
    done = subprocess.run([sys.executable, "-c", START + program, root], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_public_its_files_load_and_it_says_what_it_promises(scratch):
    assert not hasattr(ud, "Midrange")
    assert "Midrange makes no promise" in run(scratch, USE)


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["tests/contract/test_learners.py", "-k", "Midrange or exported"], 2),
        (["tests/docs/test_site.py", "-k", "reference or threads"], 2),
        (["src/undrift/learners/midrange.py"], 1),
    ],
    ids=["contract", "reference", "docstring"],
)
def test_the_tests_that_follow_by_themselves_see_it(scratch, arguments, count):
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    said = run(scratch, f"import pytest\nsys.exit(pytest.main({[*options, *arguments]!r}))")
    assert f"{count} passed" in said

"""What people install: the sdist builds a wheel, the wheel works in an empty environment and holds no leftovers."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile

import pytest

from tests.helpers import ROOT

LOCK = (ROOT / "locks" / "test.txt").as_uri()
LOCKED = {**os.environ, "PIP_CONSTRAINT": LOCK, "PIP_BUILD_CONSTRAINT": LOCK}
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packaging")]  # one build for all of them


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the sdist from the tree and the wheel from that sdist."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", out, ROOT]
    subprocess.run(command, check=True, capture_output=True, env=LOCKED)
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def test_the_sdist_holds_the_sources(built):
    with tarfile.open(built[0]) as sdist:
        names = sdist.getnames()
    assert any(name.endswith("src/undrift/kernels/native/module.cpp") for name in names)
    assert any(name.endswith("LICENSE") for name in names)
    assert not any("/.venv" in name or "/.git/" in name for name in names)


def test_the_wheel_holds_the_module_and_types_but_no_sources(built):
    names = zipfile.ZipFile(built[1]).namelist()
    assert any(name.startswith("undrift/kernels/_native") and name.endswith((".so", ".pyd")) for name in names)
    assert "undrift/py.typed" in names
    assert "undrift/data/nyc_departures.csv.gz" in names
    assert {"undrift/report/templates/run.html", "undrift/report/templates/draw.js"} <= set(names)
    assert not any(name.endswith((".cpp", ".hpp")) for name in names)


def test_the_wheel_says_which_pythons_it_serves(built):
    tag = "cp311-cp311" if sys.version_info < (3, 12) else "cp312-abi3"
    assert f"-{tag}-" in built[1].name


def test_the_wheel_works_in_an_empty_environment_without_a_compiler(built, tmp_path):
    venv.create(tmp_path, with_pip=True)
    python = tmp_path / "bin" / "python"
    bare = {**LOCKED, "PATH": str(python.parent), "CXX": "no-compiler"}
    subprocess.run([python, "-m", "pip", "install", "--quiet", built[1]], check=True, env=bare)
    program = "import undrift as ud; m = ud.DiscountedVAW(); m.learn([1.0], 2.0); print(m.predict([1.0]))"
    run = subprocess.run(
        [python, "-W", "error", "-c", program], check=True, capture_output=True, text=True, cwd=tmp_path, env=bare
    )
    assert 0.0 < float(run.stdout) < 2.0

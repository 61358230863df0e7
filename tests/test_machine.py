"""Without a compiler or with an old Python, building ends in one sentence that says what to install."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.helpers import ROOT

pytestmark = pytest.mark.skipif(os.name == "nt", reason="shells and paths of Unix")


@pytest.fixture
def bare(tmp_path):
    """A path on which there is Python and no compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to(sys.executable)
    return {"PATH": str(folder), "HOME": str(tmp_path)}


def make(tmp_path, environment, *settings):
    venv = tmp_path / "env"
    command = [shutil.which("make"), f"VENV={venv}", *settings, f"{venv}/bin/python"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode
    assert not venv.exists()
    return done.stderr.splitlines()


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake here: pip install cmake")
@pytest.mark.parametrize("compiler", [{}, {"CXX": "no-such-compiler"}])
def test_cmake_says_that_a_compiler_is_needed(tmp_path, bare, compiler):
    command = [shutil.which("cmake"), "-S", ROOT, "-B", tmp_path / "build", "-G", "Unix Makefiles"]
    command += [f"-DCMAKE_MAKE_PROGRAM={shutil.which('make')}", f"-DPython_EXECUTABLE={sys.executable}"]
    done = subprocess.run(command, env={**bare, **compiler}, capture_output=True, text=True)
    assert done.returncode
    said = " ".join(done.stderr.split())
    assert "undrift is compiled here and needs a C++17 compiler, but found none: install one (" in said
    assert "or take a wheel, which needs none: pip install --only-binary undrift undrift" in said
    assert said.count("CMake Error") == 1


def test_make_says_that_a_compiler_is_needed(tmp_path, bare):
    said, _ = make(tmp_path, bare)
    assert said == ("undrift needs a C++17 compiler: apt install g++ (Debian, Ubuntu), xcode-select --install (macOS)")


def test_make_says_that_python_is_too_old(tmp_path, bare):
    old = tmp_path / "python3.9"
    old.write_text(f"""#!{shutil.which("sh")}
exec {sys.executable} -c 'import sys; sys.version_info = (3, 9, 1); exec(sys.argv[1])' "$2"
""")
    old.chmod(0o755)
    said, _ = make(tmp_path, bare, f"PYTHON={old}")
    assert said == "undrift needs Python 3.11 or newer, this is 3.9: make PYTHON=python3.11 ..."

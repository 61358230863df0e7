"""Build the sdist, from it a wheel for Python 3.11 and one for all later, and try each where no compiler is found.

make wheels    or    python tools/wheels.py [python3.11 python3.12 ...]

Without names it takes the interpreters on the path and those of pyenv. Files that passed end in dist/.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
LATER = 12
"""The first minor version of Python whose wheel serves all later ones."""


def run(*command: str | Path, **environment: str) -> str:
    """Run a command with these additions to the environment; return its output, show it if the command fails."""
    settings = {"env": {**os.environ, **environment}, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, text=True, cwd=ROOT, **settings)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(map(str, command))}: exit code {done.returncode}")
    return done.stdout


def lock() -> dict[str, str]:
    """Return the settings that make pip, its builds included, take the versions of the lock; a URI may hold spaces."""
    file = (ROOT / "locks" / "test.txt").as_uri()
    return {"PIP_CONSTRAINT": file, "PIP_BUILD_CONSTRAINT": file, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def interpreters(names: list[str]) -> dict[int, str]:
    """Return an interpreter for each minor version of Python 3 from 11 on."""
    if not names:
        root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
        names = [f"python3.{minor}" for minor in range(11, 30)] + sorted(map(str, root.glob("versions/3.*/bin/python")))
    found: dict[int, str] = {}
    for path in filter(None, map(shutil.which, names)):
        show = "import sys; print(sys.version_info[1] if sys.implementation.name == 'cpython' else 0)"
        asked = subprocess.run([path, "-c", show], capture_output=True, text=True)
        if asked.returncode == 0 and int(asked.stdout) >= 11:
            found.setdefault(int(asked.stdout), path)
    return found


def new_environment(python: str, folder: Path) -> Path:
    """Make a virtual environment; return its interpreter."""
    run(python, "-m", "venv", folder)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def build_wheel(sdist: Path, python: str, folder: Path) -> Path:
    """Build a wheel; on Linux give it the tag of the oldest systems it runs on."""
    builder = new_environment(python, folder / "builder")
    run(builder, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, sdist, **lock())
    (wheel,) = folder.glob("*.whl")
    if sys.platform == "linux":
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder / "repaired", wheel, PATH=tools)
        (wheel,) = (folder / "repaired").glob("*.whl")
    if "-abi3-" in wheel.name:
        run(sys.executable, "-m", "abi3audit", "--strict", wheel)
    return wheel


def try_wheel(wheel: Path, python: str, folder: Path) -> str:
    """Install a wheel where nothing can be compiled, and use it."""
    fresh = new_environment(python, folder)
    bare = {"PATH": str(fresh.parent), "CXX": "no-compiler", "CC": "no-compiler"}
    run(fresh, "-m", "pip", "install", "--only-binary", ":all:", f"undrift[cli] @ {wheel.as_uri()}", **bare, **lock())
    return run(fresh, ROOT / "tools" / "smoke.py", **bare).strip()


def main() -> None:
    """Build and try everything that the interpreters here allow."""
    found = interpreters(sys.argv[1:])
    later = sorted(minor for minor in found if minor >= LATER)
    for missing, versions in ((11 not in found, "3.11"), (not later, "3.12 or newer")):
        if missing:
            print(f"no Python {versions} here, so its wheel is left out; name one: python tools/wheels.py PATH ...")
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST, ROOT, **lock())
    (sdist,) = DIST.glob("*.tar.gz")
    print(sdist.name, flush=True)
    for builder, users in ((11, [11]), (later[0] if later else 0, later)):
        if builder not in found:
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            wheel = build_wheel(sdist, found[builder], folder)
            print(re.sub(r"^undrift-[^-]*-", "", wheel.name), flush=True)
            for minor in users:
                print("  " + try_wheel(wheel, found[minor], folder / str(minor)), flush=True)
            shutil.copy(wheel, DIST)


if __name__ == "__main__":
    main()

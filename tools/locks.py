"""Write locks/: one version of all that `make demo`, `make test` and `make test-all` install.

python -m tools locks [test] [networks] [hosts] [spark]
python -m tools locks --compare [test] [networks] [hosts] [spark]    where what is installed differs
python -m tools locks --lowest cli serve ...    pip constraints: everything these extras name, at its lower bound

The published requirements in pyproject.toml are ranges; a lock is a list of pip constraints inside them. pip resolves
each lock once for every Python we support, from wheels alone, so that nobody compiles anything but undrift. Later
Pythons take the versions of the oldest where they can; where they cannot, lines carry markers. Packages that only other
systems need are locked too.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
HELD = ROOT / "locks" / "held.txt"
LOCKS = {"test": ("test-all",), "networks": ("test-networks",), "hosts": ("test-hosts",), "spark": ("test-spark",)}
"""The extras of pyproject.toml that each environment installs."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = (
    {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"},
    {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "aarch64"},
    {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix", "platform_machine": "arm64"},
    {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt", "platform_machine": "AMD64"},
)
ALONE = ("torch", "pyspark")
"""Resolved one by one: torch because it may ask for gigabytes of CUDA, pyspark because there is no wheel of it."""
ACCELERATOR = ("cuda-", "nvidia-", "triton")
"""Names of what a CUDA build of torch pulls in, to the exact version and by itself; locks leave it out."""

Versions = dict[str, str]


def requirements(extras: Iterable[str]) -> list[str]:
    """Return what undrift with these extras needs, and its build (CMake and Ninja where the system has none)."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    optional = pyproject["project"]["optional-dependencies"]

    def expand(names: Iterable[str]) -> Iterator[str]:
        for text in itertools.chain.from_iterable(optional[name] for name in names):
            requirement = Requirement(text)
            if requirement.name == "undrift":
                yield from expand(requirement.extras)
            else:
                yield text

    build = [*pyproject["build-system"]["requires"], "cmake>=3.20", "ninja>=1.5"]
    return sorted({*pyproject["project"]["dependencies"], *expand(extras), *build})


def environments(pythons: Iterable[str] = PYTHONS) -> Iterator[dict[str, str]]:
    """Return the marker environments of every supported Python on every supported system."""
    for python, system in itertools.product(pythons, SYSTEMS):
        yield {**system, "python_version": python, "python_full_version": f"{python}.0", "extra": ""}


def needed(requires: Iterable[str], extras: Iterable[str] = ()) -> Iterator[Requirement]:
    """Return the requirements that apply on some supported Python and system, CUDA packages left out."""
    for requirement in map(Requirement, requires):
        if canonicalize_name(requirement.name).startswith(ACCELERATOR):
            continue
        wheres = ({**where, "extra": extra} for where in environments() for extra in ("", *extras))
        if requirement.marker is None or any(map(requirement.marker.evaluate, wheres)):
            yield requirement


def resolve(wanted: Iterable[str], constraints: Path, *options: str) -> list[dict[str, Any]]:
    """Return pip's report on what it would install, nothing installed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--target", folder]
        limits = ["--constraint", str(constraints), "--report", str(report)]
        subprocess.run([*pip, *limits, *options, *wanted], check=True)
        return json.loads(report.read_text())["install"]


def resolve_alone(requirement: str) -> tuple[str, list[str]]:
    """Return the version of one package, without the name of a local build, and what it requires."""
    metadata = resolve([requirement], HELD, "--no-deps")[0]["metadata"]
    return metadata["version"].partition("+")[0], [f"{r.name}{r.specifier}" for r in needed(metadata["requires_dist"])]


def lock(wanted: list[str], python: str, constraints: Path = HELD) -> Versions:
    """Resolve for one Python, then again with what other systems and Pythons need besides, until nothing is missing."""
    while True:
        report = resolve(wanted, constraints, "--only-binary", ":all:", "--python-version", python)
        pairs = ((canonicalize_name(item["metadata"]["name"]), item["metadata"]["version"]) for item in report)
        found = {name: version.partition("+")[0] for name, version in pairs if not name.startswith(ACCELERATOR)}
        missing = {
            f"{requirement.name}{requirement.specifier}"
            for item in report
            for requirement in needed(item["metadata"].get("requires_dist", ()), item.get("requested_extras", ()))
            if canonicalize_name(requirement.name) not in found
        }
        if not missing:
            return found
        wanted = [*wanted, *sorted(missing)]


def marker(pythons: tuple[str, ...]) -> str:
    """Return the marker of neighbouring Pythons, empty for all of them."""
    parts = []
    if pythons[0] != PYTHONS[0]:
        parts.append(f'python_version >= "{pythons[0]}"')
    if pythons[-1] != PYTHONS[-1]:
        parts.append(f'python_version < "{PYTHONS[PYTHONS.index(pythons[-1]) + 1]}"')
    return " ; " + " and ".join(parts) if parts else ""


def lines(name: str, by_python: dict[str, Versions]) -> Iterator[str]:
    """Return the lines of one package: one for each run of Pythons with the same version."""
    for version, run in itertools.groupby(PYTHONS, key=lambda python: by_python[python].get(name)):
        if version is not None:
            yield f"{name}=={version}{marker(tuple(run))}"


def write(name: str) -> None:
    """Resolve one lock for every Python and write it."""
    wanted, fixed = [], {}
    for requirement in requirements(LOCKS[name]):
        package = Requirement(requirement).name
        if package in ALONE:
            fixed[package], needs = resolve_alone(requirement)
            wanted += needs
        else:
            wanted.append(requirement)
    by_python: dict[str, Versions] = {}
    with tempfile.TemporaryDirectory() as folder:
        oldest = Path(folder, "oldest.txt")
        for python in PYTHONS:
            print(f"{name}: Python {python}", file=sys.stderr)
            try:
                found = lock(wanted, python, oldest if by_python else HELD)
            except subprocess.CalledProcessError:
                if not by_python:
                    raise
                print(f"{name}: Python {python} needs versions of its own", file=sys.stderr)
                found = lock(wanted, python)
            by_python[python] = {**found, **fixed}
            if python == PYTHONS[0]:
                oldest.write_text("".join(f"{package}=={version}\n" for package, version in found.items()))
    packages = sorted({package for versions in by_python.values() for package in versions})
    extras = ",".join(LOCKS[name])
    head = f"# What undrift[{extras}] is built and tested with, for pip's --constraint. Made by: python -m tools locks"
    body = (line for package in packages for line in lines(package, by_python))
    (ROOT / "locks" / f"{name}.txt").write_text("\n".join([head, *body]) + "\n")


def lowest(extras: Iterable[str]) -> Iterator[str]:
    """Return the lowest versions that our ranges admit, build tools included, as pip constraints."""
    for requirement in map(Requirement, requirements(extras)):
        bounds = [bound.version for bound in requirement.specifier if bound.operator == ">="]
        if not bounds:
            raise SystemExit(f"{requirement}: a range without a lower bound")
        if requirement.name not in ("cmake", "ninja"):  # those of the system are used where there are some
            yield f"{canonicalize_name(requirement.name)}=={bounds[0]}"


def compare(name: str) -> None:
    """Print where the versions installed here differ from a lock."""
    for line in (ROOT / "locks" / f"{name}.txt").read_text().splitlines()[1:]:
        pin = Requirement(line)
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            here = importlib.metadata.version(pin.name)
            if (pin.marker is None or pin.marker.evaluate()) and not pin.specifier.contains(here, prereleases=True):
                print(f"{pin.name} {here}, locked {pin.specifier}")


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    if "--lowest" in sys.argv:
        print(*lowest(given), sep="\n")
    for name in () if "--lowest" in sys.argv else given or list(LOCKS):
        (compare if "--compare" in sys.argv else write)(name)

"""The locks hold one version of everything that is installed for tests and demo, and name no place to fetch it from."""

import importlib.metadata
import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers import ROOT
from tools import locks


def read(name):
    """Return {package: [requirement, ...]} of a lock: one for each Python whose version differs."""
    found = {}
    for line in (ROOT / "locks" / f"{name}.txt").read_text().splitlines():
        if not line.startswith("#"):
            requirement = Requirement(line)
            found.setdefault(requirement.name, []).append(requirement)
    return found


def closure(wanted, lock):
    """Follow requirements through the metadata of the packages that are installed here in the locked version."""
    todo, seen = [Requirement(text) for text in wanted], set()
    while todo:
        requirement = todo.pop()
        yield requirement
        name = canonicalize_name(requirement.name)
        if (name, *sorted(requirement.extras)) in seen:
            continue
        seen.add((name, *sorted(requirement.extras)))
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if any(pin.specifier.contains(found.version) for pin in lock.get(name, ())):
            todo += locks.needed(found.requires or (), requirement.extras)


@pytest.mark.parametrize("name", locks.LOCKS)
def test_a_lock_covers_all_that_its_extras_require(name):
    lock = read(name)
    for requirement in closure(locks.requirements(locks.LOCKS[name]), lock):
        pinned = lock.get(canonicalize_name(requirement.name))
        assert pinned, f"{requirement} is not in locks/{name}.txt; run python -m tools locks"
        for where in locks.environments():
            if requirement.marker is None or requirement.marker.evaluate(where):
                (here,) = [pin for pin in pinned if pin.marker is None or pin.marker.evaluate(where)]
                (version,) = (spec.version for spec in here.specifier)
                assert requirement.specifier.contains(version, prereleases=True), (requirement, str(here))


@pytest.mark.parametrize("name", [*locks.LOCKS, "held"])
def test_a_lock_is_a_list_of_versions_and_names_no_place(name):
    lines = (ROOT / "locks" / f"{name}.txt").read_text().splitlines()[1:]
    assert lines
    for line in lines:
        assert re.fullmatch(r'[a-z0-9-]+==[0-9][0-9a-z.]*( ; python_version [<>]=? "3\.\d+"( and .*)?)?', line), line
        assert not line.startswith(locks.ACCELERATOR)


def test_every_lock_is_made_and_torch_is_held():
    files = {path.stem for path in (ROOT / "locks").glob("*.txt")}
    assert files == {*locks.LOCKS, "held"}
    held = read("held")
    assert list(held) == ["torch"]
    assert [str(pin) for pin in read("networks")["torch"]] == [str(pin) for pin in held["torch"]]


def test_markers_tell_runs_of_pythons_apart():
    versions = {"3.11": {"a": "1", "b": "1"}, "3.12": {"a": "2"}, "3.13": {"a": "2"}, "3.14": {"a": "3"}}
    assert list(locks.lines("a", versions)) == [
        'a==1 ; python_version < "3.12"',
        'a==2 ; python_version >= "3.12" and python_version < "3.14"',
        'a==3 ; python_version >= "3.14"',
    ]
    assert list(locks.lines("b", versions)) == ['b==1 ; python_version < "3.12"']
    assert list(locks.lines("c", {python: {"c": "5"} for python in versions})) == ["c==5"]

"""Kernel levels: every test runs at the best one of the machine, and those that depend on it at all the machine has.

`UNDRIFT_KERNELS=v3 pytest` runs everything at that level, and nothing twice.
"""

import os
from pathlib import Path

import pytest

from undrift import kernels

FOLDERS = {"accuracy", "fleet", "parity"}
"""Tests in here run at every level; elsewhere a module or a test says so by the mark `every_level`."""
LEVELS = [os.environ["UNDRIFT_KERNELS"]] if os.environ.get("UNDRIFT_KERNELS") else kernels.levels()


def pytest_configure(config):
    config.addinivalue_line("markers", "every_level: run at every kernel level of the machine")


def pytest_generate_tests(metafunc):
    folder = Path(metafunc.module.__file__).parent.name
    if folder in FOLDERS or metafunc.definition.get_closest_marker("every_level"):
        metafunc.parametrize("level", LEVELS, indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def level(request):
    """The kernel level that the test, and every process it starts, uses; fixtures that learn must not outlive it."""
    name = getattr(request, "param", LEVELS[0])
    with kernels.use_level(name):
        yield name

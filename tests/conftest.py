"""Kernel levels, and a browser.

Every test runs at the best level of the machine, and those that depend on it at all the machine has.

`UNDRIFT_KERNELS=v3 pytest` runs everything at that level, and nothing twice.
"""

import os
import shutil
from pathlib import Path

import pytest

from undrift import kernels

FOLDERS = {"accuracy", "fleet", "parity"}
"""Tests in here run at every level; elsewhere a module or a test says so by the mark `every_level`."""
LEVELS = [os.environ["UNDRIFT_KERNELS"]] if os.environ.get("UNDRIFT_KERNELS") else kernels.levels()


def pytest_configure(config):
    config.addinivalue_line("markers", "every_level: run at every kernel level of the machine")
    config.addinivalue_line("markers", "own_levels: run once; the test goes through the fixture `levels` by itself")


def pytest_generate_tests(metafunc):
    folder = Path(metafunc.module.__file__).parent.name
    if metafunc.definition.get_closest_marker("own_levels"):
        return
    if folder in FOLDERS or metafunc.definition.get_closest_marker("every_level"):
        metafunc.parametrize("level", LEVELS, indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def level(request):
    """The kernel level that the test, and every process it starts, uses; fixtures that learn must not outlive it."""
    name = getattr(request, "param", LEVELS[0])
    with kernels.use_level(name):
        yield name


@pytest.fixture(scope="session")
def levels():
    """The kernel levels to test, for tests whose expectation costs more than the kernels do."""
    return LEVELS


CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser():
    """The system's Chromium through playwright, or a word on what is missing."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    path = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    if path is None:
        pytest.skip("no Chromium on this machine: install the system's chromium package")
    with playwright.sync_playwright() as host:
        running = host.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        yield running
        running.close()

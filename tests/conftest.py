"""Which tests run, at which kernel levels, and a browser.

    pytest                 the quick suite (`make test`): the best kernel level of the machine, no test marked `slow`
    pytest --suite rest    what that leaves out (`make test-all`): slow tests, other levels of tests that depend on them
    pytest --suite all     both

Tests in tests/torch, tests/optax, tests/hosts and tests/spark need environments of their own and run only if named.
`UNDRIFT_KERNELS=v3 pytest` runs everything at that level.
"""

import os
import shutil

import pytest

from tests.helpers import ROOT
from undrift import kernels

FOLDERS = {"accuracy", "fleet", "parity"}
"""Tests in here depend on the kernel level; elsewhere a module or a test says so by the mark `every_level`."""
LEVELS = [os.environ["UNDRIFT_KERNELS"]] if os.environ.get("UNDRIFT_KERNELS") else kernels.levels()
SLOW = "slow: make test-all runs it, or pytest --suite all"


def pytest_addoption(parser):
    parser.addoption("--suite", choices=["quick", "rest", "all"], default="quick", help="see tests/conftest.py")


def pytest_configure(config):
    config.addinivalue_line("markers", "every_level: run at every kernel level of the machine")
    config.addinivalue_line("markers", "own_levels: run once; the test goes through the fixture `levels` by itself")
    config.addinivalue_line("markers", "slow: part of make test-all, not of make test")


def pytest_report_header(config):
    suite = config.getoption("--suite")
    left = {
        "quick": f"kernel level {LEVELS[0]}; make test-all adds slow tests, levels {', '.join(LEVELS[1:]) or '(none)'}",
        "rest": f"slow tests; kernel levels {', '.join(LEVELS[1:]) or '(none)'}",
        "all": f"kernel levels {', '.join(LEVELS)}",
    }
    return f"suite {suite}: {left[suite]}; tests/torch, optax, hosts and spark run in environments of their own"


def pytest_generate_tests(metafunc):
    if metafunc.definition.get_closest_marker("own_levels"):
        return
    folder = metafunc.definition.path.relative_to(ROOT / "tests").parts[0]
    if folder in FOLDERS or metafunc.definition.get_closest_marker("every_level"):
        chosen = LEVELS[:1] if metafunc.config.getoption("--suite") == "quick" else LEVELS
        metafunc.parametrize("level", chosen, indirect=True, scope="module")


def uses(item, fixture):
    """Whether a test asks for a fixture."""
    return fixture in getattr(item, "fixturenames", ())


def is_quick(item):
    """Whether a test, at its kernel level, is part of the quick suite."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    slow = item.get_closest_marker("slow") is not None or uses(item, "browser")
    return not slow and parameters.get("level", LEVELS[0]) == LEVELS[0]


def loops_over_levels(item):
    """Whether a test goes through the kernel levels by itself."""
    return item.get_closest_marker("own_levels") is not None and uses(item, "levels")


def pytest_collection_modifyitems(config, items):
    suite = config.getoption("--suite")
    if suite == "quick":
        for item in items:
            if not is_quick(item):
                item.add_marker(pytest.mark.skip(reason=SLOW))
    elif suite == "rest":
        chosen = [item for item in items if not is_quick(item) or (len(LEVELS) > 1 and loops_over_levels(item))]
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen


@pytest.fixture(scope="module", autouse=True)
def level(request):
    """The kernel level that the test, and every process it starts, uses; fixtures that learn must not outlive it."""
    name = getattr(request, "param", LEVELS[0])
    with kernels.use_level(name):
        yield name


@pytest.fixture(scope="session")
def levels(pytestconfig):
    """The kernel levels to test, for tests whose expectation costs more than the kernels do."""
    return {"quick": LEVELS[:1], "rest": LEVELS[1:], "all": LEVELS}[pytestconfig.getoption("--suite")]


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

"""A browser for the report's tests: the system's Chromium through playwright, or a word on what is missing."""

import shutil

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    path = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    if path is None:
        pytest.skip("no Chromium on this machine: install the system's chromium package")
    with playwright.sync_playwright() as host:
        running = host.chromium.launch(executable_path=path, args=list(FLAGS))
        yield running
        running.close()

"""Run the kernel tests on a module built with sanitizers: `make sanitize` calls it with the build's folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    site = build / "site"
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "undrift", site / "undrift", ignore=shutil.ignore_patterns("native", "__pycache__"))
    for module in build.glob("_native*.so"):
        shutil.copy(module, site / "undrift" / "kernels")
    # The editable install would otherwise answer for `undrift`.
    sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
    sys.path.insert(0, str(site))
    tests = sorted(str(path) for path in (ROOT / "tests" / "parity").glob("test_kernel*.py"))
    return int(pytest.main(["-q", "-x", "--capture=no", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))


if __name__ == "__main__":
    sys.exit(main())

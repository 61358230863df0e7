"""Write docs/matrix.md, or print what is measured: python -m tests.matrix [--measure [PATH ...]]."""

from __future__ import annotations

import sys
import time

from .measure import measure
from .page import PAGE, write_page
from .paths import PATHS
from .scenarios import FEATURES, parts_of


def main(words: list[str]) -> None:
    """Write the page, or measure the paths that are named, all of them by default."""
    if "--measure" not in words:
        PAGE.write_text(write_page(), encoding="utf-8")
        return
    for path in [word for word in words if word in PATHS] or PATHS:
        if (lack := PATHS[path].missing()) is not None:
            print(f"{path:16} {lack}")
            continue
        for feature in FEATURES:
            for part in parts_of(feature, path):
                begin = time.perf_counter()
                measured = measure(feature, part, path)
                seconds = time.perf_counter() - begin
                print(f"{path:16} {feature:21} {part:23} {measured.status:8} {seconds:5.2f} s  {measured.words[:200]}")


if __name__ == "__main__":
    main(sys.argv[1:])

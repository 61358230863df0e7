"""Tables that benchmarks keep in the docs."""

from __future__ import annotations

from pathlib import Path


def put(page: Path, mark: str, text: str) -> None:
    """Replace what stands between the two marks of a page."""
    before, _, after = page.read_text().split(mark)
    page.write_text(mark.join([before, f"\n{text}\n", after]))

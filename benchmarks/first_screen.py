"""The first screen of README.md and docs/index.md: three sentences and a picture, from the tables the docs hold.

    python -m benchmarks first_screen [--figure docs/first.png]

Nothing is measured here: run it after the benchmarks `quality`, whose table is in docs/benchmarks.md, and
`forecast_series`, in docs/forecast.md; the sentences are worked out from those, so that no number is typed in. The test
tests/docs/test_first_screen.py fails where they differ from the tables.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
from pathlib import Path
from typing import NamedTuple

from benchmarks import pages

ROOT = Path(__file__).resolve().parents[1]
MARK = "<!-- made by benchmarks/first_screen.py -->"
PAGES = (ROOT / "README.md", ROOT / "docs" / "index.md")
LEFT_OUT = "elec2"
"""Its label is whether the price is above the mean of its day: nearly the last label, which flatters us."""
PUBLISHED = {1: 0.365, 24: 1.694, 48: 2.988}
"""ETTh2: the best online forecaster in tables 2 and 3 of DSOF (ICLR 2025), which waits until values are known."""
METHODS = {
    "undrift best": ("undrift best (default)",),
    "undrift max": ("undrift max",),
    "LightGBM, every 250 rows": ("lightgbm", "every 250"),
    "LightGBM, every 1,000 rows": ("lightgbm", "every 1,000"),
    "River, best linear model": ("River L", "River B"),
    "last value": ("last value", "same as last time"),
}


class Line(NamedTuple):
    """One method on one stream."""

    name: str
    error: float
    """Share of the variance that is not explained, or log-loss; less is better."""
    cost: float
    """CPU microseconds a row."""


def between_marks(page: Path, mark: str) -> str:
    return page.read_text().split(mark)[1]


def rows_of(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]


def read_quality() -> dict[str, list[Line]]:
    """Return every method that saw all rows, by stream."""
    text = between_marks(ROOT / "docs" / "benchmarks.md", "<!-- made by python -m benchmarks quality -->")
    found = {}
    for name, table in re.findall(r"\*\*(\w+)\*\*, [\d,]+ rows\n(.*?)(?=\n\*\*|\Z)", text, re.DOTALL):
        (_, measure, *_), _, *lines = rows_of(table)
        found[name] = [
            Line(cells[0], float(cells[1]) if measure == "log-loss" else 1.0 - float(cells[1]), number(cells[-1]))
            for cells in lines
            if "first " not in cells[0] and re.fullmatch(r"-?[\d.]+", cells[1])  # others blow up or are not finite
        ]
    return found


def number(text: str) -> float:
    return float(text.replace(",", ""))


def best_of(lines: list[Line], method: str) -> Line:
    """Return a method's line; of several, the one that did best afterwards."""
    first, *rest = METHODS[method]
    if method.startswith("LightGBM"):
        return next(line for line in lines if line.name.startswith(first) and line.name.endswith(*rest))
    return min((line for line in lines if line.name.startswith((first, *rest))), key=lambda line: line.error)


def errors(quality: dict[str, list[Line]], ours: str, theirs: str) -> tuple[float, float]:
    """Return the geometric mean over streams of our error over theirs, and the median of their cost over ours."""
    pairs = [(best_of(lines, ours), best_of(lines, theirs)) for name, lines in quality.items() if name != LEFT_OUT]
    ratio = math.exp(statistics.mean(math.log(a.error / b.error) for a, b in pairs))
    return ratio, statistics.median(b.cost / a.cost for a, b in pairs)


def read_forecasts() -> dict[int, tuple[float, float]]:
    """Return the mean squared errors on ETTh2 by horizon: ours and same as last time."""
    text = between_marks(
        ROOT / "docs" / "forecast.md", "<!-- made by python -m benchmarks forecast_series: published -->"
    )
    return {int(row[1]): (float(row[2]), float(row[3])) for row in rows_of(text) if row[0] == "ETTh2"}


def sentences() -> str:
    """Return what the marks of the pages hold."""
    quality = read_quality()
    trees, cheaper = errors(quality, "undrift best", "LightGBM, every 250 rows")
    most, still = errors(quality, "undrift max", "LightGBM, every 250 rows")
    river, _ = errors(quality, "undrift best", "River, best linear model")
    ours = read_forecasts()
    published = sorted(1.0 - ours[h][0] / error for h, error in PUBLISHED.items())
    naive = sorted(1.0 - mine / last for mine, last in ours.values())
    return "\n".join(
        [
            f"- **{1 - trees:.0%} less error than LightGBM refitted every 250 rows**, at 1/{cheaper:.0f} of its CPU "
            f'time; with `speed="max"` {1 - most:.0%} less at 1/{still:.0f}.',
            f"- **{1 - river:.0%} less error than the best of River's linear models**, the best one chosen afterwards.",
            f"- **{published[0]:.0%} to {published[-1]:.0%} less error than the best published online forecaster** "
            "of ETTh2 that does not peek ahead, 1 to 48 steps "
            f"({naive[0]:.0%} to {naive[-1]:.0%} less than the last value).",
        ]
    )


def draw(path: Path) -> None:
    """Draw the errors on every stream in units of LightGBM's, refitted every 250 rows."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    quality = read_quality()
    names = list(quality)
    styles = {
        "undrift max": ("#0b6bcb", "o", 110),
        "undrift best": ("#63a9ee", "o", 90),
        "LightGBM, every 250 rows": ("#d1495b", "s", 60),
        "LightGBM, every 1,000 rows": ("#eda6af", "s", 60),
        "River, best linear model": ("#8a8f98", "v", 60),
        "last value": ("#b9bec7", "X", 60),
    }
    figure, axis = plt.subplots(figsize=(9.5, 3.9), layout="constrained")
    for method, (shade, marker, size) in styles.items():
        found = [best_of(quality[name], method) for name in names]
        base = [best_of(quality[name], "LightGBM, every 250 rows").error for name in names]
        cost = statistics.median(line.cost for line in found)
        told = f"{cost:,.0f} µs a row" if cost >= 1.0 else "no work"
        axis.scatter(
            [line.error / b for line, b in zip(found, base, strict=True)],
            range(len(names)), color=shade, marker=marker, s=size, label=f"{method} ({told})", zorder=3,
        )  # fmt: skip
    axis.axvline(1.0, color="#d1495b", linewidth=1, zorder=1)
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set(xscale="log", xlabel="error, where LightGBM refitted every 250 rows has 1 (left is better)")
    axis.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["0.25", "0.5", "1", "2", "4", "8"])
    axis.minorticks_off()
    axis.grid(axis="x", alpha=0.3)
    axis.grid(axis="y", alpha=0.15)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path, help="draw the picture into this file (needs matplotlib)")
    options = parser.parse_args()
    for page in PAGES:
        pages.put(page, MARK, sentences())
    if options.figure:
        draw(options.figure)


if __name__ == "__main__":
    main()

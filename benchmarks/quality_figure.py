"""One picture of build/quality.json: how well every method predicts against what a row costs it, a panel a stream.

python -m benchmarks quality_figure [--cells build/quality.json] [--write docs/quality.png]
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

STYLES = {
    "undrift": ("#0b6bcb", "o", "undrift (light, fast, best, max)"),
    "lightgbm": ("#d1495b", "s", "LightGBM refitted every 250 / 1,000 rows"),
    "scikit-learn Hist": ("#e28743", "s", "HistGradientBoosting refitted"),
    "River A": ("#2e9c73", "^", "River forests (ARF, AMF)"),
    "River": ("#8a8f98", "v", "other learners of River, scikit-learn, padasip, VW"),
    "ridge": ("#7b5ea7", "D", "ridge over 1,000 rows"),
    "naive": ("#b9bec7", "x", "naive guesses"),
}
NAIVE = ("running mean", "last value", "same as last time", "base rate", "label of")
FLOOR = 0.05
"""Microseconds that stand for less."""


def style_of(name: str) -> str:
    """Return which group a contender belongs to."""
    if name.startswith(NAIVE):
        return "naive"
    return next((key for key in STYLES if name.startswith(key)), "River")


def height_of(cell: dict) -> float | None:
    """Return what is drawn upwards, less is better: the unexplained share of the variance, or log-loss."""
    if "log_loss" in cell:
        return float(cell["log_loss"])
    return 1.0 - float(cell["r2"]) if "r2" in cell else None


def points(cells: dict[str, dict], stream: str) -> dict[str, list[tuple[float, float]]]:
    """Return (microseconds a row, error) by group, of those that saw every row."""
    found = {key.split("|")[1]: cell for key, cell in cells.items() if key.split("|")[0] == stream}
    rows = max(int(cell["rows"]) for cell in found.values())
    worst = max(height_of(found[name]) or 0.0 for name in found if name.startswith(NAIVE))
    out: dict[str, list[tuple[float, float]]] = {key: [] for key in STYLES}
    for name, cell in found.items():
        height = height_of(cell)
        group = style_of(name)
        whole = cell["rows"] == rows or group == "River A"  # River's forests saw a prefix: they are marked by a ring
        if height is not None and math.isfinite(height) and height <= 1.05 * worst and whole:
            out[group].append((max(FLOOR, 1e6 * cell["seconds"] / cell["rows"]), height))
    return out


def draw(cells: dict[str, dict], path: Path) -> None:
    """Draw all panels into a file."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(key.split("|")[0] for key in cells))
    figure, axes = plt.subplots(2, 3, figsize=(12, 7.2), layout="constrained")
    for axis, stream in zip(axes.flat, names, strict=True):
        for group, found in points(cells, stream).items():
            shade, marker, label = STYLES[group]
            x, y = zip(*sorted(found), strict=True) if found else ((), ())
            ring = {"facecolors": "none", "edgecolors": shade} if group == "River A" else {"color": shade}
            if group == "undrift":
                axis.plot(x, y, color=shade, linewidth=1.5, zorder=3)
            axis.scatter(x, y, marker=marker, s=42 if group == "undrift" else 30, label=label, zorder=4, **ring)
        binary = any("log_loss" in cell for key, cell in cells.items() if key.startswith(f"{stream}|"))
        axis.set(xscale="log", yscale="log", title=stream, ylabel="log-loss" if binary else "1 - R²")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
        axis.tick_params(which="both", labelsize=8)
        axis.grid(alpha=0.25, which="both")
    for axis in axes[-1]:
        axis.set_xlabel("CPU microseconds a row")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle("Better is lower, cheaper is left; rings saw the first 5,000 rows only", fontsize=11)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=Path, default=Path("build/quality.json"))
    parser.add_argument("--write", type=Path, default=Path("docs/quality.png"))
    options = parser.parse_args()
    draw(json.loads(options.cells.read_text()), options.write)


if __name__ == "__main__":
    main()

"""Which classes are taken for which: a table of what came and what was predicted."""

from __future__ import annotations

import numpy as np

from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import percent, shorten
from undrift.report.plot_spec import PlotSpec, escape, ref, round_numbers
from undrift.report.run_context import ClassRounds, RunContext

SECTION = "well"
MOST = 12
"""Classes that are drawn, the most frequent ones; all others are one row and column."""
OTHERS = "others"
LEAST = 1e-4
"""A smaller share is shown as nearly none."""


def measure(run: RunContext) -> Measured:
    """Return how often each class was predicted for each that came, as rows and as shares of what came."""
    found = run.class_rounds
    if found is None or not len(found.y):
        return {"confusion": None}
    names, counts = _join_rare(found)
    came = counts.sum(axis=1, keepdims=True)
    shares = np.where(came > 0.0, counts / np.maximum(came, 1.0), np.nan)
    return {
        "confusion": {
            "names": [escape(shorten(name, 24)) for name in names],
            "counts": [[int(n) for n in row] for row in counts],
            "shares": [round_numbers(row, 4) for row in shares],
            "percents": [[_cell(float(x)) for x in row] for row in shares],
        }
    }


def _cell(share: float) -> str:
    """Return a share as shown: nothing but none is 0%, and nothing but all is 100%."""
    if np.isnan(share):
        return ""
    return "≈0%" if 0.0 < share < LEAST else percent(share, 2)


def _join_rare(found: ClassRounds) -> tuple[list[str], np.ndarray]:
    """Return the names and counts of the classes that are drawn; two classes keep their order."""
    K = len(found.names)
    order = list(range(K)) if K == 2 else found.frequent_first
    shown, rare = (order, []) if K <= MOST else (order[: MOST - 1], order[MOST - 1 :])
    place = {k: at for at, k in enumerate(shown)} | dict.fromkeys(rare, len(shown))
    size = len(shown) + bool(rare)
    counts = np.zeros((size, size))
    for i in range(K):
        for j in range(K):
            counts[place[i], place[j]] += found.counts[i, j]
    return [*(found.names[k] for k in shown), *([OTHERS] if rare else [])], counts


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw the table as a heat map: shares of what came and, as a second view, rows."""
    part = numbers["confusion"]
    names, size = part["names"], len(part["names"])
    right = sum(part["counts"][k][k] for k in range(size)) / max(sum(map(sum, part["counts"])), 1)
    axis: PlotSpec = {"type": "category", "showgrid": False, "zeroline": False, "tickfont": {"size": 11}}
    layout: PlotSpec = {
        "xaxis": {**axis, "title": {"text": "predicted"}, "tickangle": -35 if size > 4 else 0, "nticks": size},
        "yaxis": {**axis, "title": {"text": "came"}, "autorange": "reversed", "nticks": size},
        "hovermode": "closest",
    }

    def heat(z: str, text: str, scale: PlotSpec) -> PlotSpec:
        return {
            "type": "heatmap", "x": ref("confusion", "names"), "y": ref("confusion", "names"),
            "z": ref("confusion", z), "text": ref("confusion", text), "texttemplate": "%{text}", "xgap": 2, "ygap": 2,
            "zmin": 0.0, "colorscale": {"$heat": "heat"}, "showscale": False, "customdata": ref("confusion", "counts"),
            "hovertemplate": "came %{y}, predicted %{x}: %{customdata:,} rows<extra></extra>", **scale,
        }  # fmt: skip

    rows = ", ".join(f"{name} {part['percents'][k][k] or 'never came'}" for k, name in enumerate(names))
    return Figure(
        "confusion",
        "Which classes are taken for which",
        "Each line is a class that came, each column what was predicted as most likely. The strong colour should lie "
        "on the diagonal; what stands beside it in a line is what that class is taken for.",
        f"Table of classes that came and were predicted; right in {percent(right)} of rows, by class: {rows}.",
        "Measured: the most likely class before each label, as a share of the rows in which a class came, or in rows.",
        [
            View("Shares", [heat("shares", "percents", {"zmax": 1.0})], layout, linked=False),
            View("Rows", [heat("counts", "counts", {})], layout, linked=False),
        ],
        height=150 + 34 * max(size, 4),
    )

"""Several classes: their probabilities in the last rows beside what came, and their shares through the whole run."""

from __future__ import annotations

import numpy as np

from undrift.report.blocks import cut_blocks
from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import percent, shorten
from undrift.report.plot_spec import COLOURS, PlotSpec, areas, colour, escape, heat_map, ref, round_numbers, x_axis
from undrift.report.run_context import ClassRounds, RunContext

SECTION = "well"
RECENT, LINES = 150, 12
"""Rounds and classes of the close-up."""
BLOCKS = 120
"""Points of the whole run."""


def measure(run: RunContext) -> Measured:
    """Return the last rounds one by one, and the shares of the most frequent classes in blocks of the whole run."""
    found = run.class_rounds
    if not run.several or found is None or not len(found.y):
        return {"classes_recent": None, "classes_whole": None}
    return {"classes_recent": _measure_recent(run, found), "classes_whole": _measure_whole(run, found)}


def _measure_recent(run: RunContext, found: ClassRounds) -> Numbers:
    rounds = np.flatnonzero(found.shown)[-RECENT:] + 1
    y, p = found.y[-RECENT:], found.p[-RECENT:]
    lines = found.frequent_first[:LINES]
    place = {k: at for at, k in enumerate(lines)}
    return {
        "axis": run.timeline.axis(rounds),
        "names": [escape(shorten(found.names[k], 24)) for k in lines],
        "places": list(range(len(lines))),
        "p": [round_numbers(p[:, k], 3) for k in lines],
        "came": [place.get(int(k)) for k in y],
    }


def _measure_whole(run: RunContext, found: ClassRounds) -> Numbers:
    blocks = cut_blocks(len(found.y), BLOCKS)
    shown = found.frequent_first[: len(COLOURS) - (len(found.names) > len(COLOURS))]
    names = [escape(shorten(found.names[k], 24)) for k in shown]
    came = [blocks.mean((found.y == k).astype(np.float64)) for k in shown]
    said = [blocks.mean(found.p[:, k]) for k in shown]
    if len(shown) < len(found.names):
        names.append("others")
        came.append(1.0 - np.sum(came, axis=0))
        said.append(blocks.mean(found.p.sum(axis=1)) - np.sum(said, axis=0))
    rounds = np.flatnonzero(found.shown)[blocks.last - 1] + 1
    return {
        "axis": run.timeline.axis(rounds),
        "size": blocks.size,
        "names": names,
        "came": [round_numbers(np.maximum(one, 0.0), 4) for one in came],
        "said": [round_numbers(np.maximum(one, 0.0), 4) for one in said],
    }


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw the close-up as a heat map with what came, and the shares as stacked areas."""
    recent, whole = numbers["classes_recent"], numbers["classes_whole"]
    rows, count = len(recent["came"]), len(recent["names"])
    heat = heat_map(
        "classes_recent", "chance", "places", "p", recent["names"],
        zmax=1.0, hovertemplate="%{text}: chance %{z:.1%}<extra></extra>",
    )  # fmt: skip
    dots: PlotSpec = {
        "type": "scatter", "mode": "markers", "x": x_axis("classes_recent"), "y": ref("classes_recent", "came"),
        "name": "came", "hoverinfo": "skip",
        "marker": {"size": 6, "color": colour("line"), "line": {"color": colour("surface"), "width": 1}},
    }  # fmt: skip
    lines: PlotSpec = {
        "yaxis": {"tickvals": list(range(count)), "ticktext": recent["names"], "autorange": "reversed",
                  "showgrid": False, "zeroline": False},
        "xaxis": {"showgrid": False}, "hovermode": "closest",
    }  # fmt: skip
    shares = {"yaxis": {"tickformat": ".0%", "range": [0, 1], "title": {"text": "share"}}}
    views = [
        View("Last rows", [heat, dots], lines, linked=False),
        View("What came", areas("classes_whole", "came", whole["names"]), shares),
        View("What was predicted", areas("classes_whole", "said", whole["names"]), shares),
    ]
    ends = ", ".join(
        f"{name} {percent(x[-1])}" for name, x in zip(whole["names"], whole["came"], strict=True) if x[-1] is not None
    )
    return Figure(
        "classes",
        "Predictions and what came true",
        "Each column is a row of your data, each line a class; the stronger the colour, the likelier undrift thought "
        "it before the dot showed what came. Dots on strong colour are good. The other views "
        "show the share of each class through the whole run.",
        f"Heat map of the chances of {count} classes in the last {rows} rows, with what came; at the end {ends}.",
        "Measured: every label and the probabilities given before it; in the whole run, means of "
        f"{whole['size']:,} rows a point.",
        views,
        height=150 + 26 * max(count, 5),
    )

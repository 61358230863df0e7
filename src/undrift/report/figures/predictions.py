"""Predictions and labels: the last rows one by one, and the whole run in blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from undrift.losses import sigmoid
from undrift.report.blocks import cut_blocks
from undrift.report.figures.figure import (
    Figure,
    Numbers,
    PlotSpec,
    View,
    colour,
    curve,
    escape,
    ref,
    round_numbers,
    x_axis,
    y_title,
)
from undrift.report.formatting import percent, plural
from undrift.report.run_context import POINTS, RunContext
from undrift.run.play.run_model import LEVEL

SECTION = "well"
RECENT = 300
"""Rounds of the close-up."""


def measure(run: RunContext) -> dict[str, Numbers | None]:
    """Return the last rounds one by one, and the means of blocks of the whole run."""
    return {"recent": _measure_recent(run), "whole": _measure_whole(run)}


def _measure_recent(run: RunContext) -> Numbers:
    data = run.data
    rows = slice(max(0, data.rounds - RECENT), data.rounds)
    numbers: Numbers = {
        "axis": run.timeline.axis(np.arange(rows.start + 1, rows.stop + 1)),
        "line": [int(n) for n in data.line[rows]],
        "y": round_numbers(data.y[rows], 7),
    }
    if run.binary:
        numbers["p"] = round_numbers(sigmoid(data.yhat[rows]))
        for label, name in ((1, "positive"), (0, "negative")):
            numbers[name] = [label if y == label else None for y in data.y[rows]]
        return numbers
    numbers["yhat"] = round_numbers(data.yhat[rows], 7)
    for name, ends in (("lower", data.lower), ("upper", data.upper)):
        numbers[name] = None if ends is None else round_numbers(ends[rows], 7)
    return numbers


def _measure_whole(run: RunContext) -> Numbers:
    data = run.data
    blocks = cut_blocks(data.rounds, 150 if run.binary else POINTS // 2)
    numbers: Numbers = {
        "axis": run.timeline.axis(blocks.last),
        "size": blocks.size,
        "y": round_numbers(blocks.mean(data.y)),
        "yhat": round_numbers(blocks.mean(sigmoid(data.yhat) if run.binary else data.yhat)),
    }
    if not run.binary:
        numbers["lowest"] = round_numbers(blocks.minimum(data.y))
        numbers["highest"] = round_numbers(blocks.maximum(data.y))
    return numbers


def draw(run: RunContext, numbers: Mapping[str, Any]) -> Figure:
    """Draw labels and the predictions made before them."""
    recent, size = numbers["recent"], numbers["whole"]["size"]
    last, whole = _class_views(run) if run.binary else _number_views(run, recent)
    per_point = f"in the whole run, means of {plural(size, 'row')} a point."
    if run.binary:
        positive = (run.data.classes or ("0", "1"))[1]
        how_to_read = (
            f"The line is the chance given to “{positive}” before it was known; ticks above and below show what came. "
            "High under ticks at the top and low over ticks at the bottom is good."
        )
        alt = (
            f"Line chart of the predicted chance of {positive} in the last {len(recent['y'])} rows, with what came "
            "true."
        )
        measured = f"Measured: every label and the probability given before it; {per_point}"
    else:
        band = "; the shaded band should hold nine in ten true values." if recent["lower"] is not None else "."
        how_to_read = (
            "Each prediction was made before the true value was seen. The closer the coloured line to the dark one, "
            f"the better{band}"
        )
        alt = (
            f"Line chart of the last {len(recent['y'])} rows: true values of {run.data.target} and the predictions "
            "made before them."
        )
        measured = f"Measured: every label and the prediction made before it{f'; {per_point}' if size > 1 else '.'}"
    views = [last, whole] if run.data.rounds > len(recent["y"]) else [last]
    return Figure("predictions", "Predictions and what came true", how_to_read, alt, measured, views)


def _number_views(run: RunContext, recent: Numbers) -> tuple[View, View]:
    target = run.data.target
    band = [] if recent["lower"] is None else _band("recent", "lower", "upper", f"{percent(LEVEL)} interval", "band")
    last = [
        *band,
        curve("recent", ref("recent", "y"), f"true {target}", "ink", line={"width": 1.5}),
        curve("recent", ref("recent", "yhat"), "predicted", "own"),
    ]
    whole = [
        *_band("whole", "lowest", "highest", "lowest to highest", "mist"),
        curve("whole", ref("whole", "y"), f"true {target}, mean", "ink"),
        curve("whole", ref("whole", "yhat"), "predicted, mean", "own"),
    ]
    layout = {"yaxis": y_title(target)}
    return View("Last rows", last, layout, linked=False), View("Whole run", whole, layout)


def _band(name: str, low: str, high: str, label: str, shade: str) -> list[PlotSpec]:
    """Return the area between two curves."""
    return [
        curve(name, ref(name, low), low, shade, line={"width": 0}, showlegend=False, hoverinfo="skip"),
        curve(name, ref(name, high), label, shade, line={"width": 0}, fill="tonexty", fillcolor=colour(shade),
              hoverinfo="skip"),
    ]  # fmt: skip


def _class_views(run: RunContext) -> tuple[View, View]:
    negative, positive = run.data.classes or ("0", "1")
    last = [
        curve("recent", ref("recent", "p"), f"predicted chance of {positive}", "own"),
        _ticks("positive", f"was {positive}", "first"),
        _ticks("negative", f"was {negative}", "ink"),
    ]
    whole = [
        curve("whole", ref("whole", "y"), f"share that was {positive}", "ink"),
        curve("whole", ref("whole", "yhat"), "mean prediction", "own"),
    ]
    chance = {"tickformat": ".0%", "range": [-0.06, 1.06], **y_title(f"chance of {positive}")}
    return (
        View("Last rows", last, {"yaxis": chance}, linked=False),
        View("Whole run", whole, {"yaxis": {"tickformat": ".0%", **y_title(f"share of {positive}")}}),
    )


def _ticks(name: str, label: str, colour_name: str) -> PlotSpec:
    """Return short upright marks at the rows of one class."""
    shade = colour(colour_name)
    return {
        "type": "scatter", "mode": "markers", "x": x_axis("recent"), "hoverinfo": "x+name",
        "y": ref("recent", name), "name": escape(label),
        "marker": {"size": 6, "symbol": "line-ns", "color": shade, "line": {"color": shade, "width": 1.5}},
    }  # fmt: skip

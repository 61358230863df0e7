"""Predictions and labels: the last rows one by one, and the whole run in blocks."""

from __future__ import annotations

import numpy as np

from undrift.losses import sigmoid
from undrift.report.blocks import cut_blocks
from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import number, percent, plural
from undrift.report.plot_spec import PlotSpec, colour, curve, escape, ref, round_numbers, x_axis, y_title
from undrift.report.run_context import POINTS, RunContext

SECTION = "well"
RECENT = 300
"""Rounds of the close-up."""


def measure(run: RunContext) -> Measured:
    """Return the last rounds one by one, and the means of blocks of the whole run."""
    if run.several:
        return {"recent": None, "whole": None}
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
    if numbers["lower"] is not None:
        numbers["interval"] = [
            _interval_text(data.level, *ends) for ends in zip(numbers["lower"], numbers["upper"], strict=True)
        ]
    return numbers


def _interval_text(level: float, low: float | None, high: float | None) -> str:
    """Return an interval for the label that follows the pointer."""
    return "no interval yet" if low is None or high is None else f"{percent(level)}: {number(low)} to {number(high)}"


def _measure_whole(run: RunContext) -> Numbers:
    data = run.data
    blocks = cut_blocks(data.rounds, 150 if run.binary else POINTS // 2)
    said, some = sigmoid(data.yhat) if run.binary else data.yhat, data.predicted
    counts = blocks.sum(some.astype(np.float64))
    means = np.where(counts > 0.0, blocks.sum(np.where(some, said, 0.0)) / np.maximum(counts, 1.0), np.nan)
    numbers: Numbers = {
        "axis": run.timeline.axis(blocks.last),
        "size": blocks.size,
        "y": round_numbers(blocks.mean(data.y)),
        "yhat": round_numbers(means),
    }
    if not run.binary:
        numbers["lowest"] = round_numbers(blocks.minimum(data.y))
        numbers["highest"] = round_numbers(blocks.maximum(data.y))
    return numbers


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw labels and the predictions made before them."""
    recent, size = numbers["recent"], numbers["whole"]["size"]
    rows = len(recent["y"])
    last, whole = _class_views(run) if run.binary else _number_views(run, recent)
    per_point = f"in the whole run, means of {plural(size, 'row')} a point."
    if run.binary:
        positive = (run.data.classes or ("0", "1"))[1]
        how_to_read = (
            f"The line is the chance given to “{positive}” before it was known; ticks above and below show what came. "
            "High under ticks at the top and low over ticks at the bottom is good."
        )
        alt = f"Line chart of the predicted chance of {positive} in the last {rows} rows, with what came true."
        measured = f"Measured: every label and the probability given before it; {per_point}"
    else:
        band = (
            f"; the shaded band should hold {percent(run.data.level)} of the true values."
            if recent["lower"] is not None
            else "."
        )
        how_to_read = (
            "Each prediction was made before the true value was seen. The closer the coloured line to the dark one, "
            f"the better{band}"
        )
        values = f"true values of {run.data.target} and the predictions made before them"
        alt = f"Line chart of the last {rows} rows: {values}."
        measured = f"Measured: every label and the prediction made before it{f'; {per_point}' if size > 1 else '.'}"
    views = [last, whole] if run.data.rounds > rows else [last]
    return Figure("predictions", "Predictions and what came true", how_to_read, alt, measured, views)


def _number_views(run: RunContext, recent: Numbers) -> tuple[View, View]:
    target = run.data.target
    band: list[PlotSpec] = []
    hover: PlotSpec = {}
    if recent["lower"] is not None:
        band = _band("recent", "lower", "upper", f"{percent(run.data.level)} interval", "band")
        hover = {"text": ref("recent", "interval"), "hovertemplate": "%{y:.5g} (%{text})"}
    last = [
        *band,
        curve("recent", "y", label=f"true {target}", shade="ink", line={"width": 1.5}),
        curve("recent", "yhat", label="predicted", shade="own", **hover),
    ]
    whole = [
        *_band("whole", "lowest", "highest", "lowest to highest", "mist"),
        curve("whole", "y", label=f"true {target}, mean", shade="ink"),
        curve("whole", "yhat", label="predicted, mean", shade="own"),
    ]
    layout = {"yaxis": y_title(target)}
    return View("Last rows", last, layout, linked=False), View("Whole run", whole, layout)


def _band(name: str, low: str, high: str, label: str, shade: str) -> list[PlotSpec]:
    """Return the area between two curves."""
    style: PlotSpec = {"shade": shade, "line": {"width": 0}, "hoverinfo": "skip"}
    return [
        curve(name, low, label=low, showlegend=False, **style),
        curve(name, high, label=label, fill="tonexty", fillcolor=colour(shade), **style),
    ]


def _class_views(run: RunContext) -> tuple[View, View]:
    negative, positive = run.data.classes or ("0", "1")
    last = [
        curve("recent", "p", label=f"predicted chance of {positive}", shade="own"),
        _ticks("positive", f"was {positive}", "first"),
        _ticks("negative", f"was {negative}", "ink"),
    ]
    whole = [
        curve("whole", "y", label=f"share that was {positive}", shade="ink"),
        curve("whole", "yhat", label="mean prediction", shade="own"),
    ]
    chance = {"tickformat": ".0%", "range": [-0.06, 1.06], **y_title(f"chance of {positive}")}
    return (
        View("Last rows", last, {"yaxis": chance}, linked=False),
        View("Whole run", whole, {"yaxis": {"tickformat": ".0%", **y_title(f"share of {positive}")}}),
    )


def _ticks(name: str, label: str, shade: str) -> PlotSpec:
    """Return short upright marks at the rows of one class."""
    line = {"color": colour(shade), "width": 1.5}
    return {
        "type": "scatter", "mode": "markers", "x": x_axis("recent"), "hoverinfo": "x+name",
        "y": ref("recent", name), "name": escape(label),
        "marker": {"size": 6, "symbol": "line-ns", "color": colour(shade), "line": line},
    }  # fmt: skip

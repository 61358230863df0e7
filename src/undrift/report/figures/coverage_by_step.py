"""How often values lay inside their intervals, by how far ahead these were given."""

from __future__ import annotations

from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import percent
from undrift.report.plot_spec import PlotSpec, curve, ref, round_numbers, straight_line
from undrift.run import ForecastResult

SECTION = "well"
MARGIN = 0.05
"""Shown above and below, so that coverage within a percent of the level looks as near to it as it is."""


def measure(result: ForecastResult) -> Measured:
    """Return the part of values inside, by step."""
    if not result.scores.judged:
        return {"inside": None}
    covered = round_numbers(result.scores.coverage_by_step, 4)
    return {"inside": {"step": list(range(1, len(covered) + 1)), "coverage": covered, "level": result.model.level}}


def draw(result: ForecastResult, numbers: Numbers) -> Figure:
    """Draw the measured coverage beside the level."""
    part = numbers["inside"]
    level = percent(part["level"])
    known = [one for one in part["coverage"] if one is not None]
    low, high = min(*known, part["level"]) - MARGIN, min(max(*known, part["level"]) + MARGIN, 1.01)
    line = curve(
        "inside", "coverage", label="inside the interval", shade="own",
        x=ref("inside", "step"), mode="lines+markers", showlegend=False,
    )  # fmt: skip
    layout: PlotSpec = {
        "xaxis": {"title": {"text": "steps ahead"}},
        "yaxis": {"title": {"text": "inside"}, "tickformat": ".0%", "range": [low, high]},
        "shapes": [straight_line("mute", y=part["level"])],
    }
    return Figure(
        "inside",
        "Are the intervals calibrated?",
        f"{level} of values should lie inside, at every step: the line should stay near the dashed one.",
        f"Line chart of coverage by step, from {percent(min(known))} to {percent(max(known))}.",
        f"Measured: share of known values inside the interval served before. Held against: {level}.",
        [View("", [line], layout, linked=False)],
        height=280,
    )

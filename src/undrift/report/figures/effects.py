"""What matters now: how far each column moves the last predictions."""

from __future__ import annotations

from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import number
from undrift.report.plot_spec import PlotSpec, colour, escape, ref, round_numbers
from undrift.report.run_context import RunContext

SECTION = "moves"
BARS = 15
"""Columns that are drawn, at most."""


def measure(run: RunContext) -> Measured:
    """Return the largest effects, the largest first."""
    if not run.data.effects:
        return {"effects": None}
    columns = sorted(run.data.effects.items(), key=lambda item: -item[1])
    return {
        "effects": {
            "columns": [escape(name) for name, _ in columns[:BARS]],
            "sizes": round_numbers(size for _, size in columns[:BARS]),
            "all": len(columns),
        }
    }


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw a bar for each column."""
    part = numbers["effects"]
    unit = f"units of {escape(run.data.target)}" if run.numbers else "log-odds" if run.binary else "probability"
    shown = list(zip(part["columns"], part["sizes"], strict=True))
    bars: PlotSpec = {
        "type": "bar",
        "orientation": "h",
        "x": ref("effects", "sizes"),
        "y": ref("effects", "columns"),
        "marker": {"color": colour("own")},
        "hovertemplate": "%{y}: %{x:.4g}<extra></extra>",
    }
    layout: PlotSpec = {
        "xaxis": {"title": {"text": f"change in {unit}"}, "zeroline": True},
        "yaxis": {"autorange": "reversed", "automargin": True},
        "showlegend": False,
        "hovermode": "closest",
        "bargap": 0.25,
    }
    left_out = f" The {BARS} largest of {part['all']}." if part["all"] > BARS else ""
    return Figure(
        "effects",
        "What matters now",
        f"The longer a bar, the more the last predictions would change if that column had its usual value.{left_out}",
        f"Bars of how far each column moves the last predictions, in {unit}: "
        + ", ".join(f"{name} {number(size)}" for name, size in shown),
        f"Measured: mean change of the last predictions, in {unit}, with all features of one column (or one cycle of "
        "the calendar) at their means in the first rows and the rest kept. Columns that move together share their "
        "effect.",
        [View("", [bars], layout, linked=False)],
        height=110 + 24 * len(shown),
    )

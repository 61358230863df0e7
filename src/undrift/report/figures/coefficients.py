"""The coefficients of the leading linear model through time: curves of the clearest features, and a table of all."""

from __future__ import annotations

import numpy as np

from undrift._typing import Vector
from undrift.report.blocks import cut_blocks
from undrift.report.figures.figure import Figure, Measured, Numbers, View, curve, round_numbers
from undrift.report.formatting import number
from undrift.report.run_context import RunContext

SECTION = "moves"
POINTS = 300
"""Points of a curve, at most."""
PANELS = 12
"""Features whose coefficients are drawn, at most."""
ROWS = 500
"""Features in the table, at most."""


def measure(run: RunContext) -> Measured:
    """Return curves of the clearest features, and the first, lowest, highest and last value of all."""
    data = run.data
    if not data.coef.size:
        return {"coefficients": None}
    points = cut_blocks(len(data.coef), POINTS).last - 1
    rounds = np.clip(data.coef_round[points].astype(np.int64), 1, data.rounds)
    known = [column[np.isfinite(column)] for column in data.coef.T]
    return {
        "coefficients": {
            "axis": run.timeline.axis(rounds),
            "panels": [
                {
                    "name": data.coef_names[j],
                    "values": round_numbers(data.coef[points, j]),
                    "range": _clipped_range(known[j]),
                    "last": float(known[j][-1]),
                }
                for j in _clearest_first(known)
                if len(known[j])
            ],
            "table": [
                {
                    "name": name,
                    "first": float(values[0]),
                    "lowest": float(np.min(values)),
                    "highest": float(np.max(values)),
                    "last": float(values[-1]),
                }
                for name, values in zip(data.coef_names, known[:ROWS], strict=False)
                if len(values)
            ],
            "features": len(known),
        }
    }


def _clipped_range(values: Vector) -> list[float] | None:
    """Return the range to draw when a few extreme values would flatten the rest; None to draw all."""
    low, high = (float(q) for q in np.quantile(values, (0.03, 0.97)))
    margin = 0.25 * (high - low)
    extreme = float(np.max(values)) - float(np.min(values)) > 3.0 * (high - low) > 0.0
    return [float(f"{low - margin:.5g}"), float(f"{high + margin:.5g}")] if extreme else None


def _clearest_first(known: list[Vector]) -> list[int]:
    """Return features by how clearly their coefficient is not 0, in units of how much it moves; the constant last."""

    def clearness(values: Vector) -> float:
        if not len(values) or not np.any(values):
            return -1.0
        spread = float(np.std(values))
        return abs(float(np.mean(values))) / spread if spread > 0.0 else float("inf")

    features = sorted(range(len(known) - 1), key=lambda j: -clearness(known[j]))
    return [*features[: PANELS - 1], len(known) - 1]


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw a small panel for each of the clearest features."""
    panels = numbers["coefficients"]["panels"]
    effect = "the log-odds change" if run.binary else "the prediction changes"
    views = [
        View(
            panel["name"],
            [curve("coefficients", "panels", k, "values", label=panel["name"], shade="own", showlegend=False)],
            {"yaxis": {"range": panel["range"]}} if panel["range"] else {},
        )
        for k, panel in enumerate(panels)
    ]
    ends = ", ".join(f"{panel['name']}: {number(panel['last'])}" for panel in panels)
    return Figure(
        "coefficients",
        "Coefficients through time",
        f"One panel for each feature: how much {effect} when the feature grows by 1, as the leading "
        "linear model saw it. A line that wanders is drift; a line at 0 is a feature that does not matter.",
        f"Small line charts of coefficients through time; at the end {ends}.",
        "Measured: coefficients of the linear model with the most weight, in the units of the source. "
        "Features that move together share their effect; a few extreme moments may lie outside a panel.",
        [],
        panels=views,
    )


def table_rows(coefficients: Numbers | None) -> list[list[str]]:
    """Return the table of all coefficients as text."""
    rows = coefficients["table"] if coefficients else []
    return [[row["name"], *(number(row[key]) for key in ("first", "lowest", "highest", "last"))] for row in rows]

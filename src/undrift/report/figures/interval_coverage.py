"""How often labels lay inside the intervals predicted for them, and how wide these were."""

from __future__ import annotations

import numpy as np

from undrift.report.blocks import cut_blocks
from undrift.report.figures.figure import Figure, Measured, Numbers, View, curve, round_numbers, straight_line, y_title
from undrift.report.formatting import percent, plural
from undrift.report.run_context import POINTS, RunContext
from undrift.run.play.run_model import LEVEL

SECTION = "trust"


def measure(run: RunContext) -> Measured:
    """Return coverage and mean width over a window that moves through the run."""
    data = run.data
    if data.lower is None or data.upper is None:
        return {"intervals": None}
    known = np.isfinite(data.lower) & np.isfinite(data.upper)
    if not known.any():
        return {"intervals": None}
    inside = known & (data.lower <= data.y) & (data.y <= data.upper)
    width = np.where(known, data.upper - data.lower, 0.0)
    blocks = cut_blocks(data.rounds, POINTS // 2)
    window = blocks.window(max(100, data.rounds // 30))
    known_means, inside_means, width_means = (
        blocks.rolling_mean(blocks.sum(values.astype(np.float64)), window) for values in (known, inside, width)
    )
    known_means = np.where(known_means > 0.0, known_means, np.nan)  # nothing is drawn where a window has no interval
    return {
        "intervals": {
            "axis": run.timeline.axis(blocks.last),
            "window": blocks.window_rounds(window),
            "level": LEVEL,
            "measured": float(np.count_nonzero(inside) / np.count_nonzero(known)),
            "rounds": int(np.count_nonzero(known)),
            "coverage": round_numbers(inside_means / known_means, 4),
            "width": round_numbers(width_means / known_means, 4),
        }
    }


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw coverage beside its level and, as a second view, the mean width."""
    part = numbers["intervals"]
    level, measured = percent(part["level"]), percent(part["measured"])
    coverage = curve("intervals", "coverage", label="inside the interval", shade="own", showlegend=False)
    width = curve("intervals", "width", label="mean width", shade="own", showlegend=False)
    share = {"tickformat": ".0%", "title": {"text": "inside"}}
    return Figure(
        "intervals",
        "Do the intervals keep their word?",
        f"{level} of true values should lie inside the interval given beforehand: the line should stay near "
        "the dashed one.",
        f"Line chart of interval coverage; overall {measured} of labels lay inside.",
        f"Measured: share of labels inside, over the last {plural(part['window'], 'row')}; {measured} of "
        f"{plural(part['rounds'], 'row')} overall. Held against: {level}.",
        [
            View("Coverage", [coverage], {"yaxis": share, "shapes": [straight_line("mute", y=part["level"])]}),
            View("Width", [width], {"yaxis": {"rangemode": "tozero", **y_title(f"width ({run.data.target})")}}),
        ],
        height=300,
    )

"""How often labels lay inside the intervals predicted for them, and how wide these were."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undrift.metrics import interval_pinball
from undrift.report.blocks import cut_blocks
from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import number, percent, plural
from undrift.report.plot_spec import curve, round_numbers, straight_line, y_title
from undrift.report.run_context import POINTS, RunContext
from undrift.stream.cells import Times

SECTION = "trust"
QUARTERS = 4


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
    fifths = np.searchsorted(np.quantile(data.yhat[known], [0.2, 0.4, 0.6, 0.8]), data.yhat[known])
    known_sums, inside_sums, width_sums = (blocks.sum(values.astype(np.float64)) for values in (known, inside, width))
    return {
        "intervals": {
            "axis": run.timeline.axis(blocks.last),
            "window": blocks.window_rounds(window),
            "level": data.level,
            "measured": float(np.count_nonzero(inside) / np.count_nonzero(known)),
            "rounds": int(np.count_nonzero(known)),
            "pinball": interval_pinball(data.lower, data.upper, data.y, level=data.level),
            "by_size": _shares(inside[known], fifths),
            "by_quarter": _quarter_shares(inside, known, data.time),
            "coverage": round_numbers(blocks.rolling_mean(inside_sums, window, known_sums), 4),
            "width": round_numbers(blocks.rolling_mean(width_sums, window, known_sums), 4),
        }
    }


def _quarter_shares(inside: NDArray[np.bool_], known: NDArray[np.bool_], time: Times | None) -> list[float] | None:
    """Return the share inside for each quarter of the day; None where rows have no times of day."""
    if time is None or np.isnat(time).any():
        return None
    hours = (time - time.astype("datetime64[D]")).astype("timedelta64[h]").astype(np.int64)
    quarters = np.asarray(hours * QUARTERS // 24)[known]
    return _shares(inside[known], quarters) if len(np.unique(quarters)) == QUARTERS else None


def _shares(inside: NDArray[np.bool_], group: NDArray[np.int64]) -> list[float]:
    """Return the share of labels inside their interval, group by group."""
    return [float(np.mean(inside[group == one])) for one in np.unique(group)]


def _span(shares: list[float]) -> str:
    return f"{percent(min(shares))} to {percent(max(shares))}"


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw coverage beside its level and, as a second view, the mean width."""
    part = numbers["intervals"]
    level, measured = percent(part["level"]), percent(part["measured"])
    coverage = curve("intervals", "coverage", label="inside the interval", shade="own", showlegend=False)
    width = curve("intervals", "width", label="mean width", shade="own", showlegend=False)
    groups = f"{_span(part['by_size'])} by fifths of the predictions"
    if part["by_quarter"] is not None:
        groups += f", {_span(part['by_quarter'])} by quarters of the day"
    share = {"tickformat": ".0%", "title": {"text": "inside"}}
    return Figure(
        "intervals",
        "Do the intervals keep their word?",
        f"{level} of true values should lie inside the interval given beforehand: the line should stay near "
        "the dashed one.",
        f"Line chart of interval coverage; overall {measured} of labels lay inside.",
        f"Measured: share of labels inside, over the last {plural(part['window'], 'row')}; {measured} of "
        f"{plural(part['rounds'], 'row')} overall, {groups}. Held against: {level}. Mean pinball loss of both ends: "
        f"{number(part['pinball'])}.",
        [
            View("Coverage", [coverage], {"yaxis": share, "shapes": [straight_line("mute", y=part["level"])]}),
            View("Width", [width], {"yaxis": {"rangemode": "tozero", **y_title(f"width ({run.data.target})")}}),
        ],
        height=300,
    )

"""Half-life and saved loss, a dot for each key."""

from __future__ import annotations

import heapq
import math

from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.figures.loss_saved import LOWEST
from undrift.report.formatting import number, plural, shorten
from undrift.report.plot_spec import PlotSpec, colour, escape, ref, round_numbers
from undrift.run import FleetResult, KeyReport

SECTION = "drift"
POINTS = 1000
"""Keys that are drawn, at most."""


def measure(fleet: FleetResult) -> Measured:
    """Return half-life and saved loss of each key; of those with most rounds where there are many."""
    known = [key for key in fleet.keys if key.half_life is not None and not math.isnan(key.skill)]
    known = heapq.nlargest(POINTS, known, key=KeyReport.sampling_key)
    finite = [(key.half_life, key) for key in known if key.half_life is not None and math.isfinite(key.half_life)]
    if len(finite) < 2:
        return {"points": None}
    return {
        "points": {
            "key": [shorten(key.key) for _, key in finite],
            "half_life": round_numbers(half_life for half_life, _ in finite),
            "saved": round_numbers(max(key.skill, LOWEST) for _, key in finite),
            "rounds": [key.rounds for _, key in finite],
            "of": len(fleet.keys),
        }
    }


def draw(fleet: FleetResult, numbers: Numbers) -> Figure:
    """Draw a scatter plot."""
    points = numbers["points"]
    n = len(points["key"])
    dots: PlotSpec = {
        "type": "scatter",
        "mode": "markers",
        "x": ref("points", "half_life"),
        "y": ref("points", "saved"),
        "text": [escape(key) for key in points["key"]],
        "customdata": ref("points", "rounds"),
        "name": "keys",
        "marker": {"color": colour("own"), "size": 9 if n < 100 else 6, "opacity": 0.75 if n < 100 else 0.45},
        "hovertemplate": "%{text}<br>half-life %{x:,.3r} rows, saved %{y:.1%}<br>%{customdata:,} rows<extra></extra>",
    }
    ticks = _log_ticks(min(points["half_life"]), max(points["half_life"]))
    layout: PlotSpec = {
        "xaxis": {
            "type": "log",
            "title": {"text": "half-life (rows)"},
            "tickvals": ticks,
            "ticktext": [number(tick) for tick in ticks],
            "range": [math.log10(ticks[0]) - 0.02, math.log10(ticks[-1]) + 0.02],
        },
        "yaxis": {"tickformat": ".0%", "title": {"text": "loss saved"}},
        "showlegend": False,
        "hovermode": "closest",
    }
    part = "" if n == points["of"] else f" Shown: {n:,} of {plural(points['of'], 'key')}, those with most rows."
    return Figure(
        "points",
        "Memory and quality, key by key",
        "Each dot is a key; point at one for its name. Low dots are keys where undrift is hardly better than guessing, "
        "dots on the left are keys that change fast; low and left is where to look first.",
        f"Scatter plot of {plural(n, 'key')}: half-life against saved loss.",
        f"Measured: half-life at the end, and loss saved against the best naive guess, at least -100%.{part}",
        [View("", [dots], layout, linked=False)],
        height=380,
    )


def _log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers of a logarithmic axis: 1, 2, 5, 10, ..., or powers of ten where that is too many.

    >>> _log_ticks(4.0, 60.0), _log_ticks(1.0, 1e6)
    ([2.0, 5.0, 10.0, 20.0, 50.0, 100.0], [1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0, 1000000.0])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    fine = [step * 10.0**k for k in range(first, last + 1) for step in (1.0, 2.0, 5.0)]
    fine = [x for a, x, b in zip([0.0, *fine], fine, [*fine[1:], math.inf], strict=False) if b > low and a < high]
    return fine if len(fine) <= 10 else [10.0**k for k in range(first, last + 1)]

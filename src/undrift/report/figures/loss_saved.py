"""How many keys saved which part of the loss of the baseline that did best on them."""

from __future__ import annotations

import numpy as np

from undrift.report.figures.figure import Figure, Measured, Numbers, key_histogram
from undrift.report.formatting import percent, plural
from undrift.report.key_lists import loss_saved_by_key
from undrift.report.plot_spec import round_numbers, straight_line
from undrift.run import FleetResult

SECTION = "well"
STEP = 0.05
"""Width of a bar."""
LOWEST = -1.0
"""Keys that saved less than this count in the lowest bar."""


def measure(fleet: FleetResult) -> Measured:
    """Return the number of keys by saved loss."""
    saved = loss_saved_by_key(fleet)
    if not len(saved):
        return {"saved": None}
    edges = np.round(np.arange(LOWEST, 1.0 + STEP / 2.0, STEP), 10)
    counts, _ = np.histogram(np.clip(saved, LOWEST, 1.0), edges)
    first = int(np.flatnonzero(counts)[0])
    counts, edges = counts[first:], edges[first:]
    return {
        "saved": {
            "low": round_numbers(edges[:-1]),
            "high": round_numbers(edges[1:]),
            "middle": round_numbers((edges[:-1] + edges[1:]) / 2.0),
            "count": counts.tolist(),
            "keys": len(saved),
            "better": int(np.count_nonzero(saved > 0.0)),
            "median": float(np.median(saved)),
            "clipped": int(np.count_nonzero(saved < LOWEST)),
        }
    }


def draw(fleet: FleetResult, numbers: Numbers) -> Figure:
    """Draw a histogram over keys."""
    saved = numbers["saved"]
    clipped = f" {plural(saved['clipped'], 'key')} below -100% count in the lowest bar." if saved["clipped"] else ""
    better = f"{saved['better']:,} of {plural(saved['keys'], 'key')}"
    median = percent(saved["median"])
    xaxis = {
        "tickformat": ".0%",
        "title": {"text": "loss saved"},
        "range": [min(saved["low"][0], 0.0) - 0.02, 1.02],
    }
    hover = "saved %{customdata:.0%} to %{text:.0%}"
    return Figure(
        "saved",
        "How much better than a naive guess",
        "Each bar counts keys by the part of the loss of a naive guess that undrift saved, against whichever naive "
        "guess did best on that key. Right of the dashed line undrift was better; at 100% it would never be wrong.",
        f"Histogram of saved loss over keys; {better} did better than the best naive guess, the middle key saved "
        f"{median}.",
        "Measured: 1 minus undrift's total loss over the best naive guess's, which is known only afterwards; a key's "
        f"first row is not scored. Held against: 0. Better for {better}; middle key {median}.{clipped}",
        [key_histogram("saved", "middle", "low", "high", hover, xaxis, shapes=[straight_line("line", x=0.0)])],
        height=300,
    )

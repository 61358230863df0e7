"""Predicted probabilities beside how often they came true."""

from __future__ import annotations

import numpy as np

from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import percent
from undrift.report.plot_spec import PlotSpec, colour, diagonal, escape, ref, round_numbers
from undrift.report.run_context import RunContext

SECTION = "trust"
FEWEST = 5
"""Rows of a point that is drawn; how often fewer come true says nothing."""
BINS = 20
"""Equal steps of probability."""


def measure(run: RunContext) -> Measured:
    """Return, for each step of probability, its mean, how often it came true, and two standard errors."""
    found = run.class_rounds
    if found is None or not len(found.y):
        return {"calibration": None}
    p, y = found.p[:, 1], found.y
    if run.several:  # of the class that was predicted
        p, y = np.max(found.p, axis=1), (found.yhat == found.y).astype(np.float64)
    bin_of = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(bin_of, minlength=BINS)
    filled = np.flatnonzero(counts)
    predicted, observed = (np.bincount(bin_of, values, BINS)[filled] / counts[filled] for values in (p, y))
    enough = counts[filled] >= min(FEWEST, int(np.max(counts)))  # of a short run, the fullest steps
    error = np.sqrt(predicted * (1.0 - predicted) / counts[filled])
    return {
        "calibration": {
            "said": round_numbers(predicted),
            "came": round_numbers(np.where(enough, observed, np.nan)),
            "error": round_numbers(2.0 * error),
            "middle": round_numbers((filled + 0.5) / BINS),
            "count": [int(n) for n in counts[filled]],
            "gap": float(np.sum(np.abs(predicted - observed) * counts[filled]) / len(y)),
        }
    }


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw the reliability curve and, as a second view, how often each probability was given."""
    gap = percent(numbers["calibration"]["gap"])
    positive = "the predicted class" if run.several else (run.data.classes or ("0", "1"))[1]
    chance = {"tickformat": ".0%", "range": [-0.02, 1.02]}
    reliability: list[PlotSpec] = [
        diagonal("perfect"),
        {"type": "scatter", "mode": "lines+markers", "x": ref("calibration", "said"), "y": ref("calibration", "came"),
         "name": "undrift", "line": {"color": colour("own"), "width": 2},
         "marker": {"color": colour("own"), "size": 7},
         "error_y": {"type": "data", "array": ref("calibration", "error"), "color": colour("mute"), "thickness": 1,
                     "width": 0},
         "customdata": ref("calibration", "count"),
         "hovertemplate": "said %{x:.1%}, came true %{y:.1%}<br>%{customdata:,} rows<extra></extra>"},
    ]  # fmt: skip
    counts: list[PlotSpec] = [
        {"type": "bar", "x": ref("calibration", "middle"), "y": ref("calibration", "count"), "name": "rows",
         "marker": {"color": colour("own")}, "hovertemplate": "about %{x:.1%}: %{y:,} rows<extra></extra>"},
    ]  # fmt: skip
    layout = {
        "xaxis": {**chance, "title": {"text": escape(f"{'' if run.several else 'predicted '}chance of {positive}")}},
        "hovermode": "closest",
    }
    observed = {**chance, "title": {"text": "came true"}}
    rows = {"title": {"text": "rows"}}
    return Figure(
        "calibration",
        "Can the probabilities be trusted?",
        "When undrift says 70%, it should come true in 70% of such rows: points on the dashed line. Below the line it "
        f"was too sure{'' if run.several else ' of a yes'}, above it too cautious.",
        f"Reliability curve of predicted chances of {positive}; on average they were off by {gap}.",
        "Measured: share that came true among rows with about the same predicted chance; bars are two standard errors. "
        f"Held against: the diagonal. On average off by {gap}.",
        [
            View("Reliability", reliability, {**layout, "yaxis": observed}, linked=False),
            View("How often each was said", counts, {**layout, "yaxis": rows, "bargap": 0.05}, linked=False),
        ],
        height=380,
    )

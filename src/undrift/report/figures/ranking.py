"""How well probabilities tell classes apart at any threshold: ROC, and precision against recall."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from undrift.metrics import RankingCurve, ranking_curve
from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import number, shorten
from undrift.report.plot_spec import COLOURS, PlotSpec, curve, diagonal, escape, ref, round_numbers
from undrift.report.run_context import COMMON, RunContext

SECTION = "well"
CURVES = 5
"""Classes whose curves are drawn against the rest, the most frequent ones; a curve of a few rows says nothing."""
POINTS = 120
"""Points of a curve, at most."""


def measure(run: RunContext) -> Measured:
    """Return the curves of the positive class, or of each of several against the rest, and the areas under them."""
    found = run.class_rounds
    if found is None:
        return {"ranking": None}
    common = [k for k in found.frequent_first if found.counts[k].sum() >= COMMON]
    chosen = [1] if run.binary else common[:CURVES]
    curves = []
    for k in chosen:
        curve = ranking_curve(found.p[:, k], found.y == k)
        if len(curve.found):
            at = _spread(curve)
            curves.append(
                {
                    "name": escape(shorten(found.names[k], 24)),
                    "found": [0.0, *round_numbers(curve.found[at], 4)],
                    "alarms": [0.0, *round_numbers(curve.alarms[at], 4)],
                    "precision": [*round_numbers(curve.precision[at[:1]], 4), *round_numbers(curve.precision[at], 4)],
                    "auc": float(curve.roc_auc),
                    "average": float(curve.average_precision),
                    "share": float(np.mean(found.y == k)),
                }
            )
    return {"ranking": {"curves": curves} if curves else None}


def _spread(curve: RankingCurve) -> NDArray[np.int64]:
    """Return points in equal steps along the curve."""
    along = curve.found + curve.alarms
    places = np.searchsorted(along, np.linspace(along[0], along[-1], POINTS))
    return np.unique(np.minimum(places, len(along) - 1)).astype(np.int64)


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw both kinds of curves, one view each."""
    curves = numbers["ranking"]["curves"]

    def line(k: int, x: str, y: str, label: str, hover: str) -> PlotSpec:
        points, shade = ("ranking", "curves", k), COLOURS[min(k, len(COLOURS) - 1)]
        drawn = curve(*points, y, label="", shade=shade, x=ref(*points, x), hovertemplate=hover + "<extra></extra>")
        return drawn | {"name": label}

    roc = [diagonal("a coin"), *(
        line(k, "alarms", "found", f"{one['name']} ({number(one['auc'])})", "found %{y:.1%}, false alarms %{x:.1%}")
        for k, one in enumerate(curves)
    )]  # fmt: skip
    precise = [
        line(k, "found", "precision", f"{one['name']} ({number(one['average'])})", "found %{x:.1%}, right %{y:.1%}")
        for k, one in enumerate(curves)
    ]
    share = {"tickformat": ".0%", "range": [-0.02, 1.02]}
    best = max((one["auc"] for one in curves), default=math.nan)
    each = ", ".join(f"{one['name']}: {number(one['auc'])}" for one in curves)
    base = ", ".join(f"{one['name']} {number(100.0 * one['share'])}%" for one in curves)
    return Figure(
        "ranking",
        "Telling classes apart",
        "If you act when the chance is above a threshold: how many of the rows you look for are found, against how "
        "many false alarms (ROC) or how often you are right (precision). The nearer to the upper corner, the better.",
        f"ROC and precision-recall curves; areas under the ROC curves {each}, the best {number(best)}.",
        "Measured: probabilities given before each label, over all rows at once; in brackets the area under the ROC "
        f"curve, or the average precision. Held against: a coin (0.5), or how often each class comes ({base}).",
        [
            View("ROC", roc, {"xaxis": {**share, "title": {"text": "false alarms, of all other rows"}},
                 "yaxis": {**share, "title": {"text": "found"}}, "hovermode": "closest"}, linked=False),
            View("Precision and recall", precise, {"xaxis": {**share, "title": {"text": "found (recall)"}},
                 "yaxis": {**share, "title": {"text": "right (precision)"}}, "hovermode": "closest"}, linked=False),
        ],
        height=380,
    )  # fmt: skip

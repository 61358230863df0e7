"""What the model consists of: who is listened to, and what moves the prediction."""

from __future__ import annotations

from undrift.report.curves import Sheet
from undrift.report.figures.spec import HUES, Figure, View, curve, hue, ref
from undrift.report.words import number, percent

_PLAIN = {"level 2": "all combined (level 2)", "linear": "linear models", "waves": "curved models (waves)"}
"""The candidates of our estimators in plain words."""


def candidates(sheet: Sheet) -> Figure:
    """Who is listened to."""
    names = [_PLAIN.get(name, name.replace("curvature", "linear models, curvature")) for name in sheet["names"]]
    traces = [
        {
            **curve("candidates", ref("candidates", "weights", k), name, HUES[min(k, 5)], line={"width": 0.5}),
            "stackgroup": "all",
            "fillcolor": hue(HUES[min(k, 5)]),
        }
        for k, name in enumerate(names)
    ]
    ends = [(name, values[-1]) for name, values in zip(names, sheet["weights"], strict=True)]
    return Figure(
        "candidates",
        "Who is listened to",
        "undrift predicts with several models and naive guesses at once; the taller a band, the more it counts. Bands "
        "change when another model starts to do better.",
        "Stacked areas of the weights of "
        + ", ".join(f"{name} ({percent(share)} at the end)" for name, share in ends)
        + ".",
        "Measured: weights of the last mixer. Its cost over every one of these is bounded by `cost()`.",
        [View("", traces, {"yaxis": {"tickformat": ".0%", "range": [0, 1], "title": {"text": "weight"}}})],
        height=280,
    )


def coefficients(sheet: Sheet, classify: bool) -> Figure:
    """Coefficients of the leading linear leaf."""
    what = "the log-odds change" if classify else "the prediction changes"
    panels = [
        View(
            panel["name"],
            [curve("coefficients", ref("coefficients", "panels", k, "values"), panel["name"], "own", showlegend=False)],
            {"yaxis": {"range": panel["range"]}} if panel["range"] else {},
        )
        for k, panel in enumerate(sheet["panels"])
    ]
    return Figure(
        "coefficients",
        "Coefficients through time",
        f"One panel for each feature: how much {what} when the feature grows by 1, as the leading "
        "linear model saw it. A line that wanders is drift; a line at 0 is a feature that does not matter.",
        "Small line charts of coefficients through time; at the end "
        + ", ".join(f"{panel['name']}: {number(panel['last'])}" for panel in sheet["panels"])
        + ".",
        "Measured: coefficients of the linear model with the most weight, in the units of the source. "
        "Features that move together share their effect; a few extreme moments may lie outside a panel.",
        [],
        panels=panels,
    )

"""The weights of the last mixer's candidates through time."""

from __future__ import annotations

import numpy as np

from undrift.report.blocks import cut_blocks
from undrift.report.figures.figure import COLOURS, Figure, Measured, Numbers, View, colour, curve, round_numbers
from undrift.report.formatting import percent
from undrift.report.run_context import RunContext

SECTION = "memory"
POINTS = 300
"""Points of a curve, at most."""
SMALL = 0.02
"""Candidates that never have this share of the weight are drawn together."""
PLAIN_NAMES = {
    "level 2": "all combined (level 2)",
    "linear": "linear models",
    "waves": "curved models (waves)",
    "context": "models in context (last labels, running means)",
}
"""The candidates of our estimators in plain words."""


def measure(run: RunContext) -> Measured:
    """Return the weight of each candidate that ever mattered, and of the others together."""
    data = run.data
    if not data.candidate_weights.size:
        return {"candidates": None}
    blocks = cut_blocks(len(data.candidate_weights), POINTS)
    rounds = np.clip(data.spectrum_round[blocks.last - 1].astype(np.int64), 1, data.rounds)
    means = blocks.column_means(data.candidate_weights)
    large = np.max(means, axis=0) >= SMALL
    names = [name for name, kept in zip(data.candidates, large, strict=True) if kept]
    weights = [*means.T[large]]
    if not large.all():
        names.append("others")
        weights.append(np.sum(means[:, ~large], axis=1))
    return {
        "candidates": {
            "axis": run.timeline.axis(rounds),
            "names": names,
            "weights": [round_numbers(weight, 4) for weight in weights],
        }
    }


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw the weights as stacked areas."""
    part = numbers["candidates"]
    names = [PLAIN_NAMES.get(name, name.replace("curvature", "linear models, curvature")) for name in part["names"]]
    shades = [COLOURS[min(k, 5)] for k in range(len(names))]
    areas = [
        {
            **curve("candidates", "weights", k, label=name, shade=shade, line={"width": 0.5}),
            "stackgroup": "all",
            "fillcolor": colour(shade),
        }
        for k, (name, shade) in enumerate(zip(names, shades, strict=True))
    ]
    ends = ", ".join(f"{name} ({percent(x[-1])} at the end)" for name, x in zip(names, part["weights"], strict=True))
    return Figure(
        "candidates",
        "Who is listened to",
        "undrift predicts with several models and naive guesses at once; the taller a band, the more it counts. Bands "
        "change when another model starts to do better.",
        f"Stacked areas of the weights of {ends}.",
        "Measured: weights of the last mixer. Its cost over every one of these is bounded by `cost()`.",
        [View("", areas, {"yaxis": {"tickformat": ".0%", "range": [0, 1], "title": {"text": "weight"}}})],
        height=280,
    )

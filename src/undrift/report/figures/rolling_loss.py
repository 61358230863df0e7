"""The error over the last rows, beside the baselines."""

from __future__ import annotations

import numpy as np

from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import number, plural
from undrift.report.plot_spec import curves, round_numbers, y_title
from undrift.report.run_context import RunContext
from undrift.report.scores import SCORE_TITLES

SECTION = "well"


def measure(run: RunContext) -> Measured:
    """Return the rolling error of the run and of every baseline."""
    blocks, rounds = run.blocks, run.data.rounds
    window = blocks.window(max(20, rounds // 50))
    means = [blocks.rolling_mean(sums, window, run.block_predicted) for sums in run.block_losses.values()]
    hits = {} if run.numbers else run.block_hits
    right = [blocks.rolling_mean(sums, window, run.block_predicted) for sums in hits.values()]
    return {
        "loss": {
            "axis": run.timeline.axis(blocks.last),
            "window": blocks.window_rounds(window),
            "names": list(run.block_losses),
            "right": [round_numbers(mean, 4) for mean in right],
            "rolling": [round_numbers(np.sqrt(2.0 * mean) if run.numbers else mean) for mean in means],
        }
    }


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw one line for each predictor."""
    loss = numbers["loss"]
    title = SCORE_TITLES["rmse" if run.numbers else "log_loss"]
    window = plural(loss["window"], "row")
    views = [View("", curves("loss", "rolling", loss["names"]), {"yaxis": {"rangemode": "tozero", **y_title(title)}})]
    if loss["right"]:
        share = {"tickformat": ".0%", "rangemode": "tozero", **y_title(SCORE_TITLES["accuracy"])}
        views = [
            View("Log-loss", views[0].data, views[0].layout),
            View("Accuracy", curves("loss", "right", loss["names"]), {"yaxis": share}),
        ]
    ends = ", ".join(f"{name}: {number(x[-1])}" for name, x in zip(loss["names"], loss["rolling"], strict=True))
    return Figure(
        "rolling",
        "How well, through time",
        f"Error over the last {window}: lower is better. Where the coloured line is below the others, learning beats "
        f"guessing.{' “Accuracy” shows how often the most likely class came: higher is better.' * bool(loss['right'])}",
        f"Line chart of the rolling {title}; at the end {ends}.",
        f"Measured: {title} of predictions made before the label, over the last {window}. "
        "Held against: the naive guesses.",
        views,
    )

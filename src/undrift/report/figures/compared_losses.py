"""The error of several runs over the last rows."""

from __future__ import annotations

import numpy as np

from undrift.report.blocks import cut_blocks
from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import number, plural
from undrift.report.plot_spec import curves, round_numbers, y_title
from undrift.report.run_context import iso_times
from undrift.report.scores import SCORE_TITLES
from undrift.run import RunsComparison

SECTION = "well"
POINTS = 1000
"""Points of a curve, at most."""


def measure(found: RunsComparison) -> Measured:
    """Return the rolling error of every run, and how far its losses add up to more than those of the first."""
    blocks = cut_blocks(found.rows, POINTS)
    window = blocks.window(max(20, found.rows // 50))
    sums = [blocks.sum(run.losses) for run in found.runs]
    means = [blocks.rolling_mean(one, window) for one in sums]
    usable = (
        found.time is not None and not np.isnat(found.time).any() and not (np.diff(found.time).astype(int) < 0).any()
    )
    time = iso_times(found.time[blocks.last - 1]) if found.time is not None and usable else None
    return {
        "compared": {
            "axis": {"round": blocks.last.tolist(), "time": time},
            "names": [run.name for run in found.runs],
            "window": blocks.window_rounds(window),
            "rolling": [round_numbers(np.sqrt(2.0 * one) if found.task == "regression" else one) for one in means],
            "behind": [round_numbers(np.cumsum(one - sums[0]), 6) for one in sums],
        }
    }


def draw(found: RunsComparison, numbers: Numbers) -> Figure:
    """Draw a line for each run; as a second view, what each lost more than the first."""
    part = numbers["compared"]
    title = SCORE_TITLES["rmse" if found.task == "regression" else "log_loss"]
    window, first = plural(part["window"], "row"), part["names"][0]
    ends = ", ".join(f"{name}: {number(x[-1])}" for name, x in zip(part["names"], part["rolling"], strict=True))
    return Figure(
        "compared",
        "How well, through time",
        f"Error over the last {window}: lower is better. “Difference” adds up what each run lost more than {first}: a "
        "line that falls is better than it.",
        f"Line chart of the rolling {title} of {len(part['names'])} runs; at the end {ends}.",
        f"Measured: {title} of predictions made before the label, over the last {window}, on the rows that all runs "
        "predicted.",
        [
            View(
                "Error",
                curves("compared", "rolling", part["names"]),
                {"yaxis": {"rangemode": "tozero", **y_title(title)}},
            ),
            View(
                "Difference",
                curves("compared", "behind", part["names"])[1:],
                {"yaxis": y_title(f"lost more than {first}")},
            ),
        ],
    )

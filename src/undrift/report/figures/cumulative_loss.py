"""The loss added up from the first row on, and how far each baseline fell behind."""

from __future__ import annotations

import numpy as np

from undrift.report.figures.figure import Figure, Measured, Numbers, View, curves, round_numbers, y_title
from undrift.report.formatting import number
from undrift.report.run_context import RunContext
from undrift.report.scores import OWN

SECTION = "well"


def measure(run: RunContext) -> Measured:
    """Return the cumulative loss of the run and of every baseline, and each minus the run's own."""
    totals = {name: np.cumsum(sums) for name, sums in run.block_losses.items()}
    return {
        "loss": {
            "axis": run.timeline.axis(run.blocks.last),
            "names": list(totals),
            "cumulative": [round_numbers(total, 6) for total in totals.values()],
            "behind": [round_numbers(total - totals[OWN], 6) for total in totals.values()],
        }
    }


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw the totals and, as a second view, the lead over each baseline."""
    loss = numbers["loss"]
    names = loss["names"]
    totals = curves("loss", "cumulative", names)
    lead = curves("loss", "behind", [f"{name} minus undrift" for name in names])[1:]
    ends = ", ".join(f"{name}: {number(x[-1])}" for name, x in zip(names, loss["cumulative"], strict=True))
    return Figure(
        "cumulative",
        "Loss added up",
        "A steeper line loses faster. “Lead” shows how much more each naive guess has lost than undrift: "
        "rising is good.",
        f"Line chart of cumulative losses; at the end {ends}.",
        f"Measured: sum of {run.loss_name} from the first row on. Held against: the naive guesses.",
        [
            View("Total", totals, {"yaxis": {"rangemode": "tozero", **y_title(f"sum of {run.loss_name}")}}),
            View("Lead", lead, {"yaxis": y_title("lost more than undrift")}),
        ],
    )

"""The loss added up from the first row on: what undrift saved beside the best naive guess, and everybody's total."""

from __future__ import annotations

import numpy as np

from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import number, percent
from undrift.report.plot_spec import PlotSpec, colour, curve, curves, round_numbers, straight_line, y_title
from undrift.report.run_context import RunContext
from undrift.report.scores import OWN

SECTION = "well"


def measure(run: RunContext) -> Measured:
    """Return the cumulative loss of the run and of every baseline, and what the run saved beside the best of these."""
    totals = {name: np.cumsum(sums) for name, sums in run.block_losses.items()}
    best = min((name for name in totals if name != OWN), key=lambda name: float(totals[name][-1]), default=None)
    return {
        "loss": {
            "axis": run.timeline.axis(run.blocks.last),
            "names": list(totals),
            "cumulative": [round_numbers(total, 6) for total in totals.values()],
            "best": best,
            "saved": None if best is None else round_numbers(totals[best] - totals[OWN], 6),
        }
    }


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw what was saved and, as a second view, the totals."""
    loss = numbers["loss"]
    names, best = loss["names"], loss["best"]
    ends = ", ".join(f"{name}: {number(x[-1])}" for name, x in zip(names, loss["cumulative"], strict=True))
    title = y_title(f"sum of {run.loss_name}")
    total = View("Total", curves("loss", "cumulative", names), {"yaxis": {"rangemode": "tozero", **title}})
    measured = f"Measured: sum of {run.loss_name} from the first row on."
    if best is None:
        how = "A steeper line loses faster."
        return Figure("cumulative", "Loss added up", how, f"Cumulative losses; at the end {ends}.", measured, [total])
    theirs = dict(zip(names, loss["cumulative"], strict=True))[best][-1]
    share = percent(loss["saved"][-1] / theirs) if theirs and loss["saved"][-1] is not None else ""
    saved: PlotSpec = curve("loss", "saved", label="undrift", shade="own", fill="tozeroy", fillcolor=colour("band"))
    over_all = f" Over all rows it saved {share}." if share and loss["saved"][-1] > 0.0 else ""
    return Figure(
        "cumulative",
        "Loss saved",
        f"How much less undrift has lost so far than “{best}”, the best naive guess, which is the dashed line. Where "
        f"the line rises undrift does better, where it falls the guess does.{over_all} “Total” shows everybody's loss.",
        f"Line chart of the loss saved beside {best}; at the end {number(loss['saved'][-1])}. Total losses: {ends}.",
        f"{measured} Held against: the naive guess that lost least over all rows, which is known only afterwards.",
        [
            View("Saved", [saved], {"yaxis": y_title("loss saved"), "shapes": [straight_line("first", y=0.0)]}),
            total,
        ],
    )

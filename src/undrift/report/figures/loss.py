"""Loss through time, beside the naive guesses."""

from __future__ import annotations

from undrift.report.curves import Sheet
from undrift.report.figures.spec import HUES, Figure, View, axis_title, curve, ref
from undrift.report.words import count, number
from undrift.run import RunData


def rolling(data: RunData, sheet: Sheet) -> Figure:
    """Rolling loss beside the baselines."""
    measure = "log-loss" if data.task == "classification" else "typical error (RMSE)"
    traces = [curve("loss", ref("loss", "rolling", k), name, HUES[min(k, 5)]) for k, name in enumerate(sheet["names"])]
    ends = [(name, values[-1]) for name, values in zip(sheet["names"], sheet["rolling"], strict=True)]
    return Figure(
        "rolling",
        "How well, through time",
        f"Error over the last {count(sheet['window'], 'row')}: lower is better. Where the coloured line is below the "
        "others, learning beats guessing.",
        f"Line chart of the rolling {measure}; at the end " + ", ".join(f"{n}: {number(v)}" for n, v in ends) + ".",
        f"Measured: {measure} of predictions made before the label, over the last {count(sheet['window'], 'row')}. "
        "Held against: the naive guesses.",
        [View("", traces, {"yaxis": {"rangemode": "tozero", **axis_title(measure)}})],
    )


def cumulative(data: RunData, sheet: Sheet) -> Figure:
    """Cumulative loss, and how far the baselines fell behind."""
    loss = "log-loss" if data.task == "classification" else "squared error / 2"
    names = sheet["names"]
    totals = [curve("loss", ref("loss", "cumulative", k), name, HUES[min(k, 5)]) for k, name in enumerate(names)]
    behind = [
        curve("loss", ref("loss", "behind", k), f"{name} minus undrift", HUES[min(k, 5)])
        for k, name in enumerate(names)
        if k
    ]
    return Figure(
        "cumulative",
        "Loss added up",
        "A steeper line loses faster. “Lead” shows how much more each naive guess has lost than undrift: "
        "rising is good.",
        "Line chart of cumulative losses; at the end "
        + ", ".join(f"{n}: {number(v[-1])}" for n, v in zip(names, sheet["cumulative"], strict=True))
        + ".",
        f"Measured: sum of {loss} from the first row on. Held against: the naive guesses.",
        [
            View("Total", totals, {"yaxis": {"rangemode": "tozero", **axis_title(f"sum of {loss}")}}),
            View("Lead", behind, {"yaxis": axis_title("lost more than undrift")}),
        ],
    )

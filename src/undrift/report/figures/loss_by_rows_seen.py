"""The loss by how many rows a key had seen, beside the baselines: how many rows a new key needs."""

from __future__ import annotations

from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import number, plural
from undrift.report.plot_spec import COLOURS, PlotSpec, colour, curve, ref, round_numbers
from undrift.report.scores import OWN
from undrift.run import FleetResult

SECTION = "well"


def measure(fleet: FleetResult) -> Measured:
    """Return mean losses by rows seen, relative to the best baseline of each key."""
    ages = fleet.ages
    if len(ages) < 2:
        return {"ages": None}
    return {
        "ages": {
            "seen": [age.first for age in ages],
            "last": [age.last for age in ages],
            "keys": [age.keys for age in ages],
            "names": [OWN, *fleet.baselines],
            "losses": [round_numbers(losses) for losses in zip(*(age.losses for age in ages), strict=True)],
        }
    }


def draw(fleet: FleetResult, numbers: Numbers) -> Figure:
    """Draw a line for each predictor over rows seen."""
    ages = numbers["ages"]
    shades = [COLOURS[min(k, len(COLOURS) - 1)] for k in range(len(ages["names"]))]
    lines = [
        curve(
            "ages", "losses", k, label=name, shade=shade, x=ref("ages", "seen"), mode="lines+markers",
            line={"width": 2.5 if k == 0 else 1.5}, marker={"color": colour(shade), "size": 6 if k == 0 else 4},
            customdata=ref("ages", "keys"),
            hovertemplate="%{y:.3r}, over %{customdata:,} keys<extra>%{fullData.name}</extra>",
        )
        for k, (name, shade) in enumerate(zip(ages["names"], shades, strict=True))
    ]  # fmt: skip
    own, seen = ages["losses"][0], ages["seen"]
    loss = "squared error" if fleet.task == "regression" else "log-loss"
    ticks = {"tickvals": seen, "ticktext": [f"{n:,}" for n in seen]}
    layout: PlotSpec = {
        "xaxis": {"type": "log", "title": {"text": "rows seen before"}, **ticks},
        "yaxis": {"title": {"text": "loss, naive = 1"}, "rangemode": "tozero"},
        "hovermode": "x unified",
    }
    return Figure(
        "ages",
        "How many rows a key needs",
        "How wrong predictions were when a key had seen so many rows, all keys together: where the thick line falls "
        "below the others, a new key is worth listening to.",
        f"Line chart of relative loss by rows seen: undrift starts at {number(own[0])} after {plural(seen[0], 'row')} "
        f"and ends at {number(own[-1])} after {plural(seen[-1], 'row')} and more.",
        f"Measured: mean {loss} of rounds with so many rows seen before (from each mark to the next), each key scaled "
        "so that the naive guess that did best on it has 1 over its whole stream. Only keys with that many rows count, "
        "so the last marks are of the longest streams.",
        [View("", lines, layout, linked=False)],
        height=320,
    )

"""The memory spectrum."""

from __future__ import annotations

import math

from undrift.report.axis import Clock
from undrift.report.curves import Sheet
from undrift.report.figures.spec import Figure, Spec, View, curve, hue, on, ref
from undrift.report.words import memory, number


def spectrum(sheet: Sheet, clock: Clock) -> Figure:
    """The memory spectrum."""
    lengths = [math.inf if h is None else h for h in sheet["half_lives"]]
    ticks = [memory(h) if math.isinf(h) else number(h, 2 if h < 100 else 3) for h in lengths]
    heat: Spec = {
        "type": "heatmap",
        "x": on("spectrum"),
        "y": ref("spectrum", "heights"),
        "z": ref("spectrum", "weights"),
        "zmin": 0.0,
        "colorscale": {"$heat": "heat"},
        "colorbar": {
            "title": {"text": "weight", "side": "right", "font": {"size": 12}},
            "thickness": 10,
            "tickformat": ".0%",
            "outlinewidth": 0,
        },
        "text": {"$rows": [memory(h, clock.seconds) for h in lengths], "along": ["spectrum", "axis"]},
        "hovertemplate": "half-life %{text}: weight %{z:.1%}<extra></extra>",
        "name": "weight",
    }
    halo = curve(
        "spectrum",
        ref("spectrum", "line"),
        "",
        "surface",
        line={"width": 5.0},
        hoverinfo="skip",
        showlegend=False,
    )
    line = curve(
        "spectrum",
        ref("spectrum", "line"),
        "effective half-life",
        "line",
        customdata=ref("spectrum", "effective"),
        hovertemplate="effective half-life %{customdata:,.3r} rows<extra></extra>",
        line={"width": 2.5},
    )
    ends = [math.inf if e is None else e for e in (sheet["effective"][0], sheet["effective"][-1])]
    told = "".join(
        f" Around {clock.moment(c['round'])} it went from {memory(c['before'])} to {memory(c['after'])}."
        for c in sheet["changes"]
    )
    marks: list[Spec] = [
        {
            "type": "line",
            "x0": {"$x": ["spectrum", "marks"], "at": k},
            "x1": {"$x": ["spectrum", "marks"], "at": k},
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"color": hue("line"), "dash": "dot", "width": 1.5},
        }
        for k in range(len(sheet["changes"]))
    ]
    return Figure(
        "spectrum",
        "The memory spectrum",
        "Each column is a moment, each line a memory length; the stronger the colour, the more undrift trusts models "
        "with that memory. Low means only recent rows count; high means old rows still help.",
        f"Heat map of weights over {len(lengths)} memory lengths; the effective half-life starts at {memory(ends[0])} "
        f"and ends at {memory(ends[1])}.{told}",
        "Measured: weights learned before each row. A half-life is the number of rows after which a row counts half; "
        "the line is the half-life all weights amount to, averaged over a few columns. "
        "Keys `linear-ensemble`, `logistic-ensemble`.",
        [
            View(
                "",
                [heat, halo, line],
                {
                    "yaxis": {
                        "title": {"text": "half-life (rows)"},
                        "tickvals": sheet["heights"],
                        "ticktext": ticks,
                        "showgrid": False,
                    },
                    "xaxis": {"showgrid": False},
                    "shapes": marks,
                },
            )
        ],
        height=400,
    )

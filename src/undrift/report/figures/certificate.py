"""Measured regret and its bound, term by term."""

from __future__ import annotations

import math

from undrift.report.figures.spec import Figure, Spec, View, hue, safe
from undrift.report.proven import TERMS, Proof
from undrift.report.words import percent


def certificates(found: list[Proof]) -> Figure | None:
    """Measured regret and the bound, term by term."""
    given = [one for one in found if one.refused is None and math.isfinite(one.above(1.0))]
    if not given:
        return None
    names = [safe(one.name) for one in given]
    hues = dict(zip(TERMS, ("second", "own", "first", "fourth", "third"), strict=True))
    traces: list[Spec] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": words,
            "y": names,
            "x": [one.above(one.terms[term]) for one in given],
            "marker": {"color": hue(hues[term])},
            "hovertemplate": "%{x:.2%} of the rival's loss<extra>" + words + "</extra>",
        }
        for term, words in TERMS.items()
        if any(one.terms[term] for one in given)
    ]
    for name, symbol, colour, value in (
        ("proven limit", "line-ns", "ink", "bound"),
        ("measured regret", "diamond", "line", "regret"),
    ):
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "y": names,
                "x": [one.above(getattr(one, value)) for one in given],
                "marker": {
                    "symbol": symbol,
                    "size": 11 if symbol == "diamond" else 26,
                    "color": hue(colour),
                    "line": {"color": hue("ink"), "width": 1 if symbol == "diamond" else 3},
                },
                "hovertemplate": "%{x:.2%} of the rival's loss<extra>" + name + "</extra>",
            }
        )
    return Figure(
        "certificate",
        "What is proven about this run",
        "For each rival (chosen in hindsight), the diamond is how much more undrift lost; bars to the right raise the "
        "limit, bars to the left lower it, and together they make the upright line. The diamond never passes the line.",
        "Stacked bars of the bound's terms for each rival: "
        + "; ".join(
            f"{one.name}: measured {percent(one.above(one.regret))}, proven at most {percent(one.above(one.bound))}"
            for one in given
        )
        + ".",
        "Measured: dynamic regret, our loss minus the rival's, as a share of the rival's loss. Held against: the bound "
        "of the discounted-to-dynamic reduction for this very run. Key `d2d`.",
        [
            View(
                "",
                traces,
                {
                    "barmode": "relative",
                    "xaxis": {"tickformat": ".0%", "title": {"text": "of the rival's loss"}, "zeroline": True},
                    "yaxis": {"autorange": "reversed", "type": "category"},
                    "bargap": 0.45,
                    "hovermode": "closest",
                },
                linked=False,
            )
        ],
        height=170 + 70 * len(given),
    )

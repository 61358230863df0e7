"""Measured regret and its bound, term by term."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from undrift.report.certificate_text import TERMS, select_given
from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import percent
from undrift.report.plot_spec import PlotSpec, colour, escape
from undrift.report.run_context import RunContext

SECTION = "proven"
TERM_COLOURS = dict(zip(TERMS, ("second", "own", "first", "fourth", "third"), strict=True))


def measure(run: RunContext) -> Measured:
    """Return nothing: the page embeds the certificates of the run as they are."""
    return {}


def draw(run: RunContext, numbers: Numbers) -> Figure | None:
    """Draw the terms as stacked bars, with marks at the measured regret and at the bound."""
    given = [one for one in select_given(run.certificates) if math.isfinite(one.relative(1.0))]
    if not given:
        return None
    names = [escape(one.name) for one in given]

    def marks(label: str, values: Sequence[float | None], marker: PlotSpec, **more: Any) -> PlotSpec:
        hover = f"%{{x:.2%}} of the rival's loss<extra>{label}</extra>"
        return {**more, "name": label, "y": names, "x": values, "marker": marker, "hovertemplate": hover}

    traces = [
        marks(
            label,
            [one.relative(one.terms[term]) for one in given],
            {"color": colour(TERM_COLOURS[term])},
            type="bar",
            orientation="h",
        )
        for term, label in TERMS.items()
        if any(one.terms[term] for one in given)
    ]
    regrets = [one.relative(one.regret) for one in given]
    bounds = [one.relative(one.bound) for one in given]
    proven = [None if math.isnan(one.hindsight) else one.relative(one.hindsight) for one in given]
    upright = {"symbol": "line-ns", "size": 26, "color": colour("ink"), "line": {"color": colour("ink"), "width": 3}}
    diamond = {"symbol": "diamond", "size": 11, "color": colour("line"), "line": {"color": colour("ink"), "width": 1}}
    ring = {"symbol": "circle-open", "size": 18, "color": colour("ink"), "line": {"color": colour("ink"), "width": 2}}
    traces.append(marks("promised limit", bounds, upright, type="scatter", mode="markers"))
    traces.append(marks("proven against its kind", proven, ring, type="scatter", mode="markers"))
    traces.append(marks("measured regret", regrets, diamond, type="scatter", mode="markers"))
    values = "; ".join(
        f"{one.name}: measured {percent(regret)}, promised at most {percent(bound)}"
        + ("" if limit is None else f", proven against its kind at most {percent(limit)}")
        for one, regret, bound, limit in zip(given, regrets, bounds, proven, strict=True)
    )
    layout: PlotSpec = {
        "barmode": "relative",
        "xaxis": {"tickformat": ".0%", "title": {"text": "of the rival's loss"}, "zeroline": True},
        "yaxis": {"autorange": "reversed", "type": "category"},
        "bargap": 0.45,
        "hovermode": "closest",
    }
    return Figure(
        "certificate",
        "What is proven about this run",
        "For each rival (chosen in hindsight), the diamond is how much more undrift lost, measured; the ring is the "
        "most it lost more than anyone of the rival's kind with coefficients no larger. Bars to the right raise what "
        "the method promises, bars to the left lower it, and together they make the upright line. The diamond never "
        "passes the ring or the line.",
        f"Stacked bars of the bound's terms for each rival: {values}.",
        "Measured: dynamic regret, our loss minus the rival's, as a share of the rival's loss. Held against: the bound "
        "of the discounted-to-dynamic reduction for this very run (key `d2d`), and what no rival of the kind with "
        "coefficients no larger can have lost less than (key `hindsight`).",
        [View("", traces, layout, linked=False)],
        height=170 + 70 * len(given),
    )

"""The next steps of a series, with their intervals, after its last rows."""

from __future__ import annotations

from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import percent, plural
from undrift.report.plot_spec import PlotSpec, colour, curve, escape, ref, round_numbers
from undrift.run import ForecastResult

SECTION = "next"
SHOWN = 12
"""Series that are drawn."""
PAST = 3
"""Rows before the forecast that are drawn, in horizons, and at least LEAST_PAST."""
LEAST_PAST = 72


def measure(result: ForecastResult) -> Measured:
    """Return the last values of every series, and the steps after them."""
    steps = result.model.horizon
    ahead = result.model.forecast()
    rows = len(result.values)
    past = min(rows, max(LEAST_PAST, PAST * steps))
    if result.times is None:
        x_past: list[object] = list(range(rows - past, rows))
        x_ahead: list[object] = list(range(rows, rows + steps))
    else:
        x_past = [str(one) for one in result.times[-past:].astype("datetime64[s]")]
        spaced = bool(result.state["plan"]["spacing"])
        x_ahead = [str(one) for one in result.model.times()] if spaced else list(range(rows, rows + steps))
    series = []
    for s, name in enumerate(result.state["plan"]["names"][:SHOWN]):
        yhat, lower, upper = (part[s] for part in ahead)
        last = result.values[-past:, s]
        series.append(
            {
                "name": name,
                "past": round_numbers(last, 6),
                "yhat": round_numbers(yhat, 6),
                "lower": round_numbers(lower, 6),
                "upper": round_numbers(upper, 6),
            }
        )
    return {"fan": {"past": x_past, "ahead": x_ahead, "series": series, "level": result.model.level}}


def draw(result: ForecastResult, numbers: Numbers) -> Figure:
    """Draw a view for each series."""
    fan = numbers["fan"]
    level, steps = percent(fan["level"]), plural(len(fan["ahead"]), "step")
    views = [
        View(escape(one["name"]), _lines(k), {"hovermode": "x unified"}, linked=False)
        for k, one in enumerate(fan["series"])
    ]
    first = fan["series"][0]["yhat"]
    end = next((x for x in reversed(first) if x is not None), None)
    return Figure(
        "fan",
        "The next steps",
        f"The thin line is what happened, the thick one what is expected; {level} of values should lie in the band.",
        f"Line chart of the last values and the next {steps}; the last step of {fan['series'][0]['name']} is {end}.",
        f"Measured: forecasts made after the last row. Held against: nothing yet, these {steps} are still to come.",
        views,
    )


def _lines(k: int) -> list[PlotSpec]:
    band: PlotSpec = {
        "type": "scatter",
        "mode": "lines",
        "x": ref("fan", "ahead"),
        "line": {"width": 0},
        "showlegend": False,
    }
    return [
        curve("fan", "series", k, "past", label="values", shade="first", x=ref("fan", "past")),
        {**band, "y": ref("fan", "series", k, "lower"), "name": "lower end", "hoverinfo": "skip"},
        {
            **band, "y": ref("fan", "series", k, "upper"), "name": "interval", "fill": "tonexty",
            "fillcolor": colour("band"), "hoverinfo": "skip",
        },
        curve("fan", "series", k, "yhat", label="forecast", shade="own", x=ref("fan", "ahead"), line={"width": 2.5}),
    ]  # fmt: skip

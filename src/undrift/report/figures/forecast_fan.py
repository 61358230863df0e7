"""The next steps of a series, with their intervals, after its last rows."""

from __future__ import annotations

import math

from undrift._typing import Vector
from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import percent, plural
from undrift.report.plot_spec import PlotSpec, colour, curve, escape, ref, round_numbers
from undrift.run import ForecastResult, KeysResult
from undrift.run.forecast.forecast_folder import ForecastFolder
from undrift.run.forecast.keys import rank_keys
from undrift.run.tables import as_lists
from undrift.stream.settings import ForecastSettings

SECTION = "next"
SHOWN = 12
"""Series that are drawn."""
PAST = 3
"""Rows before the forecast that are drawn, in horizons, and at least LEAST_PAST."""
LEAST_PAST = 72


def measure(result: ForecastResult | KeysResult) -> Measured:
    """Return the last values of every series, or of the worst keys, and the steps after them."""
    settings = ForecastSettings.from_dict(result.state["settings"])
    series = _of_keys(result, settings) if isinstance(result, KeysResult) else _of_series(result)
    return {"fan": {"series": series, "level": settings.level}} if series else {"fan": None}


def _of_series(result: ForecastResult) -> list[Numbers]:
    """Return what is drawn of series that were forecast together."""
    ahead, rows, steps = result.model.forecast(), len(result.values), result.model.horizon
    past = min(rows, max(LEAST_PAST, PAST * steps))
    x_past: list[object] = list(range(rows - past, rows))
    x_ahead: list[object] = list(range(rows, rows + steps))
    if result.times is not None:
        x_past = [str(one) for one in result.times[-past:].astype("datetime64[s]")]
        if result.state["plan"]["spacing"]:
            x_ahead = [str(one) for one in result.model.times()]
    return [
        _series(name, x_past, result.values[-past:, s], x_ahead, *(part[s] for part in ahead))
        for s, name in enumerate(result.state["plan"]["names"][:SHOWN])
    ]


def _of_keys(result: KeysResult, settings: ForecastSettings) -> list[Numbers]:
    """Return what is drawn of the worst keys."""
    folder, state = ForecastFolder(result.folder), result.state
    if "ahead" not in state["files"]:
        return []
    values, ahead = folder.read_table(state, "values"), folder.read_table(state, "ahead")
    found = []
    for key in rank_keys(result.keys)["key"][:SHOWN]:
        last = values.filter(values["series"] == key).tail(max(LEAST_PAST, PAST * settings.horizon))
        steps = ahead.filter(ahead["series"] == key)
        x_past, x_ahead = (as_lists(part.select("time"))["time"] for part in (last, steps))
        ends = (steps[name].to_numpy() for name in ("yhat", "lower", "upper"))
        found.append(_series(key, x_past, last["0"].fill_null(math.nan).to_numpy(), x_ahead, *ends))
    return found


def _series(name: str, x_past: list[object], past: Vector, x_ahead: list[object], *ends: Vector) -> Numbers:
    numbers = zip(("past", "yhat", "lower", "upper"), (past, *ends), strict=True)
    return {"name": name, "x_past": x_past, "x_ahead": x_ahead, **{part: round_numbers(y, 6) for part, y in numbers}}


def draw(result: ForecastResult | KeysResult, numbers: Numbers) -> Figure:
    """Draw a view for each series."""
    fan = numbers["fan"]
    level, steps = percent(fan["level"]), plural(len(fan["series"][0]["x_ahead"]), "step")
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
        "x": ref("fan", "series", k, "x_ahead"),
        "line": {"width": 0},
        "showlegend": False,
    }
    return [
        curve("fan", "series", k, "past", label="values", shade="first", x=ref("fan", "series", k, "x_past")),
        {**band, "y": ref("fan", "series", k, "lower"), "name": "lower end", "hoverinfo": "skip"},
        {
            **band, "y": ref("fan", "series", k, "upper"), "name": "interval", "fill": "tonexty",
            "fillcolor": colour("band"), "hoverinfo": "skip",
        },
        curve(
            "fan", "series", k, "yhat", label="forecast", shade="own", x=ref("fan", "series", k, "x_ahead"),
            line={"width": 2.5},
        ),
    ]  # fmt: skip

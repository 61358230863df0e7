"""How wrong forecasts were, by how far ahead they were made, beside the naive ones."""

from __future__ import annotations

from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import number, plural
from undrift.report.plot_spec import COLOURS, PlotSpec, colour, curve, ref, round_numbers
from undrift.run import ForecastResult

SECTION = "well"


def measure(result: ForecastResult) -> Measured:
    """Return the root mean squared error of every predictor, by step."""
    scores = result.scores
    if not scores.judged:
        return {"steps": None}
    names = [name for name, one in zip(result.state["scores"]["predictors"], scores.mse, strict=True) if one == one]
    errors = [round_numbers(row**0.5, 5) for row in scores.mse_by_step[: len(names)]]
    return {"steps": {"step": list(range(1, len(errors[0]) + 1)), "names": names, "rmse": errors}}


def draw(result: ForecastResult, numbers: Numbers) -> Figure:
    """Draw a line for each predictor."""
    part = numbers["steps"]
    lines = [
        curve(
            "steps", "rmse", k, label=name, shade=COLOURS[k], line={"width": 2.5 if k == 0 else 1.5},
            x=ref("steps", "step"), mode="lines+markers", marker={"color": colour(COLOURS[k]), "size": 5},
        )
        for k, name in enumerate(part["names"])
    ]  # fmt: skip
    layout: PlotSpec = {
        "xaxis": {"title": {"text": "steps ahead"}},
        "yaxis": {"title": {"text": "root mean squared error"}, "rangemode": "tozero"},
        "hovermode": "x unified",
    }
    own = part["rmse"][0]
    return Figure(
        "steps",
        "Error by step",
        "The farther ahead, the larger the error; the thick line should stay below the others.",
        f"Line chart of errors by step: undrift is off by {number(own[0])} at step 1, {number(own[-1])} at the last.",
        f"Measured: root mean squared error of {plural(result.scores.judged, 'forecast')} whose value is known, each "
        "made before it; the naive ones on the same forecasts.",
        [View("", lines, layout, linked=False)],
        height=320,
    )

"""What was predicted and what came."""

from __future__ import annotations

from undrift.report.curves import LEVEL, Sheet
from undrift.report.figures.spec import Figure, Spec, View, axis_title, curve, hue, on, ref, safe
from undrift.report.words import count, percent
from undrift.run import RunData


def predictions(data: RunData, recent: Sheet, whole: Sheet) -> Figure:
    """What was predicted and what came."""
    if data.task == "classification":
        return _class_predictions(data, recent, whole)
    close: list[Spec] = []
    if recent["lower"] is not None:
        close += [
            curve("recent", ref("recent", "lower"), "lower", "band", line={"width": 0}, showlegend=False,
                  hoverinfo="skip"),
            curve("recent", ref("recent", "upper"), f"{percent(LEVEL)} interval", "band", line={"width": 0},
                  fill="tonexty", fillcolor=hue("band"), hoverinfo="skip"),
        ]  # fmt: skip
    close += [
        curve("recent", ref("recent", "y"), f"true {data.target}", "ink", line={"width": 1.5}),
        curve("recent", ref("recent", "yhat"), "predicted", "own"),
    ]
    far = [
        curve("whole", ref("whole", "lowest"), "lowest", "mist", line={"width": 0}, showlegend=False, hoverinfo="skip"),
        curve("whole", ref("whole", "highest"), "lowest to highest", "mist", line={"width": 0}, fill="tonexty",
              fillcolor=hue("mist"), hoverinfo="skip"),
        curve("whole", ref("whole", "y"), f"true {data.target}, mean", "ink"),
        curve("whole", ref("whole", "yhat"), "predicted, mean", "own"),
    ]  # fmt: skip
    layout = {"yaxis": axis_title(data.target)}
    size = whole["size"]
    views = [View("Last rows", close, layout, linked=False)]
    if data.rounds > len(recent["y"]):
        views.append(View("Whole run", far, layout))
    return Figure(
        "predictions",
        "Predictions and what came true",
        "Each prediction was made before the true value was seen. The closer the coloured line to the dark one, "
        "the better"
        + ("; the shaded band should hold nine in ten true values." if recent["lower"] is not None else "."),
        f"Line chart of the last {len(recent['y'])} rows: true values of {data.target} and the predictions made "
        "before them.",
        "Measured: every label and the prediction made before it"
        + (f"; in the whole run, means of {count(size, 'row')} a point." if size > 1 else "."),
        views,
    )


def _class_predictions(data: RunData, recent: Sheet, whole: Sheet) -> Figure:
    negative, positive = data.classes or ("0", "1")
    dots = {"type": "scatter", "mode": "markers", "x": on("recent"), "hoverinfo": "x+name"}
    tick = {"size": 6, "symbol": "line-ns"}
    close = [
        curve("recent", ref("recent", "p"), f"predicted chance of {positive}", "own"),
        {**dots, "y": ref("recent", "positive"), "name": safe(f"was {positive}"),
         "marker": {**tick, "color": hue("first"), "line": {"color": hue("first"), "width": 1.5}}},
        {**dots, "y": ref("recent", "negative"), "name": safe(f"was {negative}"),
         "marker": {**tick, "color": hue("ink"), "line": {"color": hue("ink"), "width": 1.5}}},
    ]  # fmt: skip
    far = [
        curve("whole", ref("whole", "y"), f"share that was {positive}", "ink"),
        curve("whole", ref("whole", "yhat"), "mean prediction", "own"),
    ]
    layout = {"yaxis": {"tickformat": ".0%", "range": [-0.06, 1.06], **axis_title(f"chance of {positive}")}}
    views = [View("Last rows", close, layout, linked=False)]
    if data.rounds > len(recent["y"]):
        views.append(View("Whole run", far, {"yaxis": {"tickformat": ".0%", **axis_title(f"share of {positive}")}}))
    return Figure(
        "predictions",
        "Predictions and what came true",
        f"The line is the chance given to “{positive}” before it was known; ticks above and below show what came. "
        "High under ticks at the top and low over ticks at the bottom is good.",
        f"Line chart of the predicted chance of {positive} in the last {len(recent['y'])} rows, with what came true.",
        f"Measured: every label and the probability given before it; in the whole run, means of "
        f"{count(whole['size'], 'row')} a point.",
        views,
    )

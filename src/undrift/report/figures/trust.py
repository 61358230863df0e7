"""Whether probabilities and intervals keep their word."""

from __future__ import annotations

from undrift.report.curves import Sheet
from undrift.report.figures.spec import Figure, Spec, View, axis_title, curve, hue, ref, safe
from undrift.report.words import count, percent
from undrift.run import RunData


def calibration(data: RunData, sheet: Sheet) -> Figure:
    """Reliability of probabilities."""
    positive = (data.classes or ("0", "1"))[1]
    chance = {"tickformat": ".0%", "range": [-0.02, 1.02]}
    reliability: list[Spec] = [
        {"type": "scatter", "mode": "lines", "x": [0, 1], "y": [0, 1], "name": "perfect", "hoverinfo": "skip",
         "line": {"color": hue("mute"), "dash": "dash", "width": 1.5}},
        {"type": "scatter", "mode": "lines+markers", "x": ref("calibration", "said"), "y": ref("calibration", "came"),
         "name": "undrift", "line": {"color": hue("own"), "width": 2}, "marker": {"color": hue("own"), "size": 7},
         "error_y": {"type": "data", "array": ref("calibration", "error"), "color": hue("mute"), "thickness": 1,
                     "width": 0},
         "customdata": ref("calibration", "count"),
         "hovertemplate": "said %{x:.1%}, came true %{y:.1%}<br>%{customdata:,} rows<extra></extra>"},
    ]  # fmt: skip
    counts: list[Spec] = [
        {"type": "bar", "x": ref("calibration", "middle"), "y": ref("calibration", "count"), "name": "rows",
         "marker": {"color": hue("own")}, "hovertemplate": "about %{x:.1%}: %{y:,} rows<extra></extra>"},
    ]  # fmt: skip
    free = {"xaxis": {**chance, "title": {"text": safe(f"predicted chance of {positive}")}}, "hovermode": "closest"}
    return Figure(
        "calibration",
        "Can the probabilities be trusted?",
        "When undrift says 70%, it should come true in 70% of such rows: points on the dashed line. Below the line it "
        "was too sure of a yes, above it too cautious.",
        f"Reliability curve of predicted chances of {positive}; on average they were off by {percent(sheet['gap'])}.",
        "Measured: share that came true among rows with about the same predicted chance; bars are two standard errors. "
        f"Held against: the diagonal. On average off by {percent(sheet['gap'])}.",
        [
            View(
                "Reliability", reliability, {**free, "yaxis": {**chance, "title": {"text": "came true"}}}, linked=False
            ),
            View(
                "How often each was said",
                counts,
                {**free, "yaxis": {"title": {"text": "rows"}}, "bargap": 0.05},
                linked=False,
            ),
        ],
        height=380,
    )


def intervals(data: RunData, sheet: Sheet) -> Figure:
    """Coverage and width of intervals."""
    level, window = sheet["level"], count(sheet["window"], "row")
    aim = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level,
        "line": {"color": hue("mute"), "dash": "dash", "width": 1.5},
    }  # fmt: skip
    return Figure(
        "intervals",
        "Do the intervals keep their word?",
        f"{percent(level)} of true values should lie inside the interval given beforehand: the line should stay near "
        "the dashed one.",
        f"Line chart of interval coverage; overall {percent(sheet['measured'])} of labels lay inside.",
        f"Measured: share of labels inside, over the last {window}; {percent(sheet['measured'])} of "
        f"{count(sheet['rounds'], 'row')} overall. Held against: {percent(level)}.",
        [
            View(
                "Coverage",
                [curve("intervals", ref("intervals", "coverage"), "inside the interval", "own", showlegend=False)],
                {"yaxis": {"tickformat": ".0%", "title": {"text": "inside"}}, "shapes": [aim]},
            ),
            View(
                "Width",
                [curve("intervals", ref("intervals", "width"), "mean width", "own", showlegend=False)],
                {"yaxis": {"rangemode": "tozero", **axis_title(f"width ({data.target})")}},
            ),
        ],
        height=300,
    )

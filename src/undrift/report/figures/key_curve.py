"""One key, row by row: what came true, and what was predicted before; the reader chooses the key."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from undrift.losses import sigmoid
from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import percent
from undrift.report.key_lists import rank_keys, select_listed
from undrift.report.plot_spec import PlotSpec, colour, curve, ref, round_numbers, y_title
from undrift.run import FleetResult
from undrift.stream.answers import probability_column
from undrift.stream.keyed.outputs import LABELLED, OK, PREDICTED, Outputs

SECTION = "keys"
MOST_POINTS, MOST_ROWS = 20_000, 200
"""Rows of all keys that are embedded, and of one key, at most."""
DIGITS = 4


def measure(fleet: FleetResult) -> Measured:
    """Return the last rows of every listed key, in the order of the list; the first key is shown first."""
    listed = select_listed(fleet, rank_keys(fleet))
    names = [key.key for key in listed]
    last = max(1, min(MOST_ROWS, MOST_POINTS // len(names)))
    outputs = fleet.run.all_outputs()
    ends = (
        dict(zip(("lower", "upper"), outputs.intervals().T, strict=True))
        if fleet.run.fleet.interval is not None
        else {}
    )
    y, yhat = outputs.target, outputs.prediction
    if fleet.task == "classification":
        yhat = sigmoid(yhat)
    elif fleet.task == "multiclass":  # whether the likeliest class came, and how likely it was
        shares = [outputs.extra(probability_column(label)) for label in outputs.classes]
        y, yhat = np.where(np.isnan(y), np.nan, y == yhat), np.fmax.reduce(shares)
    keys = []
    for name, rows in zip(names, _rows_by_key(outputs, names), strict=True):
        some = rows[-last:]
        keys.append(
            {
                "name": name,
                "at": _places(outputs.order[some], fleet.time_unit),
                "y": round_numbers(y[some], DIGITS),
                "yhat": round_numbers(yhat[some], DIGITS),
                **{name: round_numbers(column[some], DIGITS) for name, column in ends.items()},
            }
        )
    return {"curve": {"keys": keys, "shown": keys[0], "last": last}}


def _rows_by_key(outputs: Outputs, names: list[str]) -> list[NDArray[np.intp]]:
    """Return the rows of each key by their order; of one that was predicted and labelled later, the labelled one."""
    index = {name: k for k, name in enumerate(names)}
    code = np.fromiter((index.get(str(key), -1) for key in outputs.keys), np.int64, len(outputs))
    rows = np.flatnonzero((code >= 0) & np.isin(outputs.status, (OK, LABELLED, PREDICTED)))
    rows = rows[np.lexsort((outputs.order[rows], code[rows]))]
    same = (np.diff(code[rows]) == 0) & (np.diff(outputs.order[rows]) == 0)
    rows = rows[np.append(~same, True)] if len(rows) else rows
    return np.split(rows, np.searchsorted(code[rows], np.arange(1, len(names))))


def _places(orders: NDArray[np.int64], unit: str | None) -> list[Any]:
    """Return orders as they are, or as the times that they count."""
    if unit is None:
        return list(orders.tolist())
    return list(np.datetime_as_string(orders.view(f"datetime64[{unit}]"), unit="auto").tolist())


def draw(fleet: FleetResult, numbers: Numbers) -> Figure:
    """Draw labels and predictions of the key that is shown."""
    target, last = fleet.run.fleet.fields.target, numbers["curve"]["last"]
    level = fleet.run.fleet.interval
    true, predicted = f"true {target}", "predicted"
    if fleet.task == "multiclass":
        true, predicted = "whether the likeliest class came", "its probability"
    lines = [_line("y", true, "ink"), _line("yhat", predicted, "own")]
    if level is not None:
        area = {"line": {"width": 0}, "hoverinfo": "skip"}
        lower = _line("lower", "lower", "band") | area | {"showlegend": False}
        upper = _line("upper", f"{percent(level)} interval", "band") | area
        lines = [lower, upper | {"fill": "tonexty", "fillcolor": colour("band")}, *lines]
    what, said = target, "prediction made"
    if fleet.task == "multiclass":
        what, said = "the likeliest class", "probability of the likeliest class given"
    elif fleet.classes is not None:
        what = f"chance of “{fleet.classes[1]}”"
        said = f"{what} given"
    return Figure(
        "curve",
        f"One key: {numbers['curve']['shown']['name']}",
        "The coloured line was predicted before the other one, the true value, was seen. Press the name of a key in "
        "any table to see its rows here.",
        f"Line chart of the last rows of one key: {target} and the predictions made before.",
        f"Measured: every label of the key's last {last:,} rows and the {said} before it; predictions.csv has "
        "all rows.",
        [View("", lines, {"yaxis": y_title(what)}, linked=False)],
        height=320,
    )


def _line(name: str, label: str, shade: str) -> PlotSpec:
    return curve("curve", "shown", name, label=label, shade=shade, x=ref("curve", "shown", "at"))

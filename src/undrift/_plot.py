"""Figures of predictions for notebooks, by plotly, which is imported when one is asked for."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.errors import InputError, MissingExtraError

Figure = Any
"""A plotly figure."""
OWN, BAND = "#2459d6", "rgba(36, 89, 214, 0.15)"
"""Colours of the predictions and of their intervals."""


def plot_predictions(
    yhat: Vector | Matrix,
    lower: Vector | None,
    upper: Vector | None,
    y: ArrayLike | None,
    x: ArrayLike | None,
    first: int,
    last: int | None,
) -> Figure:
    """Return predictions, their intervals and the labels over the last rounds; parameters as in `Trace.plot`."""
    try:
        go: Any = importlib.import_module("plotly.graph_objects")
    except ImportError:
        raise MissingExtraError("Trace.plot needs plotly; install it with: pip install 'undrift[cli]'") from None
    rounds = len(yhat)
    some = slice(
        rounds - min(rounds, rounds if last is None else _check.integer("Trace.plot", "last", last, 1)), rounds
    )
    across = np.arange(first + 1, first + rounds + 1) if x is None else np.asarray(x)
    labels = None if y is None else np.asarray(y)
    for name, column in (("x", across), ("y", labels)):
        if column is not None and column.shape != (rounds,):
            raise InputError(
                f"Trace.plot: {name} must have one value for each of the {rounds} rounds, got {column.shape}"
            )
    figure = go.Figure(layout={"template": "plotly_white", "height": 380, "margin": {"t": 40}})
    if lower is not None and upper is not None:
        ends = [(lower, None, False), (upper, "tonexty", True)]
        for end, fill, shown in ends:
            finite = np.where(np.isfinite(end), end, np.nan)
            figure.add_scatter(
                x=across[some], y=finite[some], fill=fill, fillcolor=BAND, line={"width": 0}, name="interval",
                showlegend=shown,
            )  # fmt: skip
    if labels is not None:
        figure.add_scatter(x=across[some], y=labels[some], mode="lines", line={"color": "#8a8f98"}, name="label")
    for k, column in enumerate([yhat] if yhat.ndim == 1 else yhat.T):
        name = "prediction" if yhat.ndim == 1 else f"class {k}"
        line = {"color": OWN} if yhat.ndim == 1 else {}
        figure.add_scatter(x=across[some], y=column[some], mode="lines", line=line, name=name)
    if some.start:
        figure.update_layout(title=f"the last {rounds - some.start:,} of {rounds:,} rounds")
    return figure

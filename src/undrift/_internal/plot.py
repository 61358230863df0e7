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


COLOURS = ("#2459d6", "#d98324", "#2e9c73", "#b0417c", "#7b5ea7", "#8a8f98", "#c9b037", "#4aa5c4", "#d1495b", "#5b6472")
"""Colours of candidates, in turn."""
POINTS = 400
"""Points of a curve over a long run, at most."""


def _import_plotly(who: str, module: str) -> Any:
    """Return a module of plotly, or say how to get it."""
    try:
        return importlib.import_module(f"plotly.{module}")
    except ImportError:
        raise MissingExtraError(f"{who} needs plotly; install it with: pip install 'undrift[cli]'") from None


def plot_mixture(
    weights: Matrix, names: list[str], mixed: Vector, best: Vector, best_name: str, x: ArrayLike | None
) -> Figure:
    """Return weights over time as stacked areas, and below them sums of losses minus those of the mean.

    Weights are means over equal parts of the rounds, at most POINTS of them.
    """
    subplots = _import_plotly("Mix.plot", "subplots")
    rounds = len(weights)
    across = np.arange(1, rounds + 1) if x is None else np.asarray(x)
    if across.shape != (rounds,):
        raise InputError(f"Mix.plot: x must have one value for each of the {rounds} forecasts, got {across.shape}")
    edges = np.unique(np.linspace(0, rounds, min(rounds, POINTS) + 1).astype(np.int64))
    ends = edges[1:] - 1
    means = np.add.reduceat(weights, edges[:-1], axis=0) / np.diff(edges)[:, None] if rounds else weights
    titles = ("weights of the candidates", "sum of losses minus that of the mean of the candidates (lower is better)")
    figure = subplots.make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.1, subplot_titles=titles)
    for k, (name, column) in enumerate(zip(names, means.T, strict=True)):
        shade = COLOURS[k % len(COLOURS)]
        figure.add_scatter(
            x=across[ends], y=column, name=name, stackgroup="all", fillcolor=shade, row=1, col=1,
            line={"width": 0.3, "color": shade}, legendgroup="weights",
        )  # fmt: skip
    curves = (
        ("mixture", mixed, OWN, "solid"),
        (f"best single: {best_name}", best, "#8a8f98", "solid"),
        ("mean", 0.0 * mixed, "#222", "dot"),
    )
    for name, column, shade, dash in curves:
        figure.add_scatter(
            x=across[ends], y=column[ends], name=name, mode="lines", line={"color": shade, "dash": dash}, row=2, col=1,
            legendgroup="losses",
        )  # fmt: skip
    figure.update_yaxes(range=[0, 1], tickformat=".0%", row=1, col=1)
    return figure.update_layout(template="plotly_white", height=640, margin={"t": 50}, legend={"tracegroupgap": 120})


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
    go = _import_plotly("Trace.plot", "graph_objects")
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

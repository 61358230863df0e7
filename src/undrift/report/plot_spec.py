"""Pieces of plotly figures in which numbers, axes and colours are named.

The page fills the names in when it draws: `ref` names numbers of the embedded JSON, `x_axis` an axis (rounds or time,
as the reader chooses), `colour` a colour of the theme.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from undrift.report.formatting import shorten

PlotSpec = dict[str, Any]
"""A piece of a plotly figure."""
COLOURS = ("own", "first", "second", "third", "fourth", "fifth")
"""Colours of the run and of what it is compared with."""


def ref(*path: str | int) -> PlotSpec:
    """Name numbers by their path in the embedded JSON."""
    return {"$": list(path)}


def x_axis(name: str) -> PlotSpec:
    """Name the axis that stands beside these numbers."""
    return {"$x": [name, "axis"]}


def colour(name: str) -> PlotSpec:
    """Name a colour of the theme."""
    return {"$c": name}


def escape(text: str) -> str:
    """Return user text for a figure: nothing in it is markup or mathematics.

    >>> escape("<b>a & b</b>")
    '&lt;b&gt;a &amp; b&lt;/b&gt;'
    """
    return shorten(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")


def round_numbers(values: Iterable[float], digits: int = 5) -> list[float | None]:
    """Return numbers for JSON: few digits, and None where there is no finite number."""
    return [float(f"{x:.{digits}g}") if np.isfinite(x) else None for x in values]


def curve(
    name: str,
    *path: str | int,
    label: str,
    shade: str,
    x: PlotSpec | None = None,
    line: PlotSpec | None = None,
    **more: Any,
) -> PlotSpec:
    """Return a line through the numbers at a path below `name`, over `x` or the axis that stands there too."""
    style = {"color": colour(shade), "width": 2.0 if shade == "own" else 1.5, **(line or {})}
    points = {"x": x or x_axis(name), "y": ref(name, *path)}
    return {"type": "scatter", "mode": "lines", **points, "name": escape(label), "line": style, **more}


def curves(name: str, key: str, labels: Iterable[str]) -> list[PlotSpec]:
    """Return a line for each of several lists of numbers under one key, the run's own first."""
    return [curve(name, key, k, label=label, shade=COLOURS[min(k, 5)]) for k, label in enumerate(labels)]


def areas(name: str, key: str, labels: Iterable[str]) -> list[PlotSpec]:
    """Return stacked areas for several lists of numbers under one key; labels are escaped."""
    return [
        {
            **curve(name, key, k, label="", shade=shade, line={"width": 0.5}),
            "name": label,
            "stackgroup": "all",
            "fillcolor": colour(shade),
        }
        for k, (label, shade) in enumerate(zip(labels, COLOURS, strict=False))
    ]


def diagonal(label: str) -> PlotSpec:
    """Return the dashed line from (0, 0) to (1, 1)."""
    return {
        "type": "scatter", "mode": "lines", "x": [0, 1], "y": [0, 1], "name": label, "hoverinfo": "skip",
        "line": {"color": colour("mute"), "dash": "dash", "width": 1.5},
    }  # fmt: skip


def heat_map(name: str, label: str, y: str, z: str, rows: list[str], **more: Any) -> PlotSpec:
    """Return a heat map of shares over the axis of some numbers, with a text for each of its rows."""
    title = {"text": label, "side": "right", "font": {"size": 12}}
    return {
        "type": "heatmap", "name": label, "x": x_axis(name), "y": ref(name, y), "z": ref(name, z), "zmin": 0.0,
        "colorscale": {"$heat": "heat"}, "text": {"$rows": rows, "along": [name, "axis"]},
        "colorbar": {"title": title, "thickness": 10, "tickformat": ".0%", "outlinewidth": 0}, **more,
    }  # fmt: skip


def straight_line(shade: str, *, x: Any = None, y: Any = None, dash: str = "dash") -> PlotSpec:
    """Return a line across the whole figure, upright at x or level at y."""
    across, level, at = ("y", "x", x) if x is not None else ("x", "y", y)
    return {
        "type": "line", f"{level}0": at, f"{level}1": at, f"{across}ref": "paper", f"{across}0": 0, f"{across}1": 1,
        "line": {"color": colour(shade), "dash": dash, "width": 1.5},
    }  # fmt: skip


def y_title(text: str) -> PlotSpec:
    """Return the title of an upright axis."""
    return {"title": {"text": escape(text)}}

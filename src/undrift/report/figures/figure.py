"""A figure: plotly traces in which numbers, axes and colours are named, and the sentences around them.

The page fills the names in when it draws: `ref` names numbers of the embedded JSON, `x_axis` an axis (rounds or time,
as the reader chooses), `colour` a colour of the theme. A figure of a page is a module with the three names of
`FigureModule`; `undrift.report.figures.registry` lists them in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from undrift.report.formatting import shorten

Numbers = dict[str, Any]
"""Numbers by name, ready for JSON."""
Measured = dict[str, Numbers | None]
"""The numbers that a figure embeds, by name; None where there are none to draw."""
PlotSpec = dict[str, Any]
"""A piece of a plotly figure."""
COLOURS = ("own", "first", "second", "third", "fourth", "fifth")
"""Colours of the run and of what it is compared with."""
Subject = TypeVar("Subject", contravariant=True)
"""What a page is about: a run with its timeline, or a fleet."""


@dataclass(frozen=True)
class View:
    """One way to look at a figure."""

    label: str
    """On the button, when there are several; a panel's title."""
    data: list[PlotSpec]
    """Traces."""
    layout: PlotSpec
    """What differs from the page's layout."""
    linked: bool = True
    """Whether its horizontal axis is the whole run, zoomed together with the others."""


@dataclass(frozen=True)
class Figure:
    """A figure and the words around it."""

    key: str
    """Its id in the page."""
    title: str
    """What it shows."""
    how_to_read: str
    """One line: how to read it."""
    alt: str
    """What it says, for those who cannot see it."""
    measured: str
    """What was measured, what it is held against, and the key of the result."""
    views: list[View]
    """The ways to look at it; none when there are panels."""
    height: int = 340
    """In pixels."""
    panels: list[View] = field(default_factory=list)
    """Small multiples in place of views."""


class FigureModule(Protocol[Subject]):
    """What a module of this package has to hold to be a figure of a page."""

    SECTION: str
    """Id of the page's section it stands in."""

    def measure(self, subject: Subject, /) -> Measured:
        """Return the numbers to embed. Two figures may share a name: their numbers are joined."""

    def draw(self, subject: Subject, numbers: Numbers, /) -> Figure | None:
        """Return the figure over the embedded numbers of all figures so far, if `measure` left none out."""


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


def curve(name: str, *path: str | int, label: str, shade: str, line: PlotSpec | None = None, **more: Any) -> PlotSpec:
    """Return a line through the numbers at a path below `name`, over the axis that stands there too."""
    style = {"color": colour(shade), "width": 2.0 if shade == "own" else 1.5, **(line or {})}
    points = {"x": x_axis(name), "y": ref(name, *path)}
    return {"type": "scatter", "mode": "lines", **points, "name": escape(label), "line": style, **more}


def curves(name: str, key: str, labels: Iterable[str]) -> list[PlotSpec]:
    """Return a line for each of several lists of numbers under one key, the run's own first."""
    return [curve(name, key, k, label=label, shade=COLOURS[min(k, 5)]) for k, label in enumerate(labels)]


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


def key_histogram(name: str, middle: str, low: str, high: str, hover: str, xaxis: PlotSpec, **layout: Any) -> View:
    """Return a histogram that counts keys; low and high name the ends of its bars, `hover` explains one bar."""
    bars: PlotSpec = {
        "type": "bar",
        "x": ref(name, middle),
        "y": ref(name, "count"),
        "customdata": ref(name, low),
        "text": ref(name, high),
        "textposition": "none",
        "name": "keys",
        "marker": {"color": colour("own")},
        "hovertemplate": hover + ": %{y:,} keys<extra></extra>",
    }
    layout |= {
        "xaxis": {"zeroline": False, **xaxis},
        "yaxis": {"title": {"text": "keys"}, "rangemode": "tozero", "separatethousands": True},
        "bargap": 0.06,
        "showlegend": False,
        "hovermode": "closest",
    }
    return View("", [bars], layout, linked=False)

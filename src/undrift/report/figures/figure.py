"""A figure: plotly traces (`undrift.report.plot_spec`) and the sentences around them.

A figure of a page is a module with the three names of `FigureModule`; `undrift.report.figures.registry` lists them in
order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from undrift.report.plot_spec import PlotSpec, colour, ref

Numbers = dict[str, Any]
"""Numbers by name, ready for JSON."""
Measured = dict[str, Numbers | None]
"""The numbers that a figure embeds, by name; None where there are none to draw."""
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

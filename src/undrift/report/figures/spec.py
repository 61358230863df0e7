"""A figure as plotly sees it, with its words. Numbers are named by where they stand in the embedded JSON.

`ref` points into the numbers, `on` to an axis (rounds or time, as the reader chooses), `hue` to a colour of the theme;
the page fills them in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from undrift.report.words import short

Spec = dict[str, Any]
"""A piece of a plotly figure."""
HUES = ("own", "first", "second", "third", "fourth", "fifth")
"""Colours of the run and of what it is compared with."""


@dataclass(frozen=True)
class View:
    """One way to look at a figure."""

    label: str
    """On the button, when there are several; a panel's title."""
    data: list[Spec]
    """Traces."""
    layout: Spec
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
    how: str
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


def ref(*path: str | int) -> Spec:
    """Point to numbers."""
    return {"$": list(path)}


def on(sheet: str) -> Spec:
    """Point to a sheet's axis."""
    return {"$x": [sheet, "axis"]}


def hue(name: str) -> Spec:
    """Name a colour of the theme."""
    return {"$c": name}


def safe(text: str) -> str:
    """Return user text for a figure: nothing in it is markup.

    >>> safe("<b>a & b</b>")
    '&lt;b&gt;a &amp; b&lt;/b&gt;'
    """
    return short(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def curve(sheet: str, y: Spec, name: str, colour: str, **more: Any) -> Spec:
    """Return a line through a sheet's points."""
    line = {"color": hue(colour), "width": 2.0 if colour == "own" else 1.5, **more.pop("line", {})}
    return {"type": "scatter", "mode": "lines", "x": on(sheet), "y": y, "name": safe(name), "line": line, **more}


def axis_title(text: str) -> Spec:
    """Return the title of an upright axis."""
    return {"title": {"text": safe(text)}}

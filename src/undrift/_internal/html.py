"""HTML for notebooks: a table of facts, and curves as an inline SVG; no script, no style sheet, text escaped."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np

from undrift._typing import Vector

POINTS = 300
"""Points of a curve, at most: those of the whole curve at even distances, the last one among them."""
WIDTH, HEIGHT = 460, 90
"""Size of a picture in pixels."""


def facts_table(title: str, facts: Mapping[str, str], picture: str = "") -> str:
    """Return a title, a table of names and values, and a picture below it.

    >>> facts_table("Zero", {"rounds": "3 < 4"})
    '<div><b>Zero</b><table><tr><th style="text-align:left">rounds</th><td>3 &lt; 4</td></tr></table></div>'
    """
    rows = "".join(
        f'<tr><th style="text-align:left">{html.escape(name)}</th><td>{html.escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f"<div><b>{html.escape(title)}</b><table>{rows}</table>{picture}</div>"


def rows_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a title and a table of rows below the names of their columns.

    >>> rows_table("Two", ["a"], [["1"]])
    '<div><b>Two</b><table><tr><th>a</th></tr><tr><td>1</td></tr></table></div>'
    """
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div><b>{html.escape(title)}</b><table><tr>{head}</tr>{body}</table></div>"


def curves_picture(curves: Sequence[tuple[Vector, str]]) -> str:
    """Return curves over the same rounds, each with its colour, as an SVG; nothing where no number is finite."""
    thin = [(values[_even_places(len(values))], colour) for values, colour in curves if len(values) > 1]
    finite = np.concatenate([values[np.isfinite(values)] for values, _ in thin]) if thin else np.empty(0)
    if not len(finite):
        return ""
    low, high = float(finite.min()), float(finite.max())
    spread = (high - low) or 1.0
    paths = "".join(
        f'<path fill="none" stroke="{colour}" stroke-width="1.2" d="{_path(values, low, spread)}"/>'
        for values, colour in thin
    )
    return f'<svg role="img" aria-label="from {low:.4g} to {high:.4g}" width="{WIDTH}" height="{HEIGHT}">{paths}</svg>'


def _even_places(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).astype(np.int64))


def _path(values: Vector, low: float, spread: float) -> str:
    """Return the path of a curve; it is interrupted where a number is not finite."""
    words, drawing = [], False
    for k, value in enumerate(values.tolist()):
        if not np.isfinite(value):
            drawing = False
            continue
        x, y = WIDTH * k / (len(values) - 1), 3 + (HEIGHT - 6) * (1.0 - (value - low) / spread)
        words.append(f"{'L' if drawing else 'M'}{x:.1f},{y:.1f}")
        drawing = True
    return "".join(words)

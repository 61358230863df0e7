"""The picture behind `undrift adam map`: one matplotlib figure, written as PNG or inside an HTML page."""

from __future__ import annotations

import html
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from undrift._typing import Vector
from undrift.errors import MissingExtraError
from undrift.optim.conditions import Region, rho_contour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, SKY, ORANGE, GREY, INK = "#0072B2", "#56B4E9", "#E69F00", "#C9C9C9", "#1F1F1F"  # safe for colour-blind readers
RIGHT, TOP = 7.0, 8.0
"""Edges of the plane in -log10(1 - beta): beta1 up to 1 - 1e-7, beta2 up to 1 - 1e-8."""


def figure(regions: Sequence[Region], marks: Mapping[str, tuple[float, float]], nu: float, epsilon: float) -> Figure:
    """Draw the plane: regions, vacuous zone, contours of rho, marks."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(
            "adam map: the picture needs matplotlib; install it with: pip install 'undrift[cli]'"
        ) from None
    plot = Figure(figsize=(10.5, 8.2), dpi=150, facecolor="white", layout="constrained")
    axes = plot.add_subplot()
    _areas(axes, {region.theorem: region for region in regions}, epsilon)
    _contours(axes, regions[0].gap1)
    _marks(axes, marks)
    axes.set_xlim(0.0, RIGHT)
    axes.set_ylim(0.0, TOP)
    axes.set_xticks(*_ticks(RIGHT))
    axes.set_yticks(*_ticks(TOP))
    axes.tick_params(labelsize=10)
    axes.set_xlabel(r"$\beta_1$  (drawn at $-\log_{10}(1-\beta_1)$)", fontsize=12)
    axes.set_ylabel(r"$\beta_2$  (drawn at $-\log_{10}(1-\beta_2)$)", fontsize=12)
    axes.set_title(
        "Which settings of Adam a convergence theorem covers\n"
        rf"$\nu$ = {nu:g} ($G+\sigma$), promise $\epsilon$ = {epsilon:g} ($G+\sigma$)",
        fontsize=13,
    )
    plot.legend(loc="outside lower center", ncols=2, fontsize=10, frameon=False)
    return plot


def png(plot: Figure) -> bytes:
    """Return the figure as PNG."""
    buffer = io.BytesIO()
    plot.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def page(plot: Figure, facts: Mapping[str, object], covered: Mapping[str, Sequence[str]]) -> bytes:
    """Return the figure inside one HTML file that needs no network."""
    buffer = io.StringIO()
    plot.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    picture = buffer.getvalue()
    picture = picture[picture.index("<svg") :]
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(', '.join(keys)) or 'no theorem'}</td></tr>"
        for name, keys in covered.items()
    )
    data = json.dumps(facts, allow_nan=False).replace("<", "\\u003c")
    return _PAGE.format(picture=picture, rows=rows, data=data).encode()


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Adam: the (beta1, beta2) plane</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
figure {{ background: #fff; margin: 0; border-radius: 6px; padding: .5rem; }}
figure svg {{ width: 100%; height: auto; }}
table {{ border-collapse: collapse; }} td, th {{ text-align: left; padding: .2rem 1rem .2rem 0; }}
</style></head><body>
<h1>Adam: the (beta1, beta2) plane</h1>
<figure role="img" aria-label="Regions of the (beta1, beta2) plane covered by the four theorems">{picture}</figure>
<p>Coloured: a theorem promises the epsilon in the title (keys clipped/nu, clipped/margin, clip-free/nu,
clip-free/margin), in expectation, for Exp(1) scaled steps, the averaged iterate and one norm over all parameters.
Grey: its conditions on beta2 and nu hold, but the promise would be larger than that; at epsilon = G + sigma it would
be vacuous, because every point has it.</p>
<table><tr><th>setting</th><th>covered by, at this epsilon</th></tr>{rows}</table>
<script type="application/json" id="data">{data}</script>
</body></html>
"""


def _height(gap: Vector, ceiling: float = TOP) -> Vector:
    """Where 1 - beta is drawn; a gap of 0 goes to the edge."""
    with np.errstate(divide="ignore"):
        return np.minimum(-np.log10(gap), ceiling)


def _areas(axes: Axes, regions: Mapping[str, Region], epsilon: float) -> None:
    grid = -np.log10(regions["clipped/nu"].gap1)
    loose = np.maximum.reduce([region.allowed for region in regions.values()])
    label = "conditions hold, but the promise is " + ("vacuous" if epsilon == 1.0 else "larger than this")
    axes.fill_between(grid, _height(loose), TOP, color=GREY, alpha=0.55, lw=0, label=label)
    area = regions["clipped/nu"]
    inside = ~np.isnan(area.high)
    axes.fill_between(grid, _height(area.high), TOP, where=inside, color=SKY, lw=0, label="clipped/nu")
    area = regions["clip-free/nu"]
    axes.fill_between(
        grid,
        _height(area.high),
        TOP,
        where=inside,
        facecolor="none",
        edgecolor=BLUE,
        hatch="///",
        lw=0.8,
        label="clip-free/nu (inside clipped/nu)",
    )
    area = regions["clipped/margin"]
    inside = ~np.isnan(area.high)
    axes.fill_between(
        grid,
        _height(area.high),
        _height(area.low),
        where=inside,
        facecolor=ORANGE,
        edgecolor=INK,
        alpha=0.8,
        lw=1.2,
        label="clipped/margin and clip-free/margin (the same region)",
    )


def _contours(axes: Axes, gap1: Vector) -> None:
    grid = -np.log10(gap1)
    for k, (width, text) in enumerate(((0.0, "0"), (0.9, "0.9"), (0.99, "0.99"), (0.999, "0.999"))):
        upper, _ = rho_contour(gap1, width)
        axes.plot(
            grid,
            _height(upper, math.inf),
            color=INK,
            lw=0.9,
            ls=(0, (4, 3)),
            label=None if k else r"contours of $\rho$",
        )
        at = 2.05
        spot = float(np.interp(at, grid[::-1], _height(upper, math.inf)[::-1]))
        axes.annotate(
            rf"$\rho$ = {text}",
            (at, spot),
            fontsize=9,
            ha="center",
            va="center",
            rotation=31,
            rotation_mode="anchor",
            color=INK,
            bbox={"boxstyle": "round,pad=0.12", "fc": "#E6E6E6", "ec": "none"},
        )
    edge = _height(gap1 * (2.0 - gap1), math.inf)
    axes.plot(grid, edge, color=INK, lw=1.6, label=r"$\beta_2 = \beta_1^2$ ($\rho$ = 1)")
    axes.text(
        5.3,
        3.2,
        "no theorem here: " r"$\beta_2$ is below $\beta_1^2$" "\n" r"(below $\beta_1^4$ where clipped)",
        fontsize=11,
        ha="center",
        color=INK,
    )


def _marks(axes: Axes, marks: Mapping[str, tuple[float, float]]) -> None:
    """Number the settings and list them in the empty corner, so that no label can cover another."""
    lines = ["settings in use"]
    for k, (name, (beta1, beta2)) in enumerate(marks.items(), start=1):
        x, y = -math.log10(1.0 - beta1), -math.log10(1.0 - beta2)
        axes.plot(x, y, "o", ms=13, mfc="white", mec=INK, mew=1.4, zorder=5)
        axes.text(x, y, f"{k}", ha="center", va="center_baseline", fontsize=9, zorder=6, color=INK)
        lines.append(f"{k}  {name} ({beta1:g}, {beta2:g})")
    axes.text(0.98, 0.03, "\n".join(lines), transform=axes.transAxes, ha="right", va="bottom", ma="left", fontsize=10)


def _ticks(edge: float) -> tuple[list[float], list[str]]:
    betas = [0.5, 0.9, 0.99, 0.999, 0.9999]
    places, texts = [-math.log10(1.0 - b) for b in betas], [f"{b:g}" for b in betas]
    for k in range(5, int(edge) + 1):
        places.append(float(k))
        texts.append(rf"$1-10^{{-{k}}}$")
    return places, texts

"""The weight of each memory length through time, and the half-life they amount to."""

from __future__ import annotations

import math

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.report.blocks import cut_blocks
from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import half_life_number
from undrift.report.half_life import effective_half_life, find_changes
from undrift.report.plot_spec import PlotSpec, curve, heat_map, round_numbers, straight_line
from undrift.report.run_context import RunContext

SECTION = "memory"
COLUMNS = 150
"""Columns of the heat map, at most."""
SMOOTH = 7
"""Columns the line is averaged over."""


def measure(run: RunContext) -> Measured:
    """Return the weight of each memory length through time, their half-life, and where it changed."""
    data, timeline = run.data, run.timeline
    if not data.spectrum.size:
        return {"spectrum": None}
    blocks = cut_blocks(len(data.spectrum), COLUMNS)
    weights = blocks.column_means(data.spectrum)
    rounds = np.clip(data.spectrum_round[blocks.last - 1].astype(np.int64), 1, data.rounds)
    half_life = effective_half_life(data.half_lives, centred_mean(weights, SMOOTH))
    changes = find_changes(data.spectrum_round, data.half_lives, data.spectrum)
    heights = log_heights(data.half_lives)
    top = float(np.max(heights))  # the line is never above the row of memories that do not forget
    line = np.minimum(np.where(np.isfinite(half_life), np.log10(np.maximum(half_life, 1e-9)), top), top)
    return {
        "spectrum": {
            "axis": timeline.axis(rounds),
            "marks": timeline.axis(np.array([change.round for change in changes], dtype=np.int64)),
            "half_lives": round_numbers(data.half_lives),
            "heights": round_numbers(heights),
            "weights": [round_numbers(row, 3) for row in weights.T],
            "effective": round_numbers(half_life),
            "line": round_numbers(line),
            "changes": [change._asdict() for change in changes],
        }
    }


def centred_mean(rows: Matrix, width: int) -> Matrix:
    """Return the mean of `width` rows around each; fewer at the ends."""
    ones = np.ones(min(width, len(rows)))
    counts = np.convolve(np.ones(len(rows)), ones, "same")
    return np.column_stack([np.convolve(column, ones, "same") / counts for column in rows.T])


def log_heights(half_lives: Vector) -> Vector:
    """Return where half-lives stand on a log axis; infinity is one median step above the longest."""
    finite = np.isfinite(half_lives)
    if not finite.any():
        return np.zeros(len(half_lives))
    logs = np.log10(half_lives[finite])
    step = float(np.median(np.diff(logs))) if len(logs) > 1 else 1.0
    return np.where(finite, np.log10(np.where(finite, half_lives, 1.0)), logs[-1] + step)


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw a heat map of weights under the line of the effective half-life."""
    spectrum, timeline = numbers["spectrum"], run.timeline
    half_lives, effective = (
        [math.inf if h is None else h for h in spectrum[name]] for name in ("half_lives", "effective")
    )
    by_time = run.data.memory_unit is not None
    hover = "half-life %{text}: weight %{z:.1%}<extra></extra>"
    texts = [run.memory_text(h) for h in half_lives]
    heat = heat_map("spectrum", "weight", "heights", "weights", texts, hovertemplate=hover)
    # An outline in the colour of the page keeps the line apart from dark cells.
    outline = curve(
        "spectrum", "line", label="", shade="surface", line={"width": 5}, hoverinfo="skip", showlegend=False
    )
    line = curve(
        "spectrum",
        "line",
        label="effective half-life",
        shade="line",
        customdata=[run.memory_text(h) for h in effective],
        hovertemplate="effective half-life %{customdata}<extra></extra>",
        line={"width": 2.5},
    )
    changes = "".join(
        f" Around {timeline.round_text(c['round'])} it went from {run.memory_text(c['before'])} to "
        f"{run.memory_text(c['after'])}."
        for c in spectrum["changes"]
    )
    layout: PlotSpec = {
        "yaxis": {
            "title": {"text": "half-life" if by_time else "half-life (rows)"},
            "tickvals": spectrum["heights"],
            "ticktext": [run.memory_text(h) if by_time else half_life_number(h, "no forgetting") for h in half_lives],
            "showgrid": False,
        },
        "xaxis": {"showgrid": False},
        "shapes": [
            straight_line("line", x={"$x": ["spectrum", "marks"], "at": k}, dash="dot")
            for k in range(len(spectrum["changes"]))
        ],
    }
    return Figure(
        "spectrum",
        "The memory spectrum",
        "Each column is a moment, each line a memory length; the stronger the colour, the more undrift trusts models "
        "with that memory. Low means only recent rows count; high means old rows still help.",
        f"Heat map of weights over {len(half_lives)} memory lengths; the effective half-life starts at "
        f"{run.memory_text(effective[0])} and ends at {run.memory_text(effective[-1])}.{changes}",
        f"Measured: weights learned before each row. A half-life is the {'time' if by_time else 'number of rows'} "
        "after which a row counts half; the line is the half-life all weights amount to, averaged over a few columns. "
        "Keys `linear-ensemble`, `logistic-ensemble`.",
        [View("", [heat, outline, line], layout)],
        height=400,
    )

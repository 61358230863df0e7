"""Then and now: how the distributions of label and features differ between the first and the last rows."""

from __future__ import annotations

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import number, percent, plural
from undrift.report.plot_spec import PlotSpec, colour, escape, ref, round_numbers
from undrift.report.run_context import RunContext

SECTION = "drift"
PANELS = 8
"""Distributions that are drawn, at most: the label, then the features that moved most."""
ROWS = 40
"""Features in the table, at most."""
BINS = 14
"""Bars of a histogram."""
FEWEST = 20
"""Rows at either end below which nothing is compared."""


def measure(run: RunContext) -> Measured:
    """Return histograms of what moved most, and how far every feature moved."""
    data = run.data
    if data.then is None or data.now is None or min(len(data.then), len(data.now), data.rounds // 2) < FEWEST:
        return {"drift": None}
    half = min(len(data.then), len(data.now), data.rounds // 2)
    then, now = data.then[:half], data.now[-half:]
    moved = {
        name: largest_gap(then[:, j], now[:, j])
        for j, name in enumerate(data.features)
        if j < min(then.shape[1], now.shape[1])
    }
    order = sorted(range(len(moved)), key=lambda j: -moved[data.features[j]])
    label = _panel(data.target, data.y[:half], data.y[-half:], data.classes)
    shown = [_panel(data.features[j], then[:, j], now[:, j]) for j in order[: PANELS - 1]]
    return {
        "drift": {
            "rows": half,
            "panels": [one for one in (label, *shown) if one is not None],
            "table": [_table_row(data.features[j], then[:, j], now[:, j]) for j in order[:ROWS]],
            "features": len(order),
        }
    }


def largest_gap(then: Vector, now: Vector) -> float:
    """Return the largest difference of two distribution functions (Kolmogorov and Smirnov), from 0 to 1.

    Missing values are left out; 0 where one side has none.

    >>> largest_gap(np.array([0.0, 1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0, 5.0]))
    0.5
    """
    a, b = np.sort(then[np.isfinite(then)]), np.sort(now[np.isfinite(now)])
    if not len(a) or not len(b):
        return 0.0
    at = np.concatenate([a, b])
    below = np.searchsorted(a, at, side="right") / len(a) - np.searchsorted(b, at, side="right") / len(b)
    return float(np.max(np.abs(below)))


def _panel(name: str, then: Vector, now: Vector, classes: object = None) -> Numbers | None:
    """Return two histograms over the same bins, as shares of the rows; None where there is nothing to count."""
    both = np.concatenate([then, now])
    both = both[np.isfinite(both)]
    if not len(both):
        return None
    if classes is not None:
        labels = [escape(str(one)) for one in list(classes)[:BINS]]  # type: ignore[call-overload]  # texts
        edges = np.arange(len(labels) + 1.0) - 0.5
        at: list[object] = list(labels)
    else:
        low, high = (float(q) for q in np.quantile(both, (0.01, 0.99)))
        different = np.unique(both)
        if len(different) <= BINS and high > low:
            edges = np.concatenate([[-np.inf], (different[1:] + different[:-1]) / 2.0, [np.inf]])
            at = list(round_numbers(different, 4))
        else:
            edges = np.linspace(low, high, BINS + 1) if high > low else np.array([low - 0.5, low + 0.5])
            at = list(round_numbers((edges[1:] + edges[:-1]) / 2.0, 4))
    shares = [_shares(values, np.asarray(edges, dtype=np.float64)) for values in (then, now)]
    return {
        "name": name,
        "gap": round(largest_gap(then, now), 3),
        "at": at,
        "then": round_numbers(shares[0], 4),
        "now": round_numbers(shares[1], 4),
    }


def _shares(values: Vector, edges: Vector) -> Vector:
    """Return the share of the values in each bin; what lies outside counts in the outer ones."""
    some = values[np.isfinite(values)]
    low, high = edges[0], edges[-1]
    inside = np.clip(some, low, high) if np.isfinite([low, high]).all() else some
    counts = np.histogram(inside, edges)[0]
    return np.asarray(counts / max(1, len(some)), dtype=np.float64)


def _table_row(name: str, then: Vector, now: Vector) -> Numbers:
    medians = [float(np.median(one[np.isfinite(one)])) if np.isfinite(one).any() else None for one in (then, now)]
    missing = [float(np.mean(~np.isfinite(one))) for one in (then, now)]
    return {"name": name, "gap": round(largest_gap(then, now), 3), "medians": medians, "missing": missing}


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw a pair of histograms for the label and for each feature that moved most."""
    part = numbers["drift"]
    rows = plural(part["rows"], "row")
    views = [
        View(
            f"{panel['name']}: {panel['gap']:.2f}",
            [_bars(k, "then", "mute"), _bars(k, "now", "own")],
            LAYOUT,
            linked=False,
        )
        for k, panel in enumerate(part["panels"])
    ]
    said = ", ".join(f"{panel['name']} {panel['gap']:.2f}" for panel in part["panels"])
    return Figure(
        "drift",
        "Then and now",
        f"Grey is the first {rows}, blue the last {rows}; the target comes first, then the features that moved most. "
        "The number is how far they lie apart: 0 is no difference, 1 is no overlap. Seasons count as differences too.",
        f"Pairs of small histograms of the first and the last {rows}; distances: {said}.",
        "Measured: the largest gap between the two distribution functions (Kolmogorov and Smirnov), without missing "
        "values.",
        [],
        panels=views,
    )


LAYOUT: PlotSpec = {
    "barmode": "overlay",
    "bargap": 0.05,
    "yaxis": {"tickformat": ".0%", "rangemode": "tozero", "nticks": 3},
    "xaxis": {"nticks": 3},
}


def _bars(k: int, which: str, shade: str) -> PlotSpec:
    return {
        "type": "bar",
        "x": ref("drift", "panels", k, "at"),
        "y": ref("drift", "panels", k, which),
        "name": which,
        "opacity": 0.55,
        "marker": {"color": colour(shade)},
        "hovertemplate": f"{which}, %{{x}}: %{{y:.1%}}<extra></extra>",
    }


def table_rows(drift: Numbers | None) -> list[list[str]]:
    """Return the table of all features as text: how far each moved, its median and the share missing, then and now."""
    rows = drift["table"] if drift else []
    return [
        [
            row["name"],
            f"{row['gap']:.2f}",
            *("" if median is None else number(median) for median in row["medians"]),
            *(percent(share) for share in row["missing"]),
        ]
        for row in rows
    ]


def spreads(then: Matrix, now: Matrix) -> Vector:
    """Return how far each feature usually lies from its mean over the first and the last rows (d,); 0 if unknown."""
    width = min(then.shape[1], now.shape[1])
    both = np.concatenate([then[:, :width], now[:, :width]])
    known = np.isfinite(both)
    count = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, both, 0.0)
    mean = filled.sum(axis=0) / count
    return np.asarray(np.sqrt((np.where(known, both - mean, 0.0) ** 2).sum(axis=0) / count))

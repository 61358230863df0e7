"""What each feature contributes to the leading linear model through time, and a table of its coefficients."""

from __future__ import annotations

import numpy as np

from undrift._typing import Matrix
from undrift.report.figures.data_drift import spreads
from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import number
from undrift.report.plot_spec import curve, round_numbers, y_title
from undrift.report.run_context import RunContext

SECTION = "moves"
POINTS = 40
"""Points of a curve, at most: each is the median of several moments, as the leading memory changes from row to row."""
PANELS = 8
"""Features that are drawn, at most."""
USUAL = 0.95
"""Part of each curve that its panel must hold: the first coefficients, learned from a few rows, may be far off."""
ROWS = 500
"""Features in the table, at most."""


def measure(run: RunContext) -> Measured:
    """Return curves of the largest contributions, and the first, lowest, highest and last value of all coefficients."""
    data = run.data
    if not data.coef.size:
        return {"coefficients": None, "contributions": None}
    known = [column[np.isfinite(column)] for column in data.coef.T]
    table = [
        {
            "name": name,
            "first": float(values[0]),
            "lowest": float(np.min(values)),
            "highest": float(np.max(values)),
            "last": float(values[-1]),
        }
        for name, values in zip(data.coef_names, known[:ROWS], strict=False)
        if len(values)
    ]
    coefficients = {"table": table, "features": len(known)}
    return {"coefficients": coefficients, "contributions": _measure_contributions(run)}


def _measure_contributions(run: RunContext) -> Numbers | None:
    """Return block medians of coefficient times spread, the features that matter most first."""
    data = run.data
    if data.then is None or data.now is None:
        return None
    spread = dict(zip(data.features, spreads(data.then, data.now).tolist(), strict=False))
    columns = [j for j, name in enumerate(data.coef_names[:-1]) if spread.get(name, 0.0) > 0.0]
    if not columns:
        return None
    ends = np.linspace(0, len(data.coef), min(len(data.coef), POINTS) + 1).round().astype(np.int64)[1:]
    medians = _block_medians(data.coef[:, columns], ends)
    values = medians * np.array([spread[data.coef_names[j]] for j in columns])
    order = np.argsort(-np.median(np.abs(values), axis=0), kind="stable")[:PANELS]
    rounds = np.clip(data.coef_round[ends - 1].astype(np.int64), 1, data.rounds)
    far = float(np.max(np.quantile(np.abs(values[:, order]), USUAL, axis=0)))
    return {
        "axis": run.timeline.axis(rounds),
        "far": float(f"{1.3 * far:.4g}"),
        "panels": [{"name": data.coef_names[columns[k]], "values": round_numbers(values[:, k])} for k in order],
        "features": len(columns),
    }


def _block_medians(coef: Matrix, ends: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Matrix:
    """Return the medians of the rows up to each end; 0 for features that were not there yet."""
    starts = np.concatenate([[0], ends[:-1]])
    filled = np.where(np.isfinite(coef), coef, 0.0)
    return np.stack([np.median(filled[a:b], axis=0) for a, b in zip(starts, ends, strict=True)])


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw a small panel for each of the features that contribute most, all on one scale."""
    part = numbers["contributions"]
    unit = f"units of {run.data.target}" if run.numbers else "log-odds"
    scale = {"range": [-part["far"], part["far"]], **y_title("")}
    views = [
        View(
            panel["name"],
            [curve("contributions", "panels", k, "values", label=panel["name"], shade="own", showlegend=False)],
            {"yaxis": scale},
        )
        for k, panel in enumerate(part["panels"])
    ]
    ends = ", ".join(f"{panel['name']}: {number(panel['values'][-1] or 0.0)}" for panel in part["panels"])
    left_out = f" The {PANELS} largest of {part['features']}." if part["features"] > PANELS else ""
    return Figure(
        "contributions",
        "Contributions through time",
        f"How far the prediction moves, in {unit}, when a feature lies one usual distance above its mean, as the "
        f"leading linear model saw it. All panels have one scale; a line that wanders is drift, "
        f"and one that leaves its panel was far off for a moment.{left_out}",
        f"Small line charts of contributions through time; at the end {ends}.",
        "Measured: coefficients of the linear model with the most weight, times the feature's standard deviation over "
        "the first and the last rows; medians over parts of the run. Features that move together share their effect.",
        [],
        panels=views,
    )


def table_rows(coefficients: Numbers | None) -> list[list[str]]:
    """Return the table of all coefficients as text."""
    rows = coefficients["table"] if coefficients else []
    return [[row["name"], *(number(row[key]) for key in ("first", "lowest", "highest", "last"))] for row in rows]

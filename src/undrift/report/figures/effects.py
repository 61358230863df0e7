"""What matters now: how far each column moves the last predictions, and how level 2 adds up the families."""

from __future__ import annotations

from undrift.report.figures.candidate_weights import PLAIN_NAMES
from undrift.report.figures.figure import Figure, Measured, Numbers, PlotSpec, View, colour, escape, ref, round_numbers
from undrift.report.formatting import number
from undrift.report.run_context import RunContext

SECTION = "moves"
BARS = 15
"""Columns that are drawn, at most."""


_FAMILIES = "The second view shows how the families of models are added up."
_SEVERAL = "The second view shows how far level 2 follows each class's own model: 1 takes its log-odds as they are."


def measure(run: RunContext) -> Measured:
    """Return the largest effects and all coefficients of level 2, the largest first."""
    if not run.data.effects:
        return {"effects": None}
    features, families = (
        sorted(one.items(), key=lambda item: -abs(item[1])) for one in (run.data.effects, run.data.combination)
    )
    return {
        "effects": {
            "features": [escape(name) for name, _ in features[:BARS]],
            "sizes": round_numbers(size for _, size in features[:BARS]),
            "families": [escape(PLAIN_NAMES.get(name, name)) for name, _ in families],
            "shares": round_numbers(share for _, share in families),
            "all": len(features),
        }
    }


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw columns and families as bars, one view each."""
    part = numbers["effects"]
    unit = f"units of {run.data.target}" if run.numbers else "log-odds" if run.binary else "probability"
    shown = list(zip(part["features"], part["sizes"], strict=True))
    left_out = f" The {BARS} largest of {part['all']}." if part["all"] > BARS else ""
    return Figure(
        "effects",
        "What matters now",
        f"The longer a bar, the more the last predictions would change if that column had its usual value.{left_out} "
        f"{_SEVERAL if run.several else _FAMILIES}",
        f"Bars of how far each column moves the last predictions, in {unit}: "
        + ", ".join(f"{name} {number(size)}" for name, size in shown),
        f"Measured: mean change of the last predictions, in {unit}, with all features of one column (or one cycle of "
        "the calendar) at their means in the first rows and the rest kept. Columns that move together share their "
        "effect. Second view: coefficients of level 2's leading memory.",
        [
            View(
                "columns",
                [_bars("features", "sizes")],
                _layout("change of the predictions"),
                linked=False,
            ),
            View(
                "classes" if run.several else "families",
                [_bars("families", "shares")],
                _layout("coefficient in level 2"),
                linked=False,
            ),
        ],
        height=120 + 24 * max(len(shown), len(part["families"])),
    )


def _bars(names: str, sizes: str) -> PlotSpec:
    return {
        "type": "bar",
        "orientation": "h",
        "x": ref("effects", sizes),
        "y": ref("effects", names),
        "marker": {"color": colour("own")},
        "hovertemplate": "%{y}: %{x:.4g}<extra></extra>",
    }


def _layout(title: str) -> PlotSpec:
    return {
        "xaxis": {"title": {"text": title}, "zeroline": True},
        "yaxis": {"autorange": "reversed", "automargin": True},
        "showlegend": False,
        "hovermode": "closest",
        "bargap": 0.25,
    }

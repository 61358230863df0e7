"""A run in five lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from undrift.cli.output import number


def lines(state: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """Return what someone who never heard of us should know about a run."""
    source = state["provenance"]["source"]["path"]
    what = "numbers" if state["task"] == "regression" else f"classes {' and '.join(state['classes'])}"
    out = [
        f"{source}: predicted '{state['settings']['target']}' ({what}) in {state['rounds']:,} rounds, "
        "each before its label was seen."
    ]
    out.append(_quality(state))
    out += [f"{facts['folder']} holds the predictions (predictions.parquet), the model and the settings."]
    if state["problems"]:
        out.append(f"{len(state['problems'])} things about the data are worth a look: {_problems(state['problems'])}.")
    if facts["report"]:
        out.append(f"Report: {facts['report']}")
    return out


def _quality(state: Mapping[str, Any]) -> str:
    measure = "mean absolute error" if state["task"] == "regression" else "log-loss"
    scores = {name: values[measure] for name, values in state["scores"].items()}
    own = scores.pop("model")
    others = ", ".join(f'"{name}" {number(value)}' for name, value in scores.items())
    best = min(scores.values())
    better = (
        f"{1 - own / best:.0%} less" if own <= best and best > 0.0 else f"{own / best - 1:.0%} more" if best else "-"
    )
    return f"{measure.capitalize()}: {number(own)}, {better} than the best naive guess ({others})."


def _problems(problems: list[Mapping[str, Any]]) -> str:
    shown = [f"{one['kind']}{'' if one['column'] is None else ' ' + repr(one['column'])}" for one in problems[:3]]
    return ", ".join(shown) + (", ..." if len(problems) > 3 else "")

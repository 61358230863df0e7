"""Weights of the models over time: the part of the predictions that each kind of model has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from undrift._typing import Vector
from undrift.online.inspection import GateUse
from undrift.report.blocks import cut_blocks
from undrift.report.figures.figure import Figure, Measured, Numbers, View
from undrift.report.formatting import join_words, number, percent, plural
from undrift.report.plot_spec import COLOURS, areas, escape, round_numbers
from undrift.report.run_context import RunContext
from undrift.run import RunData

SECTION = "memory"
POINTS = 300
"""Points of a curve, at most."""
SMALL = 0.02
"""Kinds that never have this share are drawn together, and so are those beyond the colours there are."""
MOST = len(COLOURS) - 1
"""Kinds beside the others."""
COMBINED = "level 2"
"""The candidate that adds up the kinds."""
KINDS = {
    "level 2": "all kinds together",
    "linear": "straight lines",
    "curvature": "straight lines",
    "waves": "smooth curves",
    "context": "recent past (last labels, running means)",
    "hinges and products": "bends, and columns times columns",
    "trees": "boosted trees",
    "trees in context": "boosted trees over the recent past",
    "robust": "all kinds, from labels whose jumps are limited",
    "products in context": "columns times the recent past",
    "last label": "the last label again",
    "last value": "the last label again",
    "same as last time": "the last label again",
    "running mean": "what is usual",
    "base rate": "what is usual",
    "base rates": "what is usual",
    "level 2, short memory": "classes together, short memory",
    "level 2, long memory": "classes together, long memory",
    "level 2, never forgets": "classes together, all of the past",
    "each class against the rest": "each class by itself",
}
"""The candidates of our estimators and the families of level 2 in plain words; others keep their names."""


def measure(run: RunContext) -> Measured:
    """Return the share of each kind that ever mattered, and of the others together."""
    data = run.data
    if not data.candidate_weights.size:
        return {"candidates": None}
    blocks = cut_blocks(len(data.candidate_weights), POINTS)
    rounds = np.clip(data.spectrum_round[blocks.last - 1].astype(np.int64), 1, data.rounds)
    means = {name: blocks.mean(share) for name, share in model_shares(data).items()}
    ranked = sorted(means, key=lambda name: -float(np.mean(means[name])))
    large = [name for name in ranked if np.max(means[name]) >= SMALL]
    shown = {name: means[name] for name in (large if len(large) == len(means) <= len(COLOURS) else large[:MOST])}
    if len(shown) < len(means):
        shown["others"] = np.sum([mean for name, mean in means.items() if name not in shown], axis=0)
    return {
        "candidates": {
            "axis": run.timeline.axis(rounds),
            "names": list(shown),
            "weights": [round_numbers(mean, 4) for mean in shown.values()],
        }
    }


def model_shares(data: RunData) -> dict[str, Vector]:
    """Return the share of each kind of model after every snapshot (K,); they sum to 1.

    That is its weight in the last mixer, and of level 2's weight the part that its coefficient has in the sum of all
    coefficients' sizes. Where no coefficients were kept, level 2 is a kind of its own.
    """
    shares: dict[str, Vector] = {}

    def add(name: str, share: Vector) -> None:
        kind = KINDS.get(name.split()[0] if name.startswith("curvature ") else name, name)
        shares[kind] = shares.get(kind, 0.0) + share

    for name, weight in zip(data.candidates, data.candidate_weights.T, strict=True):
        if name != COMBINED or data.combination is None:
            add(name, weight)
            continue
        sizes = np.abs(np.nan_to_num(data.combination))
        total = np.sum(sizes, axis=1)
        for family, size in zip(data.families, sizes.T, strict=True):
            add(family, weight * size / np.where(total > 0.0, total, 1.0))
        add(COMBINED, np.where(total > 0.0, 0.0, weight))
    return shares


def draw(run: RunContext, numbers: Numbers) -> Figure:
    """Draw the shares as stacked areas."""
    part = numbers["candidates"]
    names = part["names"]
    shares = areas("candidates", "weights", map(escape, names))
    ends = ", ".join(f"{name} ({percent(x[-1])} at the end)" for name, x in zip(names, part["weights"], strict=True))
    return Figure(
        "candidates",
        "Weights of the models over time",
        "Every prediction is put together from several kinds of models, which learn side by side. The taller a band, "
        "the larger the part of that kind; a band grows when its kind begins to do better.",
        f"Stacked areas of the parts of {ends}.",
        "Measured: weights of the last mixer and of the robust model, and of level 2's the part of each kind by the "
        "size of its coefficients there. The mixer's cost over every candidate is bounded by `cost()`."
        + _arms_sentence(run.data.arms),
        [View("", shares, {"yaxis": {"tickformat": ".0%", "range": [0, 1], "title": {"text": "part"}}})],
        height=360,
    )


def _arms_sentence(arms: Sequence[GateUse]) -> str:
    """Return how the two arms of a regressor were weighed in rows in which they disagreed; nothing without arms."""
    if not arms:
        return ""
    ranges = [f"{number(arm.beyond)} to {number(after.beyond)}" for arm, after in pairwise(arms)]
    used = [
        f"by {reach} usual errors in {plural(arm.rounds, 'row')} ({percent(arm.raw_weight, 2)} raw at the end)"
        for arm, reach in zip(arms[1:], [*ranges[1:], f"more than {number(arms[-1].beyond)}"], strict=True)
        if arm.rounds
    ]
    disagreed = f"never disagreed by more than {number(arms[1].beyond)} usual errors"
    if used:
        disagreed = f"disagreed {join_words(used)}"
    return (
        " One model learns labels as they are (raw), another limits their jumps (robust); where they disagree, they "
        f"have other weights than the bands. They {disagreed}."
    )

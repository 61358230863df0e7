"""The keys that are shown one by one: which, in what order, and what is said about each."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from undrift._typing import Vector
from undrift.report.words import NONE, number, percent, short
from undrift.run import KeyedRun, KeyReport

SHORT = 8
"""Keys in a short list."""
EACH = 100
"""Keys of each list that stand in the long table; four times as many keys or fewer all stand there."""
CLEAR = 4.0
"""Standard errors from which a change is called one: chance alone makes about six such among 100,000 keys."""


class Cell(NamedTuple):
    """One place of a table."""

    text: str
    """What is shown."""
    value: float | str | None
    """What it is sorted by; None comes last."""


class Lists(NamedTuple):
    """The keys of a fleet in the orders that matter."""

    worst: list[KeyReport]
    """Those with the least skill first."""
    forgetful: list[KeyReport]
    """Those with a known memory, the shortest first."""
    changed: list[KeyReport]
    """Those whose loss of late is clearly another than before, the clearest first."""
    troubled: list[KeyReport]
    """Those with problems, most of them first."""


def lists(found: KeyedRun) -> Lists:
    """Sort the keys of a fleet, which come with the worst first."""
    remembering = [one for one in found.keys if one.half_life is not None and math.isfinite(one.half_life)]
    clear = [one for one in found.keys if abs(one.change) >= CLEAR]
    bad = [one for one in found.keys if one.problems]
    return Lists(
        found.worst,
        sorted(remembering, key=lambda one: (one.half_life, one.key)),
        sorted(clear, key=lambda one: (-abs(one.change), one.key)),
        sorted(bad, key=lambda one: (-one.problems, one.key)),
    )


def skills(found: KeyedRun) -> Vector:
    """Return the part of the naive loss that each scored key saved, the worst first."""
    return np.array([one.skill for one in found.keys if not math.isnan(one.skill)])


def listed(found: KeyedRun, by: Lists) -> list[KeyReport]:
    """Return the keys of the long table, the worst first: all, or the heads of all lists."""
    if len(found.keys) <= 4 * EACH:
        return found.keys
    chosen = {id(one) for keys in by for one in keys[:EACH]}
    return [one for one in found.keys if id(one) in chosen]


def columns(task: str) -> list[tuple[str, str]]:
    """Return the names of the columns and how each is sorted when first asked for."""
    error = "log-loss" if task == "classification" else "typical error (RMSE)"
    return [
        ("Key", "ascending"),
        ("loss saved", "ascending"),
        ("half-life (rows)", "ascending"),
        ("error lately / before", "descending"),
        ("problems", "descending"),
        ("rows", "descending"),
        (error, "descending"),
        ("best naive guess", "descending"),
    ]


def rows(keys: list[KeyReport], task: str) -> list[list[Cell]]:
    """Return a row of cells for each key, in the order of `columns`."""
    return [_row(one, task) for one in keys]


def _row(one: KeyReport, task: str) -> list[Cell]:
    own, naive = error(one.mean_loss, task), error(one.naive / one.scored if one.scored else math.nan, task)
    ratio = turned(one, task)
    return [
        Cell(short(one.key, 60), one.key),
        _cell(percent(one.skill), one.skill),
        _memory(one.half_life),
        _cell(f"{ratio:,.2f}" if math.isfinite(ratio) else NONE, ratio),
        _cell(f"{one.problems:,}", one.problems),
        _cell(f"{one.rounds:,}", one.rounds),
        _cell(number(own), own),
        _cell(number(naive), naive),
    ]


def _memory(half_life: float | None) -> Cell:
    if half_life is None:
        return Cell(NONE, None)
    text = "∞" if math.isinf(half_life) else number(half_life, 2 if half_life < 100 else 3)
    return Cell(text, min(half_life, 1e300))


def _cell(text: str, value: float) -> Cell:
    return Cell(text, None if math.isnan(value) else value)


def error(mean_loss: float, task: str) -> float:
    """Return a mean loss as people read it: log-loss, or the typical error in the target's units."""
    return mean_loss if task == "classification" else math.sqrt(2.0 * mean_loss)


def turned(one: KeyReport, task: str) -> float:
    """Return how many times larger the error is lately."""
    return error(one.lately, task) / error(one.before, task) if one.before > 0.0 else math.nan


def troubled(keys: list[KeyReport]) -> list[list[str]]:
    """Return the keys with most problems and what these are."""
    return [
        [
            short(one.key, 60),
            f"{one.problems:,}",
            percent(one.problems / sum(one.counts.values())),
            ", ".join(f"{n:,} {status}" for status, n in one.counts.items() if status not in FINE),
        ]
        for one in keys
    ]


FINE = ("ok", "labelled", "predicted")


def facts(one: KeyReport) -> dict[str, Any]:
    """Return a key's numbers for the JSON inside the page."""
    return {
        "key": one.key,
        "rounds": one.rounds,
        "mean_loss": one.mean_loss,
        "naive": list(one.naives),
        "skill": one.skill,
        "half_life": one.half_life,
        "before": one.before,
        "lately": one.lately,
        "change": one.change,
        "counts": one.counts,
    }

"""The keys of a fleet that are listed by name: which, in what order, and what a table says about each."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from undrift._typing import Vector
from undrift.report.formatting import NONE, half_life_number, number, percent, shorten
from undrift.report.scores import SCORE_TITLES
from undrift.run import FleetResult, KeyReport
from undrift.run.fleet.key_reports import error_of

SHORT_LIST = 8
"""Keys in a short list."""
PER_RANKING = 100
"""Keys of each ranking that stand in the long table; four times as many keys or fewer all stand there."""
CLEAR = 4.0
"""Standard errors from which a change is called one: chance alone makes about six such among 100,000 keys."""
FINE = ("ok", "labelled", "predicted")
"""What becomes of a record that has no problem."""


class Cell(NamedTuple):
    """One place of a table."""

    text: str
    """What is shown."""
    value: float | str | None
    """What it is sorted by; None comes last."""


class KeyRankings(NamedTuple):
    """The keys of a fleet in the orders that matter."""

    worst: list[KeyReport]
    """Those with the least skill first."""
    shortest_memory: list[KeyReport]
    """Those with a known memory, the shortest first."""
    changed: list[KeyReport]
    """Those whose loss of late is clearly another than before, the clearest first."""
    most_problems: list[KeyReport]
    """Those with problems, most of them first."""


def rank_keys(fleet: FleetResult) -> KeyRankings:
    """Sort the keys of a fleet, which come with the worst first."""
    finite = [key for key in fleet.keys if key.half_life is not None and math.isfinite(key.half_life)]
    changed = [key for key in fleet.keys if abs(key.change) >= CLEAR]
    problems = [key for key in fleet.keys if key.problems]
    return KeyRankings(
        fleet.worst,
        sorted(finite, key=lambda key: (key.half_life, key.key)),
        sorted(changed, key=lambda key: (-abs(key.change), key.key)),
        sorted(problems, key=lambda key: (-key.problems, key.key)),
    )


def loss_saved_by_key(fleet: FleetResult) -> Vector:
    """Return the part of the best baseline's loss that each scored key saved, the worst first."""
    return np.array([key.skill for key in fleet.keys if not math.isnan(key.skill)])


def known_half_lives(fleet: FleetResult) -> Vector:
    """Return the half-lives of the keys whose memory was looked up."""
    return np.array([key.half_life for key in fleet.keys if key.half_life is not None], np.float64)


def select_listed(fleet: FleetResult, rankings: KeyRankings) -> list[KeyReport]:
    """Return the keys of the long table, the worst first: all, or the heads of all rankings."""
    if len(fleet.keys) <= 4 * PER_RANKING:
        return fleet.keys
    chosen = {id(key) for keys in rankings for key in keys[:PER_RANKING]}
    return [key for key in fleet.keys if id(key) in chosen]


def error_title(task: str) -> str:
    """Return the name of the error that tables show."""
    return SCORE_TITLES["rmse" if task == "regression" else "log_loss"]


def columns(task: str) -> list[tuple[str, str]]:
    """Return the names of the columns and how each is sorted when first asked for."""
    return [
        ("Key", "ascending"),
        ("loss saved", "ascending"),
        ("half-life (rows)", "ascending"),
        ("error lately / before", "descending"),
        ("problems", "descending"),
        ("rows", "descending"),
        (error_title(task), "descending"),
        ("best naive guess", "descending"),
    ]


def table_row(key: KeyReport, task: str) -> list[Cell]:
    """Return the cells of a key, in the order of `columns`."""
    own, naive = error_of(key.mean_loss, task), error_of(key.naive / key.scored if key.scored else math.nan, task)
    half_life = key.half_life
    ratio = error_of(key.lately, task) / error_of(key.before, task) if key.before > 0.0 else math.nan
    return [
        Cell(shorten(key.key, 60), key.key),
        _cell(percent(key.skill), key.skill),
        Cell(NONE, None) if half_life is None else Cell(half_life_number(half_life), min(half_life, 1e300)),
        _cell(f"{ratio:,.2f}" if math.isfinite(ratio) else NONE, ratio),
        _cell(f"{key.problems:,}", key.problems),
        _cell(f"{key.rounds:,}", key.rounds),
        _cell(number(own), own),
        _cell(number(naive), naive),
    ]


def _cell(text: str, value: float) -> Cell:
    return Cell(text, None if math.isnan(value) else value)


def problem_rows(keys: list[KeyReport]) -> list[list[str]]:
    """Return the keys with most problems and what these are."""
    return [
        [
            shorten(key.key, 60),
            f"{key.problems:,}",
            percent(key.problems / sum(key.counts.values())),
            ", ".join(f"{n:,} {status}" for status, n in key.counts.items() if status not in FINE),
        ]
        for key in keys
    ]


def key_numbers(key: KeyReport) -> dict[str, Any]:
    """Return a key's numbers for the JSON inside the page."""
    names = ("key", "rounds", "mean_loss", "skill", "half_life", "before", "lately", "change", "counts")
    return {name: getattr(key, name) for name in names} | {"naive": list(key.naives)}

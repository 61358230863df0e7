"""`render_fleet`: the report of a fleet, many keys on one page."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from undrift.errors import InputError
from undrift.report import fleet_text, key_lists
from undrift.report.figures.registry import FLEET_FIGURES, make_figures
from undrift.report.formatting import plural
from undrift.report.html_file import CALLER, write_page
from undrift.report.run_text import flatten, ledger_pairs
from undrift.run import FleetResult, KeyReport

PROBLEMS = 50
"""Kinds of problems shown."""
MOST_EVENTS = 200
"""Events that are listed, the last ones; run.json has them all."""
SECTIONS = {
    "short": "In short",
    "well": "How well",
    "drift": "Which keys drift",
    "changed": "What changed",
    "keys": "Keys",
    "problems": "Data problems",
    "about": "About",
}
"""The sections of the page by their ids, in order."""


def render_fleet(fleet: FleetResult, out: str | os.PathLike[str]) -> Path:
    """Write the report of a fleet and return its path.

    Parameters
    ----------
    fleet
        What `undrift.run.play_fleet` returns.
    out
        The file to write; it appears whole or not at all.

    Notes
    -----
    However many keys there are, the page lists a few hundred: the worst, the fastest changing, those with most
    problems; the others are in its figures. keys.csv has them all.
    """
    if not fleet.rounds:
        raise InputError(f"{CALLER}: no row of the fleet was learned, so there is nothing to show; see predictions.csv")
    measured, figures = make_figures(FLEET_FIGURES, fleet, SECTIONS)
    rankings = key_lists.rank_keys(fleet)
    listed = key_lists.select_listed(fleet, rankings)
    target = fleet.run.fleet.fields.target
    short = key_lists.KeyRankings(*(keys[: key_lists.SHORT_LIST] for keys in rankings))
    at = {id(key): k for k, key in enumerate(listed)}
    content = {
        "target": target,
        "subtitle": fleet_text.subtitle(fleet),
        "sections": [one for one in SECTIONS.items() if one[0] != "changed" or fleet.events is not None],
        "takeaways": fleet_text.takeaways(fleet, rankings),
        "cards": fleet_text.cards(fleet, rankings),
        "notes": fleet_text.notes(fleet),
        "scores": fleet_text.score_rows(fleet),
        "error": key_lists.error_title(fleet.task),
        "figures": figures,
        "events": _event_rows(fleet),
        "more_events": max(0, len(fleet.events or ()) - MOST_EVENTS),
        "worst": _texts(short.worst, fleet.task),
        "shortest_memory": _texts(short.shortest_memory, fleet.task),
        "changed": _texts(short.changed, fleet.task),
        "shown": {name: [at[id(key)] for key in keys] for name, keys in short._asdict().items()},
        "titles": [title for title, _ in key_lists.columns(fleet.task)],
        "key_columns": key_lists.columns(fleet.task),
        "key_rows": [key_lists.table_row(key, fleet.task) for key in listed],
        "key_count": plural(len(listed), "key"),
        "all_keys": len(listed) == len(fleet.keys),
        "problems": fleet_text.problem_rows(fleet, PROBLEMS),
        "more_problems": max(0, len(fleet.problems) - PROBLEMS),
        "most_problems": key_lists.problem_rows(short.most_problems),
        "about": [*flatten(fleet.provenance), *ledger_pairs(fleet.learned)],
        "glossary": fleet_text.GLOSSARY,
    }
    numbers = {
        **measured,
        "format": 1,
        "task": fleet.task,
        "target": target,
        "features": fleet.features,
        "keys": len(fleet.keys),
        "rounds": fleet.rounds,
        "bytes_per_key": fleet.bytes_per_key,
        "provenance": fleet.provenance,
        "learned": list(fleet.learned),
        "events": None if fleet.events is None else [event.as_dict() for event in fleet.events],
        "problems": [asdict(problem) for problem in fleet.problems[:PROBLEMS]],
        "listed": [key_lists.key_numbers(key) for key in listed],
    }
    return write_page(out, "fleet.html", content, numbers, figures, scripts=("table.js",))


def _event_rows(fleet: FleetResult) -> list[dict[str, str]] | None:
    """Return the last events as text; None if nobody looked."""
    if fleet.events is None:
        return None
    shown = fleet.events[-MOST_EVENTS:]
    return [
        {"row": f"{one.row:,}", "key": str(one.key), "kind": str(one.kind), "sentence": one.sentence} for one in shown
    ]


def _texts(keys: list[KeyReport], task: str) -> list[list[str]]:
    """Return the rows of a short list, which cannot be sorted."""
    return [[cell.text for cell in key_lists.table_row(key, task)] for key in keys]

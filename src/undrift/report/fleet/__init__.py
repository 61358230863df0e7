"""`render_fleet`: the report of a fleet, many keys on one page."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from undrift.errors import InputError
from undrift.report.document import WHO, publish
from undrift.report.figures import Figure
from undrift.report.fleet import figures, listing, page, sheets
from undrift.report.page import flat
from undrift.report.words import count
from undrift.run import KeyedRun

PROBLEMS = 50
"""Kinds of problems shown."""


def render_fleet(found: KeyedRun, out: str | os.PathLike[str]) -> Path:
    """Write the report of a fleet and return its path.

    Parameters
    ----------
    found
        What `undrift.run.play_keyed` returns.
    out
        The file to write; it appears whole or not at all.

    Notes
    -----
    However many keys there are, the page lists a few hundred: the worst, the fastest changing, those with most
    problems; the others are in its figures. keys.csv has them all.
    """
    if not found.rounds:
        raise InputError(f"{WHO}: no row of the fleet was learned, so there is nothing to show; see predictions.csv")
    numbers: dict[str, Any] = {
        "saved": sheets.saved(found),
        "memory": sheets.memories(found),
        "points": sheets.points(found),
        "ages": sheets.ages(found),
    }
    shown: dict[str, list[Figure]] = {
        "well": [one for one in (figures.saved(numbers["saved"]), figures.ages(numbers["ages"], found.task)) if one],
        "drift": [one for one in (figures.memories(numbers["memory"]), figures.points(numbers["points"])) if one],
    }
    by = listing.lists(found)
    table = listing.listed(found, by)
    worst, forgetful, changed, troubled = (keys[: listing.SHORT] for keys in by)
    words = {
        "target": found.run.fleet.fields.target,
        "subtitle": page.subtitle(found),
        "sections": page.SECTIONS,
        "takeaways": page.takeaways(found, by),
        "cards": page.cards(found, by),
        "notes": page.notes(found),
        "scores": page.scores(found),
        "score": page.measure(found.task),
        "figures": shown,
        "worst": listing.rows(worst, found.task),
        "forgetful": listing.rows(forgetful, found.task),
        "changed": listing.rows(changed, found.task),
        "columns": listing.columns(found.task),
        "table": listing.rows(table, found.task),
        "listed": count(len(table), "key"),
        "everyone": len(table) == len(found.keys),
        "problems": page.problems(found, PROBLEMS),
        "more_problems": max(0, len(found.problems) - PROBLEMS),
        "troubled": listing.troubled(troubled),
        "about": flat(found.provenance),
        "words": page.WORDS,
    }
    numbers |= {
        "format": 1,
        "task": found.task,
        "target": found.run.fleet.fields.target,
        "features": found.features,
        "keys": len(found.keys),
        "rounds": found.rounds,
        "bytes_per_key": found.bytes_per_key,
        "provenance": found.provenance,
        "problems": [asdict(one) for one in found.problems[:PROBLEMS]],
        "listed": [listing.facts(one) for one in table],
    }
    drawn = [one for group in shown.values() for one in group]
    return publish(out, "fleet.html", words, numbers, drawn, scripts=("table.js",))

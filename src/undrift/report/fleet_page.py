"""`render_fleet`: the report of a fleet, many keys on one page, and what it says: sentences, cards and tables."""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from pathlib import Path, PurePath

import numpy as np

from undrift.errors import InputError
from undrift.report import key_lists
from undrift.report.figures.registry import FLEET_FIGURES, make_figures
from undrift.report.formatting import (
    NONE,
    half_life_number,
    half_life_text,
    join_items,
    number,
    percent,
    plural,
    shorten,
)
from undrift.report.html_file import CALLER, write_page
from undrift.report.key_lists import KeyRankings, known_half_lives, loss_saved_by_key
from undrift.report.run_text import GLOSSARY as RUN_GLOSSARY
from undrift.report.run_text import TASKS, Card, flatten, ledger_pairs
from undrift.report.scores import OWN
from undrift.run import FleetResult, KeyReport
from undrift.run.fleet.key_reports import MIN_SCORED, error_of

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
        "subtitle": subtitle(fleet),
        "sections": [one for one in SECTIONS.items() if one[0] != "changed" or fleet.events is not None],
        "takeaways": takeaways(fleet, rankings),
        "cards": cards(fleet, rankings),
        "notes": notes(fleet),
        "scores": score_rows(fleet),
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
        "problems": problem_rows(fleet, PROBLEMS),
        "more_problems": max(0, len(fleet.problems) - PROBLEMS),
        "most_problems": key_lists.problem_rows(short.most_problems),
        "about": [*flatten(fleet.provenance), *ledger_pairs(fleet.learned)],
        "glossary": GLOSSARY,
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


GLOSSARY = {
    "Key": "What tells the streams of a file apart: a device, a shop, a user. Every key has a model of its own.",
    "Row, round": "One line of your data. Its key's model predicts the label first, then learns from it.",
    "Naive guesses": "What needs no learning: the last value, the mean so far; for two classes the last class, and how "
    "often each came. Anything useful must beat them.",
    "Loss saved": "How much smaller undrift's total loss was than that of the naive guess that did best on the key.",
    "Half-life": "After so many rows, a row counts half as much as a new one. Short: the key changes fast.",
    "Error lately / before": "The error in the last quarter of a key's rows over that in the two quarters before; "
    "above 1 it does worse.",
    "RMSE": RUN_GLOSSARY["RMSE"],
    "Log-loss": RUN_GLOSSARY["Log-loss"],
}
"""Words of the page, explained at its end."""
STATUS_TEXT = {
    "poison": ("it cannot be used", "not learned; its key goes on"),
    "error": ("the model raised", "its key is as it was before; the others go on"),
    "duplicate": ("its place in the stream was taken", "dropped"),
    "late": ("its place in the stream had been given up", "dropped; a larger --wait keeps it"),
    "gap": ("numbers missing in the order of a key", "none; the key goes on"),
    "expired": ("its label never came", "let go to make room"),
}
"""What can be wrong with a record, and what was done about it."""
NAMED = 3
"""Keys named in a sentence."""


def subtitle(fleet: FleetResult) -> str:
    """Return what was learned from what."""
    source, key = PurePath(fleet.learned[0]["path"]).name, ", ".join(fleet.run.fleet.fields.key)
    return (
        f"{plural(len(fleet.keys), 'key')} (“{shorten(key)}”), {plural(fleet.rounds, 'row')} of "
        f"{source}, {plural(len(fleet.features), 'feature')}, predicting {TASKS[fleet.task]}; a model for every key."
    )


def takeaways(fleet: FleetResult, rankings: KeyRankings) -> list[str]:
    """Return the sentences a reader should remember."""
    sentences = (
        _quality_sentence(fleet, rankings),
        _memory_sentence(fleet, rankings),
        _change_sentence(rankings),
        _problem_sentence(fleet, rankings),
    )
    return [sentence for sentence in sentences if sentence]


def _quality_sentence(fleet: FleetResult, rankings: KeyRankings) -> str:
    saved = loss_saved_by_key(fleet)
    if not len(saved):
        return "No key has enough rows to be scored yet."
    median = float(np.median(saved))
    text = f"undrift beat the best naive guess on {np.count_nonzero(saved > 0.0):,} of {plural(len(saved), 'key')}"
    gain = (
        f"the middle key saved {percent(median, 2)} of that guess's loss"
        if median > 0.0
        else "most keys gained nothing"
    )
    behind = [key for key in rankings.worst if key.skill < 0.0]
    return f"{text}; {gain}{f'; furthest behind: {_names(behind)}' if behind else ''}."


def _memory_sentence(fleet: FleetResult, rankings: KeyRankings) -> str:
    known = known_half_lives(fleet)
    if not len(known):
        return ""
    median = float(np.median(known))
    length = "it never forgets" if math.isinf(median) else f"a row counts half after {half_life_text(median)}"
    text = f"The middle key's memory: {length}"
    quick = [key for key in rankings.shortest_memory if key.half_life is not None and key.half_life < median / 4.0]
    if not quick:
        return f"{text}; no key forgets far faster than that."
    verb = "forgets" if len(quick) == 1 else "forget"
    return f"{text}; {plural(len(quick), 'key')} {verb} more than four times as fast: {_names(quick)}."


def _change_sentence(rankings: KeyRankings) -> str:
    worse, better = ([key for key in rankings.changed if sign * key.change > 0.0] for sign in (1, -1))
    parts = [
        f"{plural(len(keys), 'key')} clearly {'does' if len(keys) == 1 else 'do'} {how} lately: {_names(keys)}"
        for keys, how in ((worse, "worse"), (better, "better"))
        if keys
    ]
    return f"{'; '.join(parts)}." if parts else ""


def _problem_sentence(fleet: FleetResult, rankings: KeyRankings) -> str:
    total = sum(problem.count for problem in fleet.problems)
    if not total:
        return "No record had a problem."
    first, most = fleet.problems[0], rankings.most_problems
    text = f"{plural(total, 'problem')} in the data, most often “{shorten(first.text, 70)}” ({first.count:,})"
    if most and most[0].problems > 1:
        text += f"; most in {', '.join(f'{shorten(key.key)} ({key.problems:,})' for key in most[:NAMED])}"
    failed = [key for key in fleet.keys if key.counts.get("error")]
    if failed:
        text += f"; the model itself failed on {plural(len(failed), 'key')}: {_names(failed)}"
    return f"{text}."


def _names(keys: list[KeyReport]) -> str:
    return join_items([shorten(key.key) for key in keys[:NAMED]], NAMED, total=len(keys))


def cards(fleet: FleetResult, rankings: KeyRankings) -> list[Card]:
    """Return the numbers to see first."""
    found = [Card("keys", f"{len(fleet.keys):,}", plural(fleet.rounds, "row"))]
    saved, known = loss_saved_by_key(fleet), known_half_lives(fleet)
    if len(saved):
        better = f"{percent(float(np.mean(saved > 0.0)))} of keys beat naive"
        found.append(Card("loss saved (middle key)", percent(float(np.median(saved))), better))
    if len(known):
        tenths = np.quantile(known, [0.1, 0.9], method="nearest")  # infinity cannot be interpolated
        usual = f"most keys: {half_life_number(float(tenths[0]))} to {half_life_number(float(tenths[1]))}"
        found.append(Card("memory (middle key)", half_life_text(float(np.median(known))), usual))
    level = fleet.run.fleet.interval
    if level is not None and not math.isnan(fleet.coverage):
        found.append(Card("covered by intervals", percent(fleet.coverage), f"promised: {percent(level)}"))
    worse = sum(key.change > 0.0 for key in rankings.changed)
    found.append(Card("worse lately", plural(worse, "key"), f"better: {len(rankings.changed) - worse:,}"))
    total = sum(problem.count for problem in fleet.problems)
    found.append(Card("data problems", f"{total:,}", f"in {plural(len(rankings.most_problems), 'key')}"))
    return found


def notes(fleet: FleetResult) -> list[str]:
    """Return what a reader should know before trusting the page."""
    found = []
    if fleet.left_out:
        found.append(f"Left out, as they are no numbers: {join_items([shorten(name) for name in fleet.left_out])}.")
    known = len(known_half_lives(fleet))
    if 0 < known < len(fleet.keys):
        found.append(f"Memories were looked up for the {known:,} keys with most rows, not for all {len(fleet.keys):,}.")
    young = sum(key.scored < MIN_SCORED for key in fleet.keys)
    if young:
        found.append(
            f"{plural(young, 'key')} had fewer than {MIN_SCORED} rows to be scored on; their numbers say little."
        )
    return found


def score_rows(fleet: FleetResult) -> list[list[str]]:
    """Return a row for undrift and each baseline: on how many keys it was best, and its error over keys."""
    scored = [key for key in fleet.keys if key.scored and key.naives]
    if not scored:
        return []
    errors = np.array([[error_of(loss / key.scored, fleet.task) for loss in (key.loss, *key.naives)] for key in scored])
    best = np.argmin(errors, axis=1)  # of equals the first, which is undrift
    return [
        [
            name,
            f"{int(np.count_nonzero(best == k)):,}",
            percent(float(np.mean(best == k))),
            *(number(float(q)) for q in np.quantile(errors[:, k], [0.1, 0.5, 0.9])),
        ]
        for k, name in enumerate((OWN, *fleet.baselines))
    ]


def problem_rows(fleet: FleetResult, most: int) -> list[dict[str, str]]:
    """Return the table of problems as text."""
    return [
        {
            "status": problem.status,
            "reason": shorten(problem.reason or STATUS_TEXT[problem.status][0], 160),
            "count": f"{problem.count:,}",
            "key_count": f"{problem.keys:,}" if problem.keys else NONE,
            "examples": join_items([shorten(key, 30) for key in problem.examples], NAMED, total=problem.keys),
            "note": STATUS_TEXT[problem.status][1],
        }
        for problem in fleet.problems[:most]
    ]

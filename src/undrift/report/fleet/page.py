"""What the page of a fleet says: sentences, cards and tables."""

from __future__ import annotations

import math
from pathlib import PurePath

import numpy as np

from undrift.baselines import BASELINES
from undrift.report.fleet.listing import Lists, error, skills
from undrift.report.page import Card
from undrift.report.words import count, listed, memory, number, percent, short
from undrift.run import KeyedRun, KeyReport
from undrift.run.tally import LONG

SECTIONS = (
    ("short", "In short"),
    ("well", "How well"),
    ("drift", "Which keys drift"),
    ("keys", "Keys"),
    ("problems", "Data problems"),
    ("about", "About"),
)
WORDS = (
    ("Key", "What tells the streams of a file apart: a device, a shop, a user. Every key has a model of its own."),
    ("Row, round", "One line of your data. Its key's model predicts the label first, then learns from it."),
    (
        "Naive guesses",
        "What needs no learning: the last value, the mean so far; for two classes the last class, and how often each "
        "came. Anything useful must beat them.",
    ),
    ("Loss saved", "How much smaller undrift's total loss was than that of the naive guess that did best on the key."),
    ("Half-life", "After so many rows, a row counts half as much as a new one. Short: the key changes fast."),
    (
        "Error lately / before",
        "The error in the last quarter of a key's rows over that in the two quarters before; above 1 it does worse.",
    ),
    ("RMSE", "Root of the mean squared error, in the units of the target; large errors count more."),
    ("Log-loss", "Mean of -ln(probability given to what came true): 0 is perfect, 0.693 is a coin toss."),
)
MEANING = {
    "poison": ("it cannot be used", "not learned; its key goes on"),
    "error": ("the model raised", "its key is as it was before; the others go on"),
    "duplicate": ("its place in the stream was taken", "dropped"),
    "late": ("its place in the stream had been given up", "dropped; a larger --wait keeps it"),
    "gap": ("numbers missing in the order of a key", "none; the key goes on"),
    "expired": ("its label never came", "let go to make room"),
}
"""What can be wrong, and what was done about it."""
NAMED = 3
"""Keys named in a sentence."""


def measure(task: str) -> str:
    """Return the name of the error."""
    return "log-loss" if task == "classification" else "typical error (RMSE)"


def source(found: KeyedRun) -> str:
    """Return the file's name without its folder."""
    return PurePath(str(found.provenance["source"]["path"])).name


def subtitle(found: KeyedRun) -> str:
    """Return what was learned from what."""
    kinds = {"regression": "a number", "classification": "one of two classes"}
    fields = found.run.fleet.fields
    return (
        f"{count(len(found.keys), 'key')} (“{short(fields.key)}”), {count(found.rounds, 'row')} of {source(found)}, "
        f"{count(len(found.features), 'feature')}, predicting {kinds[found.task]}; a model for every key."
    )


def takeaways(found: KeyedRun, by: Lists) -> list[str]:
    """Return the sentences a reader should remember."""
    return [text for text in (_better(found, by), _forgets(found, by), _turned(by), _troubled(found, by)) if text]


def _better(found: KeyedRun, by: Lists) -> str:
    saved = skills(found)
    if not len(saved):
        return "No key has enough rows to be scored yet."
    middle = float(np.median(saved))
    text = f"undrift beat the best naive guess on {np.count_nonzero(saved > 0.0):,} of {count(len(saved), 'key')}"
    much = (
        f"the middle key saved {percent(middle, 2)} of that guess's loss"
        if middle > 0.0
        else "most keys gained nothing"
    )
    behind = [one for one in by.worst if one.skill < 0.0]
    tail = f"; furthest behind: {_names(behind)}" if behind else ""
    return f"{text}; {much}{tail}."


def _forgets(found: KeyedRun, by: Lists) -> str:
    known = [one.half_life for one in found.keys if one.half_life is not None]
    if not known:
        return ""
    middle = float(np.median(known))
    length = "it never forgets" if math.isinf(middle) else f"a row counts half after {memory(middle)}"
    text = f"The middle key's memory: {length}"
    quick = [one for one in by.forgetful if one.half_life is not None and one.half_life < middle / 4.0]
    if not quick:
        return f"{text}; no key forgets far faster than that."
    share = f"{count(len(quick), 'key')} {'forgets' if len(quick) == 1 else 'forget'} more than four times as fast"
    return f"{text}; {share}: {_names(quick)}."


def _turned(by: Lists) -> str:
    worse, better = ([one for one in by.changed if side * one.change > 0.0] for side in (1, -1))
    parts = [
        f"{count(len(keys), 'key')} clearly {'does' if len(keys) == 1 else 'do'} {how} lately: {_names(keys)}"
        for keys, how in ((worse, "worse"), (better, "better"))
        if keys
    ]
    return f"{'; '.join(parts)}." if parts else ""


def _troubled(found: KeyedRun, by: Lists) -> str:
    total = sum(one.count for one in found.problems)
    if not total:
        return "No record had a problem."
    often = found.problems[0]
    text = f"{count(total, 'problem')} in the data, most often “{short(often.text, 70)}” ({often.count:,})"
    if by.troubled and by.troubled[0].problems > 1:
        text += f"; most in {', '.join(f'{short(one.key)} ({one.problems:,})' for one in by.troubled[:NAMED])}"
    failed = [one for one in found.keys if one.counts.get("error")]
    if failed:
        text += f"; the model itself failed on {count(len(failed), 'key')}: {_names(failed)}"
    return f"{text}."


def _names(keys: list[KeyReport]) -> str:
    return listed([short(one.key) for one in keys[:NAMED]] + [""] * (len(keys) - NAMED), NAMED)


def cards(found: KeyedRun, by: Lists) -> list[Card]:
    """Return the numbers to see first."""
    out = [Card("keys", f"{len(found.keys):,}", count(found.rounds, "row"))]
    saved = skills(found)
    if len(saved):
        better = f"{percent(float(np.mean(saved > 0.0)))} of keys beat naive"
        out.append(Card("loss saved (middle key)", percent(float(np.median(saved))), better))
    known = [one.half_life for one in found.keys if one.half_life is not None]
    if known:
        tenths = np.quantile(known, [0.1, 0.9], method="nearest")  # between a number and infinity there is none
        ends = " to ".join("∞" if math.isinf(h) else number(float(h), 2 if h < 100 else 3) for h in tenths)
        out.append(Card("memory (middle key)", memory(float(np.median(known))), f"most keys: {ends}"))
    worse = sum(one.change > 0.0 for one in by.changed)
    out.append(Card("worse lately", count(worse, "key"), f"better: {len(by.changed) - worse:,}"))
    total = sum(one.count for one in found.problems)
    out.append(Card("data problems", f"{total:,}", f"in {count(len(by.troubled), 'key')}"))
    return out


def notes(found: KeyedRun) -> list[str]:
    """Return what a reader should know before trusting the page."""
    out = []
    if found.left_out:
        out.append(f"Left out, as they are no numbers: {listed([short(name) for name in found.left_out])}.")
    known = sum(one.half_life is not None for one in found.keys)
    if 0 < known < len(found.keys):
        out.append(f"Memories were looked up for the {known:,} keys with most rows, not for all {len(found.keys):,}.")
    young = sum(one.scored < LONG for one in found.keys)
    if young:
        out.append(f"{count(young, 'key')} had fewer than {LONG} rows to be scored on; their numbers say little.")
    return out


def scores(found: KeyedRun) -> list[list[str]]:
    """Return a row for undrift and each naive guess: on how many keys it was best, and its error over keys."""
    scored = [one for one in found.keys if one.scored and one.naives]
    table = np.array([[error(loss / one.scored, found.task) for loss in (one.loss, *one.naives)] for one in scored])
    if not len(scored):
        return []
    best = np.argmin(table, axis=1)  # of equals the first: undrift
    return [
        [
            name,
            f"{int(np.count_nonzero(best == k)):,}",
            percent(float(np.mean(best == k))),
            *(number(float(q)) for q in np.quantile(table[:, k], [0.1, 0.5, 0.9])),
        ]
        for k, name in enumerate(("undrift", *BASELINES[found.task]))
    ]


def problems(found: KeyedRun, most: int) -> list[dict[str, str]]:
    """Return the table of problems as text."""
    return [
        {
            "status": one.status,
            "reason": short(one.reason or MEANING[one.status][0], 160),
            "count": f"{one.count:,}",
            "spread": f"{one.keys:,}" if one.keys else "-",
            "examples": listed([short(key, 30) for key in one.examples] + [""] * (one.keys - len(one.examples)), NAMED),
            "note": MEANING[one.status][1],
        }
        for one in found.problems[:most]
    ]

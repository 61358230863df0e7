"""What the page says: sentences, cards and tables, ready for the template."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from undrift.report.axis import Clock, texts
from undrift.report.curves import Sheet
from undrift.report.memory import typical
from undrift.report.proven import TERMS, Proof, explained, leading, more, verdict
from undrift.report.scores import Score, best_baseline, compared, headline
from undrift.report.words import NONE, count, listed, memory, number, percent, short
from undrift.run import RunData

MEASURES = {
    "rmse": "typical error (RMSE)",
    "mae": "mean error (MAE)",
    "r2": "variance explained (R²)",
    "log_loss": "log-loss",
    "accuracy": "right (accuracy)",
    "brier": "Brier score",
}
SHARES = ("r2", "accuracy")
"""Measures shown as percentages."""
WORDS = (
    ("Row, round", "One line of your data. undrift predicts its label first, then learns from it."),
    (
        "Baselines",
        "Naive guesses that need no learning, such as repeating the last value. Anything useful must beat them.",
    ),
    ("Half-life", "After so many rows, a row counts half as much as a new one. Short: the data changes fast."),
    ("Regret", "undrift's total loss minus that of a rival who was chosen afterwards, knowing every label."),
    ("Certificate", "A proof, computed for this very run, that the regret could not exceed a number."),
    ("RMSE", "Root of the mean squared error, in the units of the target; large errors count more."),
    ("Log-loss", "Mean of -ln(probability given to what came true): 0 is perfect, 0.693 is a coin toss."),
    (
        "Brier score",
        "Mean squared distance between the predicted chance and what came: 0 is perfect, 0.25 a coin toss.",
    ),
)


@dataclass(frozen=True)
class Card:
    """One number with its name."""

    label: str
    """What it is."""
    value: str
    """The number."""
    note: str
    """What to hold it against."""


def subtitle(data: RunData, clock: Clock) -> str:
    """Return what was run on what."""
    kinds = {"regression": "a number", "classification": "one of two classes"}
    text = (
        f"{count(data.rounds, 'row')} of {source(data)}, {count(len(data.features), 'feature')}, predicting "
        f"{kinds[data.task]}"
    )
    if data.classes:
        text += f" ({short(data.classes[0])} or {short(data.classes[1])})"
    if clock.time is not None:
        first, last = texts(clock.time[[0, -1]])
        text += f", {first[:10]} to {last[:10]}"
    return text + "."


def source(data: RunData) -> str:
    """Return the source's name without its folder."""
    given = data.provenance.get("source")
    path = given.get("path") if isinstance(given, Mapping) else given
    return PurePath(str(path)).name if path else "the source"


def takeaways(data: RunData, clock: Clock, table: list[Score], found: list[Proof], sheets: Sheet) -> list[str]:
    """Return the sentences a reader should remember."""
    out = [_beats(data, table)]
    lead = leading(found)
    if lead is not None:
        text = verdict(lead)
        regret = lead.above(lead.regret)
        known = f", in total loss; measured, it lost {more(regret)}" if math.isfinite(regret) else ""
        out.append(f"{capital(text)}{known}.")
    if sheets.get("spectrum") is not None:
        out.append(_forgets(data, clock, sheets["spectrum"]))
    if sheets.get("intervals") is not None:
        part = sheets["intervals"]
        out.append(
            f"Its {percent(part['level'])} intervals, given beforehand, held {percent(part['measured'])} of the true "
            "values."
        )
    if sheets.get("calibration") is not None:
        out.append(f"Its probabilities were off by {percent(sheets['calibration']['gap'], 2)} on average.")
    return out


def _beats(data: RunData, table: list[Score]) -> str:
    own, best = table[0], best_baseline(data, table)
    key = headline(data.task)
    name = {"rmse": f"typical error in “{short(data.target)}”", "log_loss": "log-loss"}[key]
    text = f"undrift's {name} was {number(own.measures[key])}"
    if best is None:
        return text + "."
    mine, theirs = own.measures[key], best.measures[key]
    if theirs == 0.0 or not math.isfinite(mine / theirs):
        return f"{text}; the naive guess “{best.name}” had {number(theirs)}."
    how = compared(mine, theirs)
    if how.startswith("about"):
        return f"{text}, {how} the best naive guess, “{best.name}”: nothing better was found in this data."
    return f"{text}: {how} the best naive guess, “{best.name}” ({number(theirs)})."


def _forgets(data: RunData, clock: Clock, sheet: Sheet) -> str:
    half = typical(data.half_lives, data.spectrum)
    if math.isinf(half):
        text = "This data hardly forgets: old rows help as much as new ones"
    else:
        text = f"The memory it found best: a row counts half after {memory(half, clock.seconds)}"
    changed = len(sheet["changes"])
    return (
        f"{text}; that changed {'once' if changed == 1 else f'{changed} times'} on the way." if changed else f"{text}."
    )


def cards(data: RunData, clock: Clock, table: list[Score], found: list[Proof], sheets: Sheet) -> list[Card]:
    """Return the numbers to see first."""
    own, best = table[0], best_baseline(data, table)
    key = headline(data.task)
    against = f"{best.name}: {number(best.measures[key])}" if best else ""
    out = [Card(MEASURES[key], number(own.measures[key]), against)]
    if data.task == "classification":
        beside = f"{best.name}: {percent(best.measures['accuracy'])}" if best else ""
        out.append(Card("right (accuracy)", percent(own.measures["accuracy"]), beside))
    elif math.isfinite(own.measures["r2"]):
        beside = f"{best.name}: {percent(best.measures['r2'])}" if best else ""
        out.append(Card("variance explained (R²)", percent(own.measures["r2"]), beside))
    lead = leading(found)
    share = math.inf if lead is None else lead.above(lead.bound)
    if lead is not None and math.isfinite(share):
        word = "certified within" if share >= 0.0 else "certified better by"
        out.append(Card(word, percent(abs(share)), f"of {lead.rival}" if share >= 0.0 else f"than {lead.rival}"))
    if sheets.get("spectrum") is not None:
        text, _, about = memory(typical(data.half_lives, data.spectrum), clock.seconds).partition(" (")
        out.append(Card("memory (half-life)", text, about.rstrip(")") or "until a row counts half"))
    if sheets.get("intervals") is not None:
        part = sheets["intervals"]
        out.append(Card("inside the interval", percent(part["measured"]), f"{percent(part['level'])} promised"))
    return out


def changes(clock: Clock, sheet: Sheet | None) -> list[str]:
    """Return where the memory changed, in words."""
    return [
        f"Around {clock.moment(c['round'])} the memory {'shortened' if c['after'] < c['before'] else 'lengthened'} "
        f"from {memory(c['before'], clock.seconds)} to {memory(c['after'], clock.seconds)}."
        for c in (sheet["changes"] if sheet else [])
    ]


def score_rows(table: list[Score]) -> list[list[str]]:
    """Return the table of scores as text."""
    return [
        [
            one.name,
            *(percent(v) if k in SHARES else number(v, 4) for k, v in one.measures.items()),
            number(one.total, 4),
        ]
        for one in table
    ]


def proof_rows(found: list[Proof]) -> list[list[str]]:
    """Return the table of certificates as text: a row for each quantity, a column for each rival."""
    given = [one for one in found if one.refused is None]
    if not given:
        return []
    rows: dict[str, list[float]] = {
        "rival's loss": [one.rival_loss for one in given],
        "undrift's loss": [one.own_loss for one in given],
        "regret (measured)": [one.regret for one in given],
        "bound (proven)": [one.bound for one in given],
    }
    rows |= {f"… {words}": [one.terms[term] for one in given] for term, words in TERMS.items()}
    sizes = [1e-9 * (abs(one.rival_loss) + abs(one.own_loss)) for one in given]
    return [
        [name, *(number(value if abs(value) > size else 0.0, 4) for value, size in zip(values, sizes, strict=True))]
        for name, values in rows.items()
    ]


def proof_head(found: list[Proof]) -> list[dict[str, str]]:
    """Return the columns of that table."""
    return [{"name": one.name, "rival": one.rival, "leaf": one.leaf} for one in found if one.refused is None]


def refusals(found: list[Proof]) -> list[str]:
    """Return why certificates are missing."""
    return [f"{capital(one.rival)}: {one.refused}" for one in found if one.refused is not None]


def capital(text: str) -> str:
    """Return text with a capital first letter."""
    return text[:1].upper() + text[1:]


def problem_rows(data: RunData) -> list[dict[str, str]]:
    """Return the table of problems as text."""
    return [
        {
            "kind": str(one.get("kind", "")),
            "column": str(one.get("column") or NONE),
            "count": f"{one['count']:,}" if one.get("count") is not None else NONE,
            "lines": _lines(one),
            "note": str(one.get("note") or ""),
        }
        for one in data.problems
    ]


def _lines(one: Mapping[str, Any]) -> str:
    lines = [f"{n:,}" for n in one.get("lines") or ()]
    more = (one.get("count") or 0) > len(lines)
    return listed(lines) + (" …" if more and len(lines) <= 6 else "") if lines else NONE


def about(data: RunData) -> list[tuple[str, str]]:
    """Return settings and provenance, flat."""
    return [*flat(data.provenance), *flat(data.settings, "setting: ")]


def flat(words: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Return words inside words as names and texts."""
    out: list[tuple[str, str]] = []
    for key, value in words.items():
        if isinstance(value, Mapping):
            out += flat(value, f"{before}{key}: ")
        elif isinstance(value, (list, tuple)):
            out.append((f"{before}{key}", listed([str(item) for item in value], 20)))
        else:
            out.append((f"{before}{key}", NONE if value is None else str(value)))
    return out


def proven(found: list[Proof], rounds: int) -> tuple[str, str, list[str]]:
    """Return the verdict to quote and its explanation, empty when every certificate was refused, and the others."""
    lead = leading(found)
    if lead is None:
        return "", "", []
    others = [
        f"{capital(verdict(one))} (measured: {more(one.above(one.regret))})."
        for one in found
        if one.refused is None and one is not lead
    ]
    return capital(verdict(lead)) + ".", explained(lead, rounds), others

"""What the page of a run says: sentences, cards and tables, ready for the template."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from undrift.metrics import LEADING
from undrift.report.certificate_text import CertificateSummary, choose_leading, comparison, proof
from undrift.report.figures.figure import Numbers
from undrift.report.formatting import NONE, capitalize, join_items, join_words, number, percent, plural, shorten
from undrift.report.half_life import memory_length
from undrift.report.run_context import COMMON, ClassRounds, RunContext, iso_times
from undrift.report.scores import SCORE_TITLES, Score, best_baseline, compare_errors
from undrift.run import RunData
from undrift.stream.task import name_classes

SHARES = ("r2", "accuracy")
"""Scores shown as percentages."""
TASKS = {"regression": "a number", "classification": "one of two classes", "multiclass": "one of several classes"}
"""What a task predicts, in words."""
GLOSSARY = {
    "Row, round": "One line of your data. undrift predicts its label first, then learns from it.",
    "Baselines": "Naive guesses that need no learning, such as repeating the last value. Anything useful must beat "
    "them.",
    "Half-life": "After so many rows (with --elapsed: after so much time), a row counts half as much as a new one. "
    "Short: the data changes fast.",
    "Regret": "undrift's total loss minus that of a rival who was chosen afterwards, knowing every label.",
    "Certificate": "A proof, computed for this very run, that the regret could not exceed a number: against every "
    "rival of a kind with coefficients no larger, once the run is over, and by what the method promises beforehand.",
    "RMSE": "Root of the mean squared error, in the units of the target; large errors count more.",
    "Log-loss": "Mean of -ln(probability given to what came true): 0 is perfect, 0.693 is a coin toss.",
    "Recall, precision": "Of the rows of a class, the part that was predicted as such; of the rows predicted as a "
    "class, the part in which it came. F1 is between both.",
    "ROC": "What part of a class a threshold finds, against its false alarms. The area under it is 1 if every row of "
    "the class has a higher chance than every other row, 0.5 for a coin.",
    "Brier score": "Mean squared distance between the predicted chance and what came: 0 is perfect, 0.25 a coin toss.",
}
"""Words of the page, explained at its end."""


@dataclass(frozen=True)
class Card:
    """One number with its name."""

    label: str
    """What it is."""
    value: str
    """The number."""
    note: str
    """What to hold it against."""


def subtitle(run: RunContext) -> str:
    """Return what was run on what."""
    data = run.data
    what = TASKS[data.task] if data.classes is None else name_classes([shorten(one) for one in data.classes])
    features = plural(len(data.features), "feature")
    text = f"{plural(data.rounds, 'row')} of {source_name(data)}, {features}, predicting {what}"
    if run.timeline.time is not None:
        first, last = iso_times(run.timeline.time[[0, -1]])
        text += f", {first[:10]} to {last[:10]}"
    return text + "."


def source_name(data: RunData) -> str:
    """Return the names of what was learned, files without their folders."""
    names = list(dict.fromkeys(PurePath(entry["path"]).name for entry in data.learned))
    return join_items(names, 3) if names else "the source"


def predicted_rows(data: RunData) -> str:
    """Return how many rows were predicted, and why some were not."""
    count = int(np.count_nonzero(data.predicted))
    first = plural(data.rounds - count, "row")
    return plural(count, "row") + (f", all but the first {first.removeprefix('1 ')}" if count < data.rounds else "")


def takeaways(run: RunContext, scores: list[Score], numbers: Numbers) -> list[str]:
    """Return the sentences a reader should remember."""
    sentences = [error_sentence(run.data, scores)]
    if numbers["spectrum"]:
        sentences.append(_memory_sentence(run, numbers["spectrum"]["changes"]))
    intervals, calibration = numbers["intervals"], numbers["calibration"]
    if intervals:
        sentences.append(
            f"Its {percent(intervals['level'])} intervals, given beforehand, held {percent(intervals['measured'])} of "
            "the true values."
        )
    if run.several and run.class_rounds is not None:
        sentences.extend(_class_sentence(run.class_rounds))
    if calibration:
        sentences.append(f"Its probabilities were off by {percent(calibration['gap'], 2)} on average.")
    leading = choose_leading(run.certificates)
    if leading is not None:
        sentences.append(f"{capitalize(comparison(leading))}. Proven: {proof(leading)}.")
    return sentences


def _class_sentence(found: ClassRounds) -> list[str]:
    """Return how often the most likely class came, and which class was found least often."""
    came = found.counts.sum(axis=1)
    common = [k for k in range(len(found.names)) if came[k] >= COMMON]
    if not common:
        return []
    worst = min(common, key=lambda k: float(found.recall[k]))
    right, found_part = percent(float(np.mean(found.yhat == found.y))), percent(float(found.recall[worst]))
    return [
        f"The class it thought most likely came in {right} of rows; hardest to find was "
        f"“{shorten(found.names[worst])}” ({found_part} of its {number(float(came[worst]), 6)} rows)."
    ]


def error_sentence(data: RunData, scores: list[Score]) -> str:
    """Return the run's error beside that of the best baseline."""
    score = LEADING[data.task]
    mine, best = scores[0].measures[score], best_baseline(scores)
    name = "log-loss" if data.classes else f"typical error in “{shorten(data.target)}”"
    text = f"undrift's {name} was {number(mine)}"
    if best is None:
        return text + "."
    theirs = best.measures[score]
    if theirs == 0.0 or not math.isfinite(mine / theirs):
        return f"{text}; the naive guess “{best.name}” had {number(theirs)}."
    compared = compare_errors(mine, theirs)
    if compared.startswith("about"):
        return f"{text}, {compared} the best naive guess, “{best.name}”: nothing better was found in this data."
    return f"{text}: {compared} the best naive guess, “{best.name}” ({number(theirs)})."


def _memory_sentence(run: RunContext, changes: list[Mapping[str, Any]]) -> str:
    length = memory_length(run.data.half_lives, run.data.spectrum)
    if math.isinf(length.average):
        text = "This data hardly forgets: old rows help as much as new ones"
    else:
        text = f"The memory it found best: a row counts half after {length.words(run.memory_text)}"
    jumps = [run.timeline.round_text(change["round"]) for change in changes if change["jump"]]
    if jumps:
        return f"{text}; the data changed around {join_words(jumps)}."
    times = "once" if len(changes) == 1 else f"{len(changes)} times"
    return f"{text}; that changed {times} on the way." if changes else f"{text}."


def cards(run: RunContext, scores: list[Score], numbers: Numbers) -> list[Card]:
    """Return the numbers to see first."""
    own, best = scores[0].measures, best_baseline(scores)

    def score_card(score: str) -> Card:
        text = percent if score in SHARES else number
        return Card(SCORE_TITLES[score], text(own[score]), f"{best.name}: {text(best.measures[score])}" if best else "")

    shown = ["rmse", "r2"] if run.numbers else ["log_loss", "accuracy"]
    found = [score_card(score) for score in shown if score != "r2" or math.isfinite(own["r2"])]
    if numbers["spectrum"]:
        length = memory_length(run.data.half_lives, run.data.spectrum)
        text, _, note = run.memory_text(length.average).partition(" (")
        if length.late is not None:
            note = f"on average; {run.memory_text(length.late)} lately"
        found.append(Card("memory (half-life)", text, note.rstrip(")") or "until a row counts half"))
    intervals = numbers["intervals"]
    if intervals:
        promised = f"{percent(intervals['level'])} promised"
        found.append(Card("inside the interval", percent(intervals["measured"]), promised))
    leading = choose_leading(run.certificates)
    return found if leading is None else [*found, *_proof_card(leading)]


def _proof_card(one: CertificateSummary) -> list[Card]:
    """Return the loss beside that of a rival who knew every label, and what is proven about it."""
    share, limit = one.relative(one.regret), min(one.relative(one.bound), one.proven)
    if not math.isfinite(share):
        return []
    proven = f"; proven: at {'most' if share >= 0.0 else 'least'} {percent(abs(limit))}"
    note = f"who knew every label{proven if (share >= 0.0) == (limit >= 0.0) else ''}"
    return [Card(f"loss {'above' if share >= 0.0 else 'below'} a rival's", percent(abs(share)), note)]


def memory_changes(run: RunContext, spectrum: Numbers | None) -> list[str]:
    """Return where the memory changed, in words: jumps first, at which the data themselves changed."""
    changes = spectrum["changes"] if spectrum else []
    return [_change_sentence(run, change) for change in sorted(changes, key=lambda change: not change["jump"])]


def _change_sentence(run: RunContext, change: Mapping[str, Any]) -> str:
    """Return one change of the memory as a sentence."""
    where = run.timeline.round_text(change["round"])
    verb = "shortened" if change["after"] < change["before"] else "lengthened"
    lengths = f"{verb} from {run.memory_text(change['before'])} to {run.memory_text(change['after'])}"
    if change["jump"]:
        return f"The data changed around {where}: the memory {lengths}."
    return f"Around {where} the memory {lengths}."


def score_columns(scores: list[Score]) -> list[str]:
    """Return the titles of the table of scores."""
    return ["Predictor", *(SCORE_TITLES[score] for score in scores[0].measures), "total loss"]


def score_rows(scores: list[Score]) -> list[list[str]]:
    """Return the table of scores as text."""
    return [
        [
            one.name,
            *(percent(x) if score in SHARES else number(x, 4) for score, x in one.measures.items()),
            number(one.total, 4),
        ]
        for one in scores
    ]


def problem_rows(data: RunData) -> list[dict[str, str]]:
    """Return the table of problems as text."""
    return [
        {
            "kind": str(problem.get("kind", "")),
            "column": str(problem.get("column") or NONE),
            "count": f"{problem['count']:,}" if problem.get("count") is not None else NONE,
            "lines": _line_numbers(problem),
            "note": str(problem.get("note") or ""),
        }
        for problem in data.problems
    ]


def event_rows(run: RunContext, count: int) -> list[dict[str, str]] | None:
    """Return the first events as text, with their times; None if nobody looked."""
    if run.data.events is None:
        return None
    rows = []
    for event in run.data.events[:count]:
        row = {"line": f"{event['row']:,}", "kind": str(event["kind"]), "sentence": str(event["sentence"]), "time": ""}
        if run.timeline.time is not None:
            at = min(int(np.searchsorted(run.data.line, event["row"])), run.data.rounds - 1)
            row["time"] = iso_times(run.timeline.time[at : at + 1])[0][:16].replace("T", " ")
        rows.append(row)
    return rows


def _line_numbers(problem: Mapping[str, Any]) -> str:
    """Return the first lines of a problem; dots say that there are more than are stored."""
    lines = [f"{n:,}" for n in problem.get("lines") or ()]
    if not lines:
        return NONE
    more = (problem.get("count") or 0) > len(lines) and len(lines) <= 6
    return join_items(lines) + (" …" if more else "")


MOST_LEARNED = 20
"""Files of the ledger that a report names."""


def ledger_pairs(learned: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return what was learned as pairs of a name and a text: all about a single file, or rows and path of each."""
    if len(learned) == 1:
        return flatten({name: value for name, value in learned[0].items() if name != "earlier"}, "learned: ")
    files = [f"{entry['path']} ({plural(entry['rows'], 'row')})" for entry in learned]
    return [("learned", join_items(files, MOST_LEARNED))]


def flatten(nested: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return settings inside settings as pairs of a name and a text."""
    pairs: list[tuple[str, str]] = []
    for key, value in nested.items():
        if isinstance(value, Mapping):
            pairs += flatten(value, f"{prefix}{key}: ")
        elif isinstance(value, (list, tuple)):
            pairs.append((f"{prefix}{key}", join_items([str(item) for item in value], 20)))
        else:
            pairs.append((f"{prefix}{key}", NONE if value is None else str(value)))
    return pairs

"""A run in a few lines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from undrift.run import RunData


NOT_INFORMATIVE = 9.0
"""A rival that loses so many times less, nothing but rounding perhaps, is not worth a line."""


def summary_lines(run: RunData, facts: Mapping[str, Any]) -> list[str]:
    """Return what someone who never heard of us should know about a run."""
    from undrift.run.prepare.task import name_classes

    what = "a number" if run.classes is None else name_classes(run.classes)
    source = Path(run.provenance["source"]["path"]).name
    out = [
        f"Predicted '{run.target}' ({what}) {run.predicted.sum():,} times in {source}, each time before it was known.",
        _quality(run),
        _memory(run),
        _jumps(run),
        _certificate(run),
    ]
    if run.problems:
        count = len(run.problems)
        found = f"{count} thing{'s' if count > 1 else ''} about the data to look at: {_problems(run.problems)}."
        out.append(found)
    folder = f"{facts['folder']}/ has predictions.parquet, model.undrift and run.json"
    out.append(f"Report: {facts['report']} ({folder})" if facts["report"] else f"{folder}.")
    return [line for line in out if line]


def _quality(run: RunData) -> str:
    """Return how far off it was, by the measure that leads in the report too."""
    from undrift.metrics import LEADING, coverage, interval_pinball
    from undrift.report.formatting import number, percent
    from undrift.report.scores import best_baseline, compare_errors, score_predictors

    if not run.rounds:
        return ""
    table, key = score_predictors(run), LEADING[run.task]
    own, best = table[0].measures, best_baseline(table)
    text = f"{'Typical error (RMSE)' if run.classes is None else 'Log-loss'} {number(own[key])}"
    if best is not None and best.measures[key] > 0.0:
        text += f", {compare_errors(own[key], best.measures[key])} the best naive guess"
        text += f" ('{best.name}': {number(best.measures[key])})"
    if run.lower is None or run.upper is None:
        return f"{text}; it named the right class in {percent(own['accuracy'])} of rows."
    inside = coverage(run.lower, run.upper, run.y)
    mean = f"; mean absolute error {number(own['mae'])}"
    loss = interval_pinball(run.lower, run.upper, run.y, level=0.9)
    ends = f" (pinball loss of its ends {number(loss)})" if math.isfinite(loss) else ""
    return f"{text}{mean}; {inside:.1%} of values lay in their 90% interval{ends}."


def _memory(run: RunData) -> str:
    """Return how much of the past mattered: the half-life of the weights averaged over the run, as in the report."""
    from undrift.report.formatting import half_life_text
    from undrift.report.half_life import memory_length

    if not len(run.spectrum) or len(run.half_lives) < 2:
        return ""
    length = memory_length(run.half_lives, run.spectrum)
    if math.isinf(length.average):
        return "Memory it found best: all of the past; nothing here is forgotten."
    text = length.words(lambda half_life: half_life_text(half_life, unit=run.memory_unit))
    return f"Memory it found best: an observation counts half after about {text}."


def _jumps(run: RunData) -> str:
    """Return where memory shortened at once, unless --alert has told what changed."""
    from undrift.report.formatting import join_words
    from undrift.report.half_life import find_changes

    if run.events is not None or not len(run.spectrum):
        return ""
    changes = find_changes(run.spectrum_round, run.half_lives, run.spectrum)
    rows = [f"{change.round:,}" for change in changes if change.jump]
    if not rows:
        return ""
    where = f"row{'s' if len(rows) > 1 else ''} {join_words(rows)}"
    return f"The data changed around {where}; --alert tells such things on the way."


def _certificate(run: RunData) -> str:
    """Return the comparison with the rival that the report leads with, and what is proven beyond it."""
    from undrift.report.certificate_text import choose_leading, comparison, proof, summarize_certificates
    from undrift.report.formatting import capitalize

    one = choose_leading(summarize_certificates(run))
    if one is None or one.relative(min(one.bounds)) >= NOT_INFORMATIVE:
        return ""
    return f"{capitalize(comparison(one))}. Proven: {proof(one)}."


def _problems(problems: Any) -> str:
    shown = [f"{one['kind']}{'' if one['column'] is None else ' ' + repr(one['column'])}" for one in problems[:3]]
    return ", ".join(shown) + (f" and {len(problems) - 3} more" if len(problems) > 3 else "")

"""`render_comparison`: two or more runs on the same rows, on one page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from undrift.report.figures.registry import COMPARISON_FIGURES, make_figures
from undrift.report.formatting import NONE, join_items, number, percent, plural
from undrift.report.html_file import write_page
from undrift.report.run_text import SHARES
from undrift.report.scores import SCORE_TITLES
from undrift.run import RunsComparison

SECTIONS = {"short": "In short", "well": "How well", "about": "About"}
GLOSSARY = {
    "difference": "The mean loss of a run minus that of the first one; below 0 it is better.",
    "standard error": "How far a difference may be off by chance. More than two of them are hard to explain by chance.",
    "inside the interval": "Part of the true values that lay in the 90% interval given beforehand.",
}


def render_comparison(found: RunsComparison, out: str | os.PathLike[str]) -> Path:
    """Write the page of several runs and return its path."""
    measured, figures = make_figures(COMPARISON_FIGURES, found, SECTIONS)
    names = join_items([run.name for run in found.runs], 4)
    content: dict[str, Any] = {
        "target": found.target,
        "subtitle": f"{names}: {plural(found.rows, 'row')} that all of them predicted",
        "has_time": measured["compared"] is not None and measured["compared"]["axis"]["time"] is not None,
        "sections": list(SECTIONS.items()),
        "takeaways": comparison_sentences(found),
        "cards": [],
        "notes": [],
        "figures": figures,
        "columns": comparison_columns(found),
        "rows": comparison_rows(found),
        "about": [(f"run {k}", run.name) for k, run in enumerate(found.runs, 1)],
        "glossary": GLOSSARY,
    }
    numbers = {"format": 1, "rows": found.rows, "runs": [run.facts() for run in found.runs], **measured}
    return write_page(out, "comparison.html", content, numbers, figures)


def comparison_sentences(found: RunsComparison) -> list[str]:
    """Return what to remember: of each run but the first, whether it is better."""
    first = found.runs[0]
    mean = float(first.losses.mean())
    out = []
    for run in found.runs[1:]:
        share = f"{percent(abs(run.difference) / mean)} " if mean > 0.0 else ""
        if not run.differs:
            out.append(
                f"{run.name} and {first.name} cannot be told apart: their losses differ by less than chance explains."
            )
        else:
            out.append(
                f"{run.name} lost {share}{'less' if run.difference < 0.0 else 'more'} than {first.name}; chance alone "
                "hardly explains that."
            )
    return out


def comparison_columns(found: RunsComparison) -> list[str]:
    """Return the titles of the table."""
    scores = [SCORE_TITLES[score] for score in found.runs[0].scores]
    inside = ["inside the interval"] if any(run.coverage is not None for run in found.runs) else []
    return ["Run", *scores, "loss minus the first", "standard error", *inside, "seconds"]


def comparison_rows(found: RunsComparison) -> list[list[str]]:
    """Return the table as text."""
    covered = any(run.coverage is not None for run in found.runs)
    return [
        [
            run.name,
            *(percent(x) if score in SHARES else number(x, 4) for score, x in run.scores.items()),
            number(run.difference) if k else NONE,
            number(run.error) if k else NONE,
            *([NONE if run.coverage is None else percent(run.coverage)] if covered else []),
            NONE if run.seconds is None else number(run.seconds),
        ]
        for k, run in enumerate(found.runs)
    ]

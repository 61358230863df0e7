"""`render`: the report of a run."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from undrift.errors import InputError
from undrift.report import certificate_text, run_text
from undrift.report.figures import contributions, data_drift
from undrift.report.figures.figure import Figure
from undrift.report.figures.registry import RUN_FIGURES, make_figures
from undrift.report.formatting import capitalize
from undrift.report.html_file import CALLER, write_page
from undrift.report.run_context import CLASS_COLUMNS, make_context
from undrift.report.scores import score_predictors
from undrift.run import RunData

SECTIONS = {
    "short": "In short",
    "well": "How well",
    "memory": "Memory",
    "changed": "What changed",
    "drift": "Then and now",
    "moves": "What matters",
    "trust": "Trust",
    "problems": "Data problems",
    "proven": "Proven",
    "about": "About",
}
"""The sections of the page by their ids, in order; those that hold nothing but figures may be missing."""
OPTIONAL = ("memory", "drift", "moves", "trust")
"""Sections that are left out when none of their figures is drawn."""
MOST_EVENTS = 200
"""Events that are listed; events.jsonl has them all."""


def render(data: RunData, out: str | os.PathLike[str]) -> Path:
    """Write the report of a run and return its path.

    Parameters
    ----------
    data
        What `undrift.run.read_run` returns.
    out
        The file to write; it appears whole or not at all.

    Notes
    -----
    The same run gives the same bytes. Whatever the length of the run, no curve has more than 1000 points.
    """
    if not data.rounds:
        raise InputError(
            f"{CALLER}: the run has no finished rows, so there is nothing to show; run it on labelled rows"
        )
    run = make_context(data)
    scores = score_predictors(data)
    measured, figures = make_figures(RUN_FIGURES, run, SECTIONS)
    warning, reasons = run.timeline.warning, certificate_text.select_reasons(data.notes)
    notes = [note for note in data.notes if note not in reasons]  # which stand where the proof would be
    content: dict[str, Any] = {
        "target": data.target,
        "subtitle": run_text.subtitle(run),
        "source": run_text.source_name(data),
        "predicted": run_text.predicted_rows(data),
        "has_time": run.timeline.time is not None,
        "sections": [(key, name) for key, name in SECTIONS.items() if _is_shown(key, data, figures)],
        "takeaways": run_text.takeaways(run, scores, measured),
        "cards": run_text.cards(run, scores, measured),
        "notes": notes + ([f"{capitalize(warning)}."] if warning else []),
        "score_columns": run_text.score_columns(scores),
        "scores": run_text.score_rows(scores),
        "class_columns": CLASS_COLUMNS,
        "class_scores": [] if run.class_rounds is None else run.class_rounds.table(),
        "figures": figures,
        "changes": run_text.memory_changes(run, measured["spectrum"]),
        "events": run_text.event_rows(run, MOST_EVENTS),
        "more_events": max(0, len(data.events or ()) - MOST_EVENTS),
        "loss": run.loss_name,
        "certificates": certificate_text.section_text(run.certificates, data),
        "coefficients": contributions.table_rows(measured["coefficients"]),
        "coefficient_count": measured["coefficients"]["features"] if measured["coefficients"] else 0,
        "drift": data_drift.table_rows(measured["drift"]),
        "drift_count": measured["drift"]["features"] if measured["drift"] else 0,
        "problems": run_text.problem_rows(data),
        "about": [
            *run_text.flatten(data.provenance),
            *run_text.ledger_pairs(data.learned),
            *run_text.flatten(data.settings, "setting: "),
        ],
        "glossary": run_text.GLOSSARY,
    }
    numbers = {
        "format": 1,
        "task": data.task,
        "target": data.target,
        "features": list(data.features),
        "classes": list(data.classes) if data.classes else None,
        "rounds": data.rounds,
        "provenance": data.provenance,
        "learned": list(data.learned),
        "settings": data.settings,
        "scores": [asdict(score) for score in scores],
        "certificates": list(data.certificates),
        "problems": list(data.problems),
        "events": None if data.events is None else list(data.events),
        "notes": list(data.notes),
        **measured,
    }
    return write_page(out, "run.html", content, numbers, figures)


def _is_shown(section: str, data: RunData, figures: dict[str, list[Figure]]) -> bool:
    if section == "changed":
        return data.events is not None
    return section not in OPTIONAL or bool(figures[section])

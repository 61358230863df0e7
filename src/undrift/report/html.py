"""`render`: the report of a run."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from undrift.errors import InputError
from undrift.report import curves, figures, page
from undrift.report.axis import clock as clock_of
from undrift.report.curves import Sheet
from undrift.report.document import WHO, publish
from undrift.report.proven import proofs
from undrift.report.scores import scores
from undrift.report.words import count, number
from undrift.run import RunData


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
        raise InputError(f"{WHO}: the run has no finished rows, so there is nothing to show; run it on labelled rows")
    numbers, drawn, words = _content(data)
    return publish(out, "report.html", words, numbers, drawn)


def _content(data: RunData) -> tuple[Sheet, list[figures.Figure], Sheet]:
    """Return the numbers, the figures and the words of the page."""
    clock = clock_of(data)
    table, found = scores(data), proofs(data)
    classify = data.task == "classification"
    sheets: dict[str, Any] = {
        "loss": curves.loss_curves(data, clock),
        "recent": curves.recent(data, clock),
        "whole": curves.whole(data, clock),
        "spectrum": curves.spectrum(data, clock),
        "candidates": curves.candidates(data, clock),
        "coefficients": curves.coefficients(data, clock),
        "calibration": curves.calibration(data) if classify else None,
        "intervals": curves.intervals(data, clock),
    }
    loss, memory, coef = sheets["loss"], sheets["spectrum"], sheets["coefficients"]
    groups: dict[str, list[figures.Figure | None]] = {
        "well": [
            figures.predictions(data, sheets["recent"], sheets["whole"]),
            figures.rolling(data, loss),
            figures.cumulative(data, loss),
        ],
        "memory": [
            memory and figures.spectrum(memory, clock),
            sheets["candidates"] and figures.candidates(sheets["candidates"]),
        ],
        "proven": [figures.certificates(found)],
        "moves": [coef and figures.coefficients(coef, classify)],
        "trust": [
            sheets["calibration"] and figures.calibration(data, sheets["calibration"]),
            sheets["intervals"] and figures.intervals(data, sheets["intervals"]),
        ],
    }
    shown = {key: [figure for figure in group if figure] for key, group in groups.items()}
    text, meaning, others = page.proven(found, data.rounds)
    words = {
        "target": data.target,
        "subtitle": page.subtitle(data, clock),
        "source": page.source(data),
        "rounds": count(data.rounds, "row"),
        "has_time": clock.time is not None,
        "sections": _sections(shown),
        "takeaways": page.takeaways(data, clock, table, found, sheets),
        "cards": page.cards(data, clock, table, found, sheets),
        "notes": [*data.notes, *([page.capital(clock.doubt) + "."] if clock.doubt else [])],
        "measures": [*(page.MEASURES[key] for key in table[0].measures), "total loss"],
        "scores": page.score_rows(table),
        "figures": shown,
        "changes": page.changes(clock, memory),
        "verdict": text,
        "explained": meaning,
        "others": others,
        "loss": "log-loss" if classify else "squared error / 2",
        "rivals": page.proof_head(found),
        "refusals": page.refusals(found),
        "proofs": page.proof_rows(found),
        "coefficients": [
            [row["name"], *(number(row[key]) for key in ("first", "lowest", "highest", "last"))]
            for row in (coef["table"] if coef else [])
        ],
        "coefficient_count": coef["features"] if coef else 0,
        "problems": page.problem_rows(data),
        "about": page.about(data),
        "words": page.WORDS,
    }
    numbers = {
        "format": 1,
        "task": data.task,
        "target": data.target,
        "features": list(data.features),
        "classes": list(data.classes) if data.classes else None,
        "rounds": data.rounds,
        "provenance": data.provenance,
        "settings": data.settings,
        "scores": [asdict(one) for one in table],
        "certificates": list(data.certificates),
        "problems": list(data.problems),
        "notes": list(data.notes),
        **sheets,
    }
    return numbers, [one for group in shown.values() for one in group], words


def _sections(shown: dict[str, list[figures.Figure]]) -> list[tuple[str, str]]:
    names = {
        "short": "In short",
        "well": "How well",
        "memory": "Memory",
        "proven": "Proven",
        "moves": "Coefficients",
        "trust": "Trust",
        "problems": "Data problems",
        "about": "About",
    }
    return [(key, name) for key, name in names.items() if shown.get(key, True) or key == "proven"]

"""`render`: one HTML file, no network, nothing in it but words, numbers and two scripts whose digests it states."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undrift import __version__, store
from undrift.errors import InputError
from undrift.report import curves, figures, page
from undrift.report.axis import clock as clock_of
from undrift.report.proven import proofs
from undrift.report.scores import scores
from undrift.report.words import count, number
from undrift.run import RunData
from undrift.run.directory import writing
from undrift.run.extras import extra

if TYPE_CHECKING:
    from markupsafe import Markup

WHO = "report"
EARLY = (
    'document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";'
)
"""Chooses the theme before anything is drawn."""


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
    path = Path(out)
    text = _html(data)
    with writing(path.parent):
        store.replace(path, text.encode("utf-8", "replace"))  # names from a file system may hold lone surrogates
    return path


def _html(data: RunData) -> str:
    jinja2, plotly = extra("jinja2", WHO), extra("plotly.offline", WHO)
    markup: type[Markup] = extra("markupsafe", WHO).Markup
    numbers, drawn, words = _content(data)
    folder = files("undrift.report") / "page"
    draw, style = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("draw.js", "style.css"))
    scripts = {"early": EARLY, "plotly": plotly.get_plotlyjs(), "draw": draw}
    engine = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    engine.filters["keys"] = lambda text: _keys(text, markup)
    template = engine.from_string(folder.joinpath("report.html").read_text(encoding="utf-8"))
    return str(
        template.render(
            page=words,
            version=__version__,
            policy=_policy(scripts.values()),
            style=markup(style),
            numbers=markup(embedded(numbers)),
            figures=markup(embedded(drawn)),
            **{name: markup(script) for name, script in scripts.items()},
        )
    )


def _content(data: RunData) -> tuple[Any, Any, Any]:
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
    drawn = [
        {"key": one.key, "views": [asdict(v) for v in one.views], "panels": [asdict(v) for v in one.panels]}
        for group in shown.values()
        for one in group
    ]
    return numbers, drawn, words


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


def embedded(value: object) -> str:
    r"""Return JSON that can stand inside a script element: what is not a finite number is null.

    >>> embedded({"</script>": float("nan")})
    '{"\\u003c/script\\u003e":null}'
    """
    text = json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if value - value == 0.0 else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def _policy(scripts: Any) -> str:
    """Return what the page may do: run these very scripts, and fetch nothing."""
    digests = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return (
        f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _keys(text: str, markup: type[Markup]) -> Markup:
    """Return a caption with its `keys` set as code; everything in it is escaped first."""
    return markup(re.sub("`([a-z0-9/()-]+)`", r"<code>\1</code>", str(markup.escape(text))))

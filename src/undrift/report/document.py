"""A page: one HTML file, no network, nothing in it but words, numbers and scripts whose digests it states."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undrift import __version__, store
from undrift.folder import writing
from undrift.report.figures import Figure
from undrift.run.extras import extra

if TYPE_CHECKING:
    from markupsafe import Markup

WHO = "report"
EARLY = (
    'document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";'
)
"""Chooses the theme before anything is drawn."""


def publish(
    out: str | os.PathLike[str],
    template: str,
    words: Mapping[str, Any],
    numbers: Mapping[str, Any],
    drawn: Iterable[Figure],
    scripts: Sequence[str] = (),
) -> Path:
    """Write a page, whole or not at all, and return its path.

    Parameters
    ----------
    out
        The file.
    template
        Name of a template in `undrift.report/page`.
    words
        What it says, as `page`.
    numbers
        Embedded as JSON; figures point into them.
    drawn
        The figures.
    scripts
        Names of scripts in `undrift.report/page` that the page has besides the one that draws.
    """
    path = Path(out)
    text = _html(template, words, numbers, drawn, scripts)
    with writing(path.parent):
        store.replace(path, text.encode("utf-8", "replace"))  # names from a file system may hold lone surrogates
    return path


def _html(
    template: str,
    words: Mapping[str, Any],
    numbers: Mapping[str, Any],
    drawn: Iterable[Figure],
    scripts: Sequence[str],
) -> str:
    jinja2, plotly = extra("jinja2", WHO), extra("plotly.offline", WHO)
    markup: type[Markup] = extra("markupsafe", WHO).Markup
    engine = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.filters["keys"] = lambda text: _keys(text, markup)
    specs = [
        {"key": one.key, "views": [asdict(v) for v in one.views], "panels": [asdict(v) for v in one.panels]}
        for one in drawn
    ]
    body = [plotly.get_plotlyjs(), *(_read(name) for name in ("draw.js", *scripts))]
    return str(
        engine.get_template(template).render(
            page=words,
            version=__version__,
            policy=_policy([EARLY, *body]),
            early=markup(EARLY),
            style=markup(_read("style.css")),
            numbers=markup(embedded(numbers)),
            figures=markup(embedded(specs)),
            scripts=[markup(script) for script in body],
        )
    )


def _read(name: str) -> str:
    return files("undrift.report").joinpath("page", name).read_text(encoding="utf-8")


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


def _policy(scripts: Iterable[str]) -> str:
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

"""Write a page: one HTML file that needs no network and states the digests of all scripts it may run."""

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
from undrift._internal.folder import explain_disk_errors
from undrift.report.figures.figure import Figure
from undrift.stream.extras import extra

if TYPE_CHECKING:
    from markupsafe import Markup

CALLER = "report"
"""Who raises, in error messages."""
THEME_SCRIPT = (
    'document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";'
)
"""Chooses the theme before anything is drawn."""
PLOTLY = "plotly/plotly-cartesian.min.js"
"""What draws: plotly.js 4.1.1 with the traces of the plane (scatter, bar, heatmap, ...), a third of the whole library.

It comes from npm, with its licence: `npm pack plotly.js-cartesian-dist-min@4.1.1`. plotly's Python package has only
the whole library, of which a report would take 4.8 MB.
"""


def write_page(
    out: str | os.PathLike[str],
    template: str,
    content: Mapping[str, Any],
    numbers: Mapping[str, Any],
    figures: Mapping[str, Sequence[Figure]],
    scripts: Sequence[str] = (),
) -> Path:
    """Write a page, whole or not at all, and return its path.

    Parameters
    ----------
    out
        The file.
    template
        Name of a template in `undrift/report/templates`.
    content
        What the template shows; it knows this as `page`.
    numbers
        Embedded as JSON; figures name their numbers by paths into it.
    figures
        The figures by section.
    scripts
        Names of scripts in `undrift/report/templates` that the page has besides the one that draws.
    """
    jinja2 = extra("jinja2", CALLER)
    markup: type[Markup] = extra("markupsafe", CALLER).Markup
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["mark_keys"] = lambda text: _mark_keys(text, markup)
    specs = [
        {"key": one.key, "views": [asdict(v) for v in one.views], "panels": [asdict(v) for v in one.panels]}
        for section in figures.values()
        for one in section
    ]
    code = [_read_file(PLOTLY), *(_read_template(name) for name in ("draw.js", *scripts))]
    text = environment.get_template(template).render(
        page=content,
        version=__version__,
        policy=_security_policy([THEME_SCRIPT, *code]),
        theme_script=markup(THEME_SCRIPT),
        style=markup(_read_template("style.css")),
        numbers=markup(embed_json(numbers)),
        figures=markup(embed_json(specs)),
        scripts=[markup(script) for script in code],
    )
    path = Path(out)
    with explain_disk_errors(path.parent):
        store.replace(path, text.encode("utf-8", "replace"))  # names from a file system may hold lone surrogates
    return path


def _read_template(name: str) -> str:
    return _read_file(f"templates/{name}")


def _read_file(name: str) -> str:
    return files("undrift.report").joinpath(name).read_text(encoding="utf-8")


def embed_json(value: object) -> str:
    r"""Return JSON that can stand inside a script element: what is not a finite number is null.

    >>> embed_json({"</script>": float("nan")})
    '{"\\u003c/script\\u003e":null}'
    """
    text = json.dumps(_replace_non_finite(value), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _replace_non_finite(value: object) -> object:
    if isinstance(value, float):
        return value if value - value == 0.0 else None
    if isinstance(value, dict):
        return {str(key): _replace_non_finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_non_finite(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def _security_policy(scripts: Iterable[str]) -> str:
    """Return what the page may do: run these very scripts, and fetch nothing."""
    digests = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return (
        f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _mark_keys(text: str, markup: type[Markup]) -> Markup:
    """Return a caption with its `keys` set as code; everything in it is escaped first."""
    return markup(re.sub("`([a-z0-9/()-]+)`", r"<code>\1</code>", str(markup.escape(text))))

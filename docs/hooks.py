"""What the site needs beyond plain Markdown: folders in the menu, and mathematics without a script."""

from __future__ import annotations

import html
import importlib
import re
from pathlib import Path
from types import FunctionType
from typing import Any

from latex2mathml.converter import convert

FIRST = ("index.md", "errata.md")
"""Pages that lead their folder."""
_MATH = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
_SIZES = re.compile(r"\\(?:big|Big|bigg|Bigg)[lr]?(?![A-Za-z])")
_NAMES = re.compile(r"\\arg\\(min|max)")
_BAR = re.compile(r"<mo[^>]*>&#x0007C;</mo>")


def on_config(config: Any) -> Any:
    """Put the pages of a folder where the menu names the folder."""
    root = Path(config["docs_dir"])
    for entry in config["nav"] or []:
        for title, target in list(entry.items()):
            if isinstance(target, str) and (root / target).is_dir():
                entry[title] = [f"{target}/{page.name}" for page in pages(root / target)]
    return config


def pages(folder: Path) -> list[Path]:
    """Return a folder's pages: the leading ones, then by name."""
    found = {page.name: page for page in sorted(folder.glob("*.md"))}
    return [found.pop(name) for name in FIRST if name in found] + list(found.values())


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put one entry for each class and function that a package exports where a page says `::: package.*`."""
    return re.sub(r"^::: ([\w.]+)\.\*$", lambda found: "\n\n".join(entries(found[1])), markdown, flags=re.MULTILINE)


def entries(package: str) -> list[str]:
    """Return `::: package.name` for every class and function that a package exports, in the order of its exports."""
    module = importlib.import_module(package)
    return [f"::: {package}.{name}" for name, value in vars(module).items() if isinstance(value, type | FunctionType)]


def on_page_content(content: str, **_: Any) -> str:
    """Turn formulas into MathML, which browsers draw by themselves."""
    return _MATH.sub(_drawn, content)


def _drawn(found: re.Match[str]) -> str:
    formula = _NAMES.sub(r"\\operatorname{arg\\,\1}", _SIZES.sub("", html.unescape(found[3]))).strip()
    drawn = convert(formula, display="block" if found[1] == "div" else "inline")
    return _BAR.sub('<mo stretchy="false" lspace="0" rspace="0">|</mo>', drawn)

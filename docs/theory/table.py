"""Write the table of `index.md` from the front matter of the pages: python docs/theory/table.py."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
APART = ("index.md", "errata.md")
FIELDS = ("key", "items", "symbols", "tests")


def front_matter(page: Path) -> dict[str, list[str]]:
    """Return the fields between the two --- lines at the top of a page; every field is a list but key, of one."""
    head, *lines = page.read_text(encoding="utf-8").splitlines()
    if head != "---" or "---" not in lines:
        raise ValueError(f"{page.name}: the page must begin with front matter between two --- lines")
    fields = {}
    for line in lines[: lines.index("---")]:
        name, _, value = line.partition(":")
        words = re.split(r",(?![^()]*\))", value)  # a comma within brackets does not end an item
        fields[name.strip()] = [word.strip() for word in words if word.strip()]
    if tuple(fields) != FIELDS or not all(fields.values()) or fields["key"] != [page.stem]:
        raise ValueError(f"{page.name}: front matter must be {', '.join(FIELDS)}, none empty, key the page's name")
    return fields


def pages() -> list[Path]:
    """Return the theory pages in order of their names."""
    return [page for page in sorted(HERE.glob("*.md")) if page.name not in APART]


def index() -> str:
    """Return the whole text of index.md."""
    rows = []
    for page in pages():
        fields = front_matter(page)
        symbols, tests = (", ".join(f"`{word}`" for word in fields[name]) for name in ("symbols", "tests"))
        rows += [f"| {item} | [{page.stem}]({page.name}) | {symbols} | {tests} |" for item in fields["items"]]
    return "\n".join(
        [
            "# Theory",
            "",
            "Every result undrift rests on: a page with the statement, a symbol in the code, a test. What the paper",
            "prints and does not hold is on the [errata](errata.md) page. This table is written by",
            "`python docs/theory/table.py` from the pages themselves.",
            "",
            "| paper item | page | symbol | test |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    (HERE / "index.md").write_text(index(), encoding="utf-8")

"""Write what `undrift COMMAND --help` says into the page of every command: python docs/commands/table.py."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

import typer

HERE = Path(__file__).parent
BEGIN, END = "<!-- undrift --help, written by docs/commands/table.py -->", "<!-- end of help -->"


def helps() -> dict[str, str]:
    """Return the help of every command, groups and their commands on one page, by the page's name."""
    from undrift.cli.app import app_for

    tree = typer.main.get_command(app_for([]))
    out = {"index": shown([])}
    for name, command in getattr(tree, "commands", {}).items():
        inner = [shown([name, one]) for one in getattr(command, "commands", {})]
        out[name] = "\n".join([shown([name]), *inner])
    return out


def shown(words: list[str]) -> str:
    """Return one help text as a block of Markdown."""
    from undrift.cli.app import run

    os.environ["COLUMNS"] = os.environ["TERMINAL_WIDTH"] = "100"
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        run([*words, "--help"])
    lines = [line.rstrip() for line in text.getvalue().strip().splitlines()]
    return "\n".join(["```text", f"$ {' '.join(['undrift', *words, '--help'])}", *lines, "```", ""])


def page(name: str, text: str) -> str:
    """Return a page with its help replaced; a page that is not there yet gets a title."""
    path = HERE / f"{name}.md"
    old = path.read_text(encoding="utf-8") if path.exists() else f"# undrift {name}\n\n{BEGIN}\n{END}\n"
    before, _, rest = old.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def main() -> None:
    """Write every page."""
    for name, text in helps().items():
        (HERE / f"{name}.md").write_text(page(name, text), encoding="utf-8")


if __name__ == "__main__":
    main()

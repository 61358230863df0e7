"""A JSON object whose last entry is long columns: they come in parts, and memory stays flat."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Self

from undrift.cli.output import format_json
from undrift.folder import explain_disk_errors

BLOCK = 1 << 16
"""Characters copied at a time."""
FILES = Path("temporary files")
"""Whose disk may be full, for the sentence."""


class JsonColumns:
    """Columns as text in temporary files without a name, one for each: nothing is left of them, whatever happens.

    JSON has one column after the other, while rows bring a little of each.
    """

    def __init__(self) -> None:
        self._files: dict[str, IO[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):  # of a full disk, which was said before
                file.close()

    def add(self, columns: Mapping[str, list[object]]) -> None:
        """Append some rows, at least one; every call brings the same columns."""
        with explain_disk_errors(FILES):
            for name, cells in columns.items():
                begin = "," if name in self._files else ""
                if not begin:
                    file = tempfile.TemporaryFile("w+", encoding="ascii", newline="")  # noqa: SIM115  # closed at the exit
                    self._files[name] = file
                text = format_json(cells, indent=None, separators=(",\n      ", ": "))
                self._files[name].write(f"{begin}\n      {text[1:-1]}")

    def pieces(self, facts: Mapping[str, object], name: str) -> Iterator[str]:
        """Yield the text of the facts with the columns as their last entry, as `print_json` would print it."""
        yield format_json(facts).removesuffix("\n}") + f",\n  {json.dumps(name)}: {{"
        for number, (column, file) in enumerate(self._files.items()):
            with explain_disk_errors(FILES):
                file.seek(0)  # which writes what is left
            yield f"{',' if number else ''}\n    {json.dumps(column)}: ["
            while block := file.read(BLOCK):
                yield block
            yield "\n    ]"
        yield "\n  }\n}\n"

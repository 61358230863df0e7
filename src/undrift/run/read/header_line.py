"""Where the names of a CSV file stand: in its first line, or below a title, comments, or Excel's line `sep=;`."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

DELIMITERS = ",;\t|"
MOST_LINES = 20
"""Lines that may stand above the names."""
LONGEST_TITLE = 1000
"""Characters of such a line."""
_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""The line by which Excel is told what separates cells."""


class HeaderLine(NamedTuple):
    """The first line that counts, and what is above it."""

    above: int
    """Lines above it."""
    text: str
    """The line."""
    delimiter: str
    """What separates cells."""
    below: Iterator[str]
    """All lines after it."""


def find_header(lines: Iterator[str], delimiter: str | None, *, has_names: bool) -> HeaderLine | None:
    """Return the line of names, or the first line where nothing says that it is a title; None without any line.

    Lines are a title where they hold one cell, and below them comes a line of several cells, none of them a number. In
    a file without names the first line counts, whatever it holds.
    """
    first = next(lines, None)
    if first is None:
        return None
    read = [first]
    told = _SEPARATOR.fullmatch(first.strip()) if has_names else None
    delimiter = told[1] if told is not None and delimiter is None else delimiter
    while has_names and (told is not None or _is_title(read[-1], delimiter)) and len(read) <= MOST_LINES:
        line = next(lines, None)
        if line is None:
            break
        read.append(line)
        told = None
    names = [cell for cell in _split(read[-1], delimiter) if cell]
    above = len(read) - 1 if len(names) > 1 and not any(map(is_number, names)) else 0
    text = read[above]
    return HeaderLine(above, text, _delimiter(text, delimiter), chain(read[above + 1 :], lines))


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_title(line: str, delimiter: str | None) -> bool:
    """Whether a line holds at most one cell, its first, and ends outside of quotes."""
    return line.count('"') % 2 == 0 and len(line) <= LONGEST_TITLE and not any(_split(line, delimiter)[1:])


def _split(line: str, delimiter: str | None) -> list[str]:
    """Return the cells of a line; none if a cell is too long."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=_delimiter(line, delimiter)), [])]
    except csv.Error:
        return []


def _delimiter(line: str, given: str | None) -> str:
    """Return what separates the cells of a line: what comes most often outside of quotes."""
    return given or max(DELIMITERS, key="".join(line.split('"')[::2]).count)

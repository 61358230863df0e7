"""Texts in CSV files that spreadsheets would run as formulas: an apostrophe before them makes them texts again.

Excel, LibreOffice and Google Sheets run a cell that begins with =, +, - or @ (or with a tab or line end before one),
and keys and labels come from other people's files. Numbers stay numbers.
"""

from __future__ import annotations

import re

from undrift.run.read.cells import parse_number

_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # the last four are the wide forms of = + - @


def escape_formula(cell: object) -> object:
    """Return a cell as it is written into CSV; only a text that might be a formula changes.

    >>> escape_formula("=1+1"), escape_formula("-5"), escape_formula(-5.0), escape_formula("oslo")
    ("'=1+1", '-5', -5.0, 'oslo')
    """
    if isinstance(cell, str) and _FORMULA.match(cell) and parse_number(cell) is None:
        return f"'{cell}"
    return cell


def unescape_formula(text: str) -> str:
    """Return the text that `escape_formula` was given.

    >>> unescape_formula("'=1+1"), unescape_formula("-5"), unescape_formula("'quoted'")
    ('=1+1', '-5', "'quoted'")
    """
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text

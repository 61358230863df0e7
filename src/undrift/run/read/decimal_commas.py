"""Numbers with a decimal comma, as half of the world writes them: found from the first rows, and turned into points."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from undrift.run.read.rows import Cells, RowBatch

GROUPS = r"\d{1,3}([.'\u2019 \u00a0\u202f]\d{3})+"
"""Groups of three digits, between which stand points, apostrophes or spaces."""
COMMA = re.compile(rf"\s*[+-]?(\d+|{GROUPS})(,\d+)?\s*[$€£¥%]?\s*", re.ASCII)
"""A number whose decimal sign is a comma."""
SURELY_COMMA = re.compile(rf"\s*[+-]?({GROUPS},\d+|\d+,(\d{{1,2}}|\d{{4,}}))\s*[$€£¥%]?\s*", re.ASCII)
"""A number that cannot be read otherwise: 1.234,5 or 12,5."""
EITHER = re.compile(r"\s*[+-]?\d{1,3},\d{3}\s*[$€£¥%]?\s*", re.ASCII)
"""1,234: more than a thousand, or a little more than one."""
SURELY_POINT = re.compile(r"\s*[+-]?(\d*\.(\d{1,2}|\d{4,})|\d{1,3}(,\d{3})+\.\d+)([eE][+-]?\d+)?\s*[$€£¥%]?\s*")


def with_points(batches: Iterator[RowBatch], decimal: str | None, delimiter: str) -> Iterator[RowBatch]:
    """Yield batches of texts in which every number has a decimal point."""
    first = next(batches, None)
    if first is None:
        return
    found = decimal or _find_decimal([*first.columns.values()], delimiter)
    for batch in chain([first], batches):
        yield batch if found == "." else RowBatch(batch.lines, {n: _points(c) for n, c in batch.columns.items()})


def _find_decimal(columns: Sequence[Cells], delimiter: str) -> str:
    """Return the decimal sign that the cells have; where 1,234 is all there is, commas between cells decide."""
    texts = [cell for cells in columns for cell in cells if isinstance(cell, str)]
    with_comma = [text for text in texts if "," in text]
    if not with_comma or any(SURELY_POINT.fullmatch(text) for text in texts if "." in text):
        return "."
    if any(SURELY_COMMA.fullmatch(text) for text in with_comma):
        return ","
    return "," if delimiter != "," and any(EITHER.fullmatch(text) for text in with_comma) else "."


def _points(cells: Cells) -> Cells:
    return [_point(cell) if isinstance(cell, str) else cell for cell in cells]


def _point(text: str) -> str:
    """Return a number with a decimal point; any other text as it is.

    >>> _point("1.234,5"), _point("-12,50"), _point("01.02.2024"), _point("a, b")
    ('1234.5', '-12.50', '01.02.2024', 'a, b')
    """
    return text.replace(".", "").replace(",", ".") if COMMA.fullmatch(text) else text

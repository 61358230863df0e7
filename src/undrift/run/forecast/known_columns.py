"""Columns known in advance as numbers: two texts become 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from undrift._typing import Vector
from undrift.errors import DataError
from undrift.run.prepare.columns import column_kind
from undrift.run.prepare.first_rows import FirstRows
from undrift.run.prepare.task import negative_first
from undrift.run.read.cells import parse_texts


def read_known_column(first: FirstRows, name: str, before: Sequence[str]) -> tuple[Vector, list[str]]:
    """Return a column as numbers, NaN where missing, and its texts, of which the first is 0 and the second 1.

    Parameters
    ----------
    first
        All rows of a file.
    name
        The column.
    before
        Its texts in earlier files; none if it held numbers, or if this is the first file.
    """
    if not before and column_kind(first, name) != "text":
        return first.numbers(name), []
    cells = parse_texts(first.columns[name], first.na)
    found = [text for text in dict.fromkeys(cells) if text is not None]
    texts = [*before, *(text for text in (found if before else negative_first(found)) if text not in before)]
    if len(texts) > 2:
        seen = [*before, *(text for text in found if text not in before)]
        where = first.source.at(int(first.lines[cells.index(seen[2])]))
        raise DataError(
            f"{where}: '{name}' is {seen[2]!r:.60}, a third text after {seen[0]!r:.60} and {seen[1]!r:.60}, but a "
            "column known in advance holds numbers or two texts; write a column of 0 and 1 for each text, or "
            f"{first.source.leave_out(name)}"
        )
    code = {text: float(k) for k, text in enumerate(texts)}
    return np.array([np.nan if text is None else code[text] for text in cells]), texts

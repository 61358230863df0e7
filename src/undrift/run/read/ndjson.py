"""NDJSON: one object a line, flat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from undrift.errors import DataError
from undrift.run.read.rows import BATCH_CHARACTERS, BATCH_ROWS, MAX_COLUMNS, RowBatch

if TYPE_CHECKING:
    from undrift.run.read.source import Source


def ndjson_batches(source: Source) -> Iterator[RowBatch]:
    """Yield the rows of an NDJSON file; a key that a line lacks is missing there."""
    keys: dict[str, None] = {}
    rows: list[dict[str, object]] = []
    lines: list[int] = []
    size = taken = 0
    for number, text in enumerate(source.lines(), start=1):
        if not text.strip():
            continue
        row = _object(source, number, text)
        if row.keys() - keys.keys():
            keys |= dict.fromkeys(row)
            if len(keys) > MAX_COLUMNS:
                raise DataError(f"{source.at(number)}: more than {MAX_COLUMNS:,} different keys so far; leave some out")
        rows.append(row)
        lines.append(number)
        size += len(text)
        taken += 1
        if (
            len(rows) == BATCH_ROWS
            or max(size, len(rows) * len(keys)) >= BATCH_CHARACTERS
            or taken == source.settings.limit
        ):
            yield _batch(keys, rows, lines)
            rows, lines, size = [], [], 0
            if taken == source.settings.limit:
                return
    if rows:
        yield _batch(keys, rows, lines)
    elif not keys:
        raise DataError(f"{source.name} is empty; it needs one JSON object a line")


def _object(source: Source, number: int, text: str) -> dict[str, object]:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise DataError(f"{source.at(number)}: not JSON ({error}); write one object a line") from None
    except RecursionError:
        raise DataError(f"{source.at(number)}: lists or objects too deep in one another; write plain columns") from None
    if not isinstance(row, dict):
        raise DataError(f"{source.at(number)}: a JSON {type(row).__name__} where an object should be")
    for key, value in row.items():
        if isinstance(value, (dict, list)):
            if key not in source.settings.drop:
                raise DataError(
                    f"{source.at(number)}: '{key}' holds an object or a list; write plain columns, or --drop '{key}'"
                )
            row[key] = None
    return row


def _batch(keys: dict[str, None], rows: list[dict[str, object]], lines: list[int]) -> RowBatch:
    return RowBatch(np.array(lines, dtype=np.int64), {key: [row.get(key) for row in rows] for key in keys})

"""NDJSON: one object a line, flat; or one JSON list of such objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from undrift.errors import DataError
from undrift.stream.cells import BATCH_CHARACTERS, BATCH_ROWS, MAX_COLUMNS, RowBatch

if TYPE_CHECKING:
    from undrift.run.read.source import Source


MOST_CHARACTERS = 1 << 28
"""Characters of a list of objects, which is read at once."""


def ndjson_batches(source: Source) -> Iterator[RowBatch]:
    """Yield the rows of an NDJSON file; a key that a line lacks is missing there."""
    keys: dict[str, None] = {}
    rows: list[dict[str, object]] = []
    lines: list[int] = []
    size = 0
    for taken, (number, characters, row) in enumerate(_objects(source), start=1):
        if row.keys() - keys.keys():
            keys |= dict.fromkeys(row)
            if len(keys) > MAX_COLUMNS:
                raise DataError(f"{source.at(number)}: more than {MAX_COLUMNS:,} different keys so far; leave some out")
        rows.append(row)
        lines.append(number)
        size += characters
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


def _objects(source: Source) -> Iterator[tuple[int, int, dict[str, object]]]:
    """Yield line (or place in a list of objects), size and contents of every object."""
    lines = enumerate(source.lines(), start=1)
    for number, text in lines:
        if text.lstrip().startswith("["):
            yield from _list_objects(source, text, (more for _, more in lines))
        elif text.strip():
            yield number, len(text), _require_flat(source, number, _load_json(source, number, text))


def _list_objects(source: Source, first: str, others: Iterator[str]) -> Iterator[tuple[int, int, dict[str, object]]]:
    """Yield the objects of one JSON list, which is read as a whole."""
    parts, size = [first], len(first)
    for text in others:
        parts.append(text)
        size += len(text)
        if size > MOST_CHARACTERS:
            raise DataError(
                f"{source.name}: a JSON list of more than {MOST_CHARACTERS >> 20} million characters; "
                "write one object a line (NDJSON)"
            )
    rows = _load_json(source, 1, "".join(parts))
    source.row_word = "object"
    for number, row in enumerate(rows if isinstance(rows, list) else [rows], start=1):
        yield number, size // max(1, len(rows)), _require_flat(source, number, row)


def _load_json(source: Source, number: int, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"{source.at(number)}: not JSON ({error}); write one object a line") from None
    except RecursionError:
        raise DataError(f"{source.at(number)}: lists or objects too deep in one another; write plain columns") from None


def _require_flat(source: Source, number: int, row: Any) -> dict[str, object]:
    """Return an object without others inside."""
    if not isinstance(row, dict):
        raise DataError(f"{source.at(number)}: a JSON {type(row).__name__} where an object should be")
    for key, value in row.items():
        if isinstance(value, (dict, list)):
            if key not in source.settings.drop:
                raise DataError(
                    f"{source.at(number)}: '{key}' holds an object or a list; write plain columns, or "
                    f"{source.leave_out(key)}"
                )
            row[key] = None
    return row


def _batch(keys: dict[str, None], rows: list[dict[str, object]], lines: list[int]) -> RowBatch:
    return RowBatch(np.array(lines, dtype=np.int64), {key: [row.get(key) for row in rows] for key in keys})

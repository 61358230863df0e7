"""The ledger of a folder: what it learned, in order; `learned` in `run.json`, of the same form in every kind of folder.

```
path, absolute  what was learned, as it was named and where it is; `absolute` is null for a pipe or a service
sha256, size    of the file; null for a pipe or a service
rows, skipped   how many of its rows were learned, and how many were not because they had been learned before
line            of a run: the last line of which a row was learned
rows_before     of a run: how many rows it had before it learned the first row of this file, or of what was added to it
when, by        when learning began (UTC), and what learned: "run", "update", "live", "serve", "fleet", "forecast"; or
                "model", a file with a model to begin with
earlier         size, SHA-256, `rows_before` and `line` of the file before it grew, where it did
```

A file that grew extends its entry: it is one file, of which more was learned. Kinds of folders add names of their own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from undrift._internal.state_file import Kinds, require_kinds
from undrift.run.read.source import Source

LedgerEntry = dict[str, Any]
"""One file, pipe or service that was learned, in the form above."""

_KINDS: Kinds = {
    **dict.fromkeys(("path", "when", "by"), str),
    **dict.fromkeys(("sha256", "absolute"), (str, type(None))),
    "size": (int, type(None)),
    **dict.fromkeys(("rows", "skipped"), int),
}


def make_entry(source: Source | str, by: str) -> LedgerEntry:
    """Return the entry of a source of which nothing was learned yet; a text is the name of a service."""
    if isinstance(source, str):
        about: LedgerEntry = {"path": source, "absolute": None, "sha256": None, "size": None}
    else:
        where = None if source.stdin else str(source.path.absolute())
        about = {"path": source.name, "absolute": where, "sha256": source.digest(), "size": source.size}
    return about | {"rows": 0, "skipped": 0, "when": now(), "by": by}


def extend_entry(entry: LedgerEntry, source: Source, by: str) -> LedgerEntry:
    """Return the entry of a file that grew, before anything of what was added is learned."""
    before = {name: entry[name] for name in ("size", "sha256", "rows_before", "line") if name in entry}
    new = (_KINDS.keys() - {"rows", "skipped"}) | {"rows_before"}
    counts = {name: value for name, value in entry.items() if name not in new}
    return make_entry(source, by) | counts | {"earlier": [*entry.get("earlier", ()), before]}


def was_learned(learned: Sequence[LedgerEntry], digest: str | None) -> bool:
    """Whether a file of this digest was learned, or one that began with it and grew."""
    return digest is not None and any(
        digest == one["sha256"] for entry in learned for one in (entry, *entry.get("earlier", ()))
    )


def find_grown(learned: Sequence[LedgerEntry], source: Source) -> int | None:
    """Return the place of the entry whose file a longer one begins with, the last if there are several."""
    found = source.prefix_digests(entry["size"] for entry in learned if entry["size"] is not None)
    grown = [k for k, entry in enumerate(learned) if found.get(entry["size"], "") == entry["sha256"]]
    return grown[-1] if grown else None


def put_entry(learned: list[LedgerEntry], place: int | None, entry: LedgerEntry) -> None:
    """Put an entry at its place, at the end if it has none."""
    if place is None:
        learned.append(entry)
    else:
        learned[place] = entry


def require_ledger(learned: Any) -> None:
    """Raise TypeError or KeyError unless this is a ledger."""
    if not isinstance(learned, list) or not all(isinstance(entry, dict) for entry in learned):
        raise TypeError("'learned' must hold objects")
    for entry in learned:
        require_kinds(entry, _KINDS, " of what was learned")
        for one in entry.get("earlier", ()):
            one["size"], one["sha256"]


def now() -> str:
    """Return the time in UTC, to the second."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")

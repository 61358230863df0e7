"""The journal in the folder of what is served, and the link between them: `journal` in `run.json`.

The folder names the journal that belongs to it by an id, and the number of the last entry that the folder holds. A
commit writes the facts of the service into the journal first, then the folder with that number, and then drops the
entries that the folder holds: a kill in between leaves a folder and a journal that still belong together.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from undrift._internal.folder import Folder
from undrift._internal.state_file import JOURNAL
from undrift.errors import ModelFileError
from undrift.run.service.journal import Checkpoint, Journal

Link = dict[str, Any]
"""`id` of the journal, None where the next service begins another one, and `sequence`, the last entry in the folder."""


@contextlib.contextmanager
def open_journal(folder: Folder, durable: bool) -> Iterator[Journal]:
    """Give the journal in a service's folder, which is locked; it is closed whatever happens."""
    folder.claim(*JOURNAL)
    with contextlib.closing(Journal(folder.path / JOURNAL[0], durable=durable)) as journal:
        yield journal


def begin_link() -> Link:
    """Return the link of a folder with a new journal."""
    return {"id": uuid.uuid4().hex, "sequence": 0}


def find_facts(
    journal: Journal, link: Mapping[str, Any] | None, kind: str, instead: str = "put it back"
) -> Mapping[str, Any] | None:
    """Return the facts of the service as of the last commit of its folder; None for a new journal.

    Parameters
    ----------
    journal
        The journal in the folder; refused if it is not in step with it.
    link
        What the folder says about its journal.
    kind
        What is served, for sentences.
    instead
        What to do about a journal that is missing.
    """
    if link is None or link["id"] is None:
        if journal.last or journal.newest_row():
            raise ModelFileError(
                f"{journal.path}: not the journal of this {kind} as it is now; move it away to begin a new one"
            )
        return None
    sequence = link["sequence"]
    if type(sequence) is not int:
        raise TypeError(f"'sequence' is {type(sequence).__name__}")
    if not journal.last and journal.last_snapshot() is None:
        raise ModelFileError(f"{journal.path}: empty, or missing, though this {kind} was served; {instead}")
    text = journal.snapshot_at(sequence).facts
    try:
        facts: Mapping[str, Any] = json.loads(text)
        is_own = facts["id"] == link["id"]
    except (LookupError, RecursionError, TypeError, ValueError):
        raise ModelFileError(f"{journal.path}: damaged; put a copy of it back") from None
    if not is_own:
        raise ModelFileError(f"{journal.path}: the journal of another {kind}; put the right one back")
    return facts


def commit_with_journal(journal: Journal, facts: Mapping[str, Any], commit: Callable[[], object]) -> None:
    """Commit a folder that holds everything up to the journal's last entry, and drop these entries.

    `facts` are of the service, with the `id` of the link.
    """
    text = json.dumps(facts, allow_nan=False)
    journal.announce(text)
    commit()
    journal.save(Checkpoint(text, (), journal.last + 1))

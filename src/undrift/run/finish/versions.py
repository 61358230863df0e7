"""`list_versions` and `rollback_run`: the versions of a run that are kept, and going back to one of them, or forward.

Every command that finishes a run makes a version of it, and a service makes one each day. The folder keeps the last few
(`RunWriter`, `drop_versions`); `undrift.run.play.run_folder` says which files a version has.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from undrift import store
from undrift._internal.folder import regular_file
from undrift._internal.state_file import JOURNAL, STATE, find_kind
from undrift.errors import InputError
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.run_loop import load_stream
from undrift.run.play.state import RunState, VersionEntry
from undrift.stream.extras import log_sentence

if TYPE_CHECKING:
    from undrift.run.service.journal import Journal

_INSTEAD = {
    "fleet": "a fleet keeps no versions; copy its folder before undrift update",
    "forecast": "a folder of forecasts keeps no versions; copy it before undrift update",
}


_IDS_OF_A_LOST_JOURNAL = 1_000_000
"""Ids of rows that are not given again after a journal was lost, which may have given them."""


class Version(NamedTuple):
    """A version of a run."""

    number: int
    """Its number; the first is 1, and no number is given twice."""
    parent: int | None
    """The version that it was made from, or its nearest ancestor that is kept; None for the first."""
    when: str
    """When it was made, in UTC."""
    by: str
    """What made it: "run", "update", "live" or "serve"; "model" if it began with a model file."""
    path: str
    """What was learned last: a file, a pipe or a service."""
    rows: int
    """Rows until then."""
    rounds: int
    """Labels learned until then."""
    scores: Mapping[str, Mapping[str, float | None]]
    """Scores over all rows until then, of the model and of the naive guesses."""
    complete: bool
    """False while the run or the service that makes it goes on, or when it was killed."""
    size: int
    """Bytes of its files, but for the predictions, which are rows of a table that versions share."""
    current: bool
    """Whether the run is at this version."""


def list_versions(out: str | Path) -> list[Version]:
    """Return the versions of a run that are kept, the oldest first."""
    folder = RunFolder(out)
    state = _read_state(folder)
    return [_describe(folder, state, version) for version in state["versions"]]


def rollback_run(out: str | Path, number: int, *, log: Callable[[str], None] | None = None) -> RunState:
    """Go back, or forward, to a version of a finished run: everything is as it was then, bit for bit.

    The other versions stay. What goes is the report, which would be of another version, and the journal of a run that
    was served, with the rows that wait for their labels: `log` is called with a sentence about them (None: `logging`).
    Returns what `run.json` holds.
    """
    folder = RunFolder(out)
    _read_state(folder)  # refuse other folders before anything is written
    with folder.hold_lock():
        state = _read_state(folder)
        if state["status"] != "finished":
            raise InputError(
                f"{folder.path}: this run is not finished; finish it first with the command that began it and --resume"
            )
        if all(version["number"] != number for version in state["versions"]):
            versions = ", ".join(str(version["number"]) for version in state["versions"])
            raise InputError(f"{folder.path}: there is no version {number}; there are {versions}")
        folder.adopt_files(state)
        folder.sweep(state)
        state = folder.use_final_names(state)  # if another command was killed before it had done so
        if number != state["version"]:
            _require_whole(folder, state, number)
            return folder.go_to(state, number, _end_journal(folder, state, log or log_sentence))
        if _journal_is_lost(folder, state):
            state |= {"journal": _end_journal(folder, state, log or log_sentence)}
            folder.write_state(state)
            folder.sweep(state)
        return state


def _read_state(folder: RunFolder) -> RunState:
    """Return what the last commit wrote; refuse folders that keep no versions."""
    instead = _INSTEAD.get(find_kind(folder.path) or "")
    if instead is not None:
        raise InputError(f"{folder.path}: {instead}")
    return folder.state()


def _require_whole(folder: RunFolder, state: RunState, number: int) -> None:
    """Refuse a version of which a file is missing or damaged."""
    files = next(version["files"] for version in state["versions"] if version["number"] == number)
    load_stream(regular_file(folder.path, files["model"]))
    store.read(regular_file(folder.path, files["trace"]))


def _journal_is_lost(folder: RunFolder, state: RunState) -> bool:
    """Whether there should be a journal, and there is none or an empty one."""
    if (state["journal"] or {"id": None})["id"] is None:
        return False
    if not os.path.lexists(folder.path / JOURNAL[0]):
        return True
    with _open_journal(folder) as journal:
        return not journal.last and journal.last_snapshot() is None


@contextlib.contextmanager
def _open_journal(folder: RunFolder) -> Iterator[Journal]:
    from undrift.run.service.journal import Journal

    with contextlib.closing(Journal(regular_file(folder.path, JOURNAL[0]))) as journal:
        yield journal


def _end_journal(folder: RunFolder, state: RunState, log: Callable[[str], None]) -> dict[str, Any] | None:
    """Return what `run.json` says once the journal counts no more; no id of a row is ever given twice.

    A service that is started later begins a journal of its own: this one goes on from a model that is not the current
    one.
    """
    held: dict[str, Any] | None = state["journal"]
    if held is None or held["id"] is None:
        return held
    next_row: int = held["next_row"]
    if _journal_is_lost(folder, state):
        next_row += _IDS_OF_A_LOST_JOURNAL
    else:
        with _open_journal(folder) as journal:
            if journal.last > held["sequence"]:
                raise InputError(
                    f"{journal.path}: holds requests that a service which was killed had not committed; start and end "
                    f"it once (undrift serve {folder.path}), or move the journal away to give them up"
                )
            next_row = max(next_row, journal.newest_row() + 1)
            if journal.waiting:
                log(f"{folder.path}: the rows that wait for their labels are given up ({journal.waiting:,})")
    return {**held, "id": None, "next_row": next_row}


def _describe(folder: RunFolder, state: RunState, version: VersionEntry) -> Version:
    files = version["files"] or {"state": STATE, "model": state["model"], "trace": state["trace"]}
    paths = [folder.path / files[name] for name in ("state", "model", "trace") if files[name]]
    return Version(
        size=sum(path.stat().st_size for path in paths if path.is_file()),
        current=version["files"] is None,
        **{name: version[name] for name in Version._fields if name in version},
    )

"""`list_versions` and `rollback_run`: the versions of a run that are kept, and going back to one of them, or forward.

Every command that finishes a run makes a version of it. `undrift.run.play.run_folder` says which files one has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from undrift.errors import InputError
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.state import RunState
from undrift.run.state_file import find_kind

_INSTEAD = {
    "fleet": "a fleet keeps no versions; copy its folder before undrift update",
    "forecast": "a folder of forecasts keeps no versions; copy it before undrift update",
}


class Version(NamedTuple):
    """A version of a run."""

    number: int
    """Its number; the first is 1, and no number is given twice."""
    when: str
    """When it was made, in UTC."""
    by: str
    """What made it: "run", "update", "live" or "serve"."""
    path: str
    """What was learned last: a file, a pipe or a service."""
    rows: int
    """Rows until then."""
    rounds: int
    """Labels learned until then."""
    scores: Mapping[str, Mapping[str, float | None]]
    """Scores over all rows until then, of the model and of the naive guesses."""
    size: int
    """Bytes of its files, but for the predictions, which are rows of a table that versions share."""
    current: bool
    """Whether the run is at this version."""


def list_versions(out: str | Path) -> list[Version]:
    """Return the versions of a run that are kept, the oldest first."""
    folder = RunFolder(out)
    state = _read_state(folder)
    return [_describe(folder, state, version) for version in state["versions"]]


def rollback_run(out: str | Path, number: int) -> RunState:
    """Go back, or forward, to a version of a finished run: everything is as it was then, bit for bit.

    The other versions stay. The report, which would be of another version, is removed. Returns what `run.json` holds.
    """
    folder = RunFolder(out)
    _read_state(folder)  # refuse what is no run before anything is made there
    with folder.hold_lock():
        state = _read_state(folder)
        versions = ", ".join(str(version["number"]) for version in state["versions"])
        if state["status"] != "finished":
            raise InputError(
                f"{folder.path}: this run is not finished; finish it first with the command that began it and --resume"
            )
        if all(version["number"] != number for version in state["versions"]):
            raise InputError(f"{folder.path}: there is no version {number}; there are {versions}")
        folder.adopt_files(state)
        state = folder.use_final_names(state)  # if another command was killed before it had done so
        return state if number == state["version"] else folder.go_back(state, number)


def _read_state(folder: RunFolder) -> RunState:
    """Return what the last commit wrote; refuse folders that keep no versions."""
    instead = _INSTEAD.get(find_kind(folder.path) or "")
    if instead is not None:
        raise InputError(f"{folder.path}: {instead}")
    return folder.state()


def _describe(folder: RunFolder, state: RunState, version: Mapping[str, Any]) -> Version:
    files = version["files"] or {"state": "run.json", "model": state["model"], "trace": state["trace"]}
    paths = [folder.path / files[name] for name in ("state", "model", "trace")]
    return Version(
        size=sum(path.stat().st_size for path in paths if path.is_file()),
        current=version["files"] is None,
        **{name: version[name] for name in Version._fields if name in version},
    )

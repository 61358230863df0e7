"""What `run.json` of a run holds: plain types, names of files in its own folder, and its versions.

The last version in `versions` by number need not be the current one, which is `version`: a run may go back. Every entry
names the version that it was made from, its `parent`; the predictions of a parent are the first rows of those of its
children.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from undrift._internal.state_file import STATE, Kinds, explain_damage, read_state, require_kinds
from undrift.baselines import BASELINES
from undrift.run.ledger import require_ledger
from undrift.stream.settings import LONGEST_LAG, Settings

NOT_CERTIFIED = "Not certified"
"""How the note begins that says why there are no certificates."""
RunState = dict[str, Any]
"""What `run.json` holds."""
VersionEntry = Mapping[str, Any]
"""What `run.json` says of a version; its `files` are None for the current one."""

KEPT_VERSIONS = 5
"""Versions that are kept, by default: enough to go back over a working week of daily updates."""

_TEXTS = ("parts", "features", "coefficients", "candidates", "notes")
_KINDS: Kinds = {
    **dict.fromkeys(("rows", "rounds", "batches", "version", "versions_made", "keep_versions"), int),
    "versions": list,
    **dict.fromkeys(("model", "trace"), (str, type(None))),
    **dict.fromkeys(("scores", "plan", "settings", "provenance", "carry"), dict),
    **dict.fromkeys((*_TEXTS, "certificates", "problems", "events"), list),
    "classes": (list, type(None)),
    "latest": str,
    "journal": (dict, type(None)),
}
_JOURNAL_KINDS: Kinds = {
    "id": (str, type(None)),
    **dict.fromkeys(("sequence", "next_row"), int),
}

_VERSION_KINDS: Kinds = {
    **dict.fromkeys(("number", "rows", "rounds"), int),
    "parent": (int, type(None)),
    **dict.fromkeys(("when", "by", "path"), str),
    "scores": dict,
    "complete": bool,
    "files": (dict, type(None)),
}
_FILE_KINDS: Kinds = {
    **dict.fromkeys(("state", "model", "trace"), str),
    "table": (str, type(None)),
    **dict.fromkeys(("rows", "columns"), int),
}


def read_run(folder: Path, name: str = STATE) -> RunState:
    """Return what the last commit of a run wrote, or say what is wrong with it; `name`: that of an earlier version."""
    state = read_state(folder, "run", name)
    with explain_damage(folder, name=name):
        _require_valid(state)
    return state


def settings_of(folder: Path, state: RunState) -> Settings:
    """Return the settings of a run."""
    with explain_damage(folder):
        return Settings.from_dict(state["settings"], str(folder / STATE))


def _require_valid(state: RunState) -> None:
    """Raise TypeError or ValueError for a state that no run writes."""
    require_kinds(state, _KINDS)
    for name in (*_TEXTS, "classes"):
        if not all(isinstance(one, str) for one in state[name] or ()):
            raise TypeError(f"'{name}' must hold texts")
    if state["task"] != "multiclass" and len(state["classes"] or ("", "")) != 2:
        raise ValueError("'classes' must be two")
    lags = state.get("naive_lags", [])
    if not isinstance(lags, list) or not all(type(lag) is int and 0 < lag <= LONGEST_LAG for lag in lags):
        raise ValueError("'naive_lags' must hold numbers of rows")
    if not isinstance(state["plan"]["notes"], list):
        raise TypeError("'notes' of 'plan' must be a list")
    for name in ("certificates", "problems", "events"):
        if not all(isinstance(one, dict) for one in state[name]):
            raise TypeError(f"'{name}' must hold objects")
    if state["status"] not in ("running", "finished") or state["task"] not in BASELINES:
        raise ValueError("'status' or 'task' is unknown")
    if (state["model"] is None) != (state["trace"] is None) or (state["rounds"] and state["model"] is None):
        raise ValueError("'model' and 'trace' belong together")
    if state["rows"] and not state["parts"]:
        raise ValueError("'parts' is empty")
    if min(state[name] for name in ("rows", "rounds", "batches")) < 0 or state["keep_versions"] < 1:
        raise ValueError("a count is negative")
    if state["journal"] is not None:
        require_kinds(state["journal"], _JOURNAL_KINDS, " of 'journal'")
    require_ledger(state["learned"])
    if not state["learned"]:
        raise ValueError("'learned' is empty")
    _require_versions(state)
    if not isinstance(state["settings"]["target"], str):
        raise TypeError("'target' must be a text")


def _require_versions(state: RunState) -> None:
    """Raise TypeError or ValueError for versions that no run keeps."""
    for version in state["versions"]:
        require_kinds(version, _VERSION_KINDS, " of a version")
        if version["files"] is not None:
            require_kinds(version["files"], _FILE_KINDS, " of a version")
            _require_file_names(version["number"], version["files"])
    numbers = [version["number"] for version in state["versions"]]
    if numbers != sorted({*numbers}) or not all(0 < number <= state["versions_made"] for number in numbers):
        raise ValueError("the numbers of 'versions' are out of order")
    parents = [(version["parent"], version["number"]) for version in state["versions"]]
    if not all(parent is None or (parent in numbers and parent < number) for parent, number in parents):
        raise ValueError("'parent' of a version is none of 'versions'")
    if [version["number"] for version in state["versions"] if version["files"] is None] != [state["version"]]:
        raise ValueError("'version' is none of 'versions'")


def _require_file_names(number: int, files: Mapping[str, Any]) -> None:
    """Raise ValueError for names that the files of a version never have."""
    table = files["table"]
    if any(files[name] != own for name, own in version_names(number).items()) or not (
        table is None or re.fullmatch(r"predictions-v\d+\.parquet", table)
    ):
        raise ValueError(f"'files' of version {number} have other names than undrift gives")


def version_names(number: int) -> dict[str, str]:
    """Return the names of the files of a version that is not the current one."""
    return {
        "state": f"run-v{number}.json",
        "model": f"model-v{number}.undrift",
        "trace": f"trace-v{number}.undrift",
    }


def version_files(state: RunState) -> list[str]:
    """Return the names of the files that only versions name."""
    files = [version["files"] for version in state["versions"] if version["files"] is not None]
    return [one[name] for one in files for name in ("state", "model", "trace", "table") if one[name] is not None]


def current_version(state: RunState) -> VersionEntry:
    """Return the entry of the version that a run is at."""
    found: VersionEntry = next(version for version in state["versions"] if version["number"] == state["version"])
    return found


def find_ancestors(versions: Sequence[VersionEntry], number: int) -> set[int]:
    """Return the numbers of the versions that one was made from, its own included."""
    parents: dict[int, int | None] = {version["number"]: version["parent"] for version in versions}
    found, at = set[int](), number if number in parents else None
    while at is not None:
        found.add(at)
        at = parents[at]
    return found


def drop_versions(versions: Sequence[VersionEntry], keep: int, number: int) -> list[VersionEntry]:
    """Return the versions to keep, `keep` of them, of which `number` is the current one.

    Versions that were rolled back, which the current one does not descend from, go first, then the oldest. The children
    of a dropped version become those of its parent.
    """
    line = find_ancestors(versions, number)
    others = sorted(
        (version["number"] in line, version["number"]) for version in versions if version["number"] != number
    )
    gone = {one for _, one in others[: max(0, len(versions) - keep)]}
    parents: dict[int, int | None] = {version["number"]: version["parent"] for version in versions}

    def find_parent(number: int | None) -> int | None:
        while number is not None and number in gone:
            number = parents[number]
        return number

    return [{**one, "parent": find_parent(one["parent"])} for one in versions if one["number"] not in gone]

"""What `run.json` of a run holds: plain types, names of files in its own folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from undrift.baselines import BASELINES
from undrift.run.ledger import require_ledger
from undrift.run.state_file import STATE, explain_damage, read_state
from undrift.stream.settings import LONGEST_LAG, Settings

NOT_CERTIFIED = "Not certified"
"""How the note begins that says why there are no certificates."""
RunState = dict[str, Any]
"""What `run.json` holds."""

KEPT_VERSIONS = 5
"""Versions that are kept, by default: enough to go back over a working week of daily updates."""

_TEXTS = ("parts", "features", "coefficients", "candidates", "notes")
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("rows", "rounds", "batches", "versions_made", "keep_versions"), int),
    "version": (int, type(None)),
    "versions": list,
    **dict.fromkeys(("model", "trace"), (str, type(None))),
    **dict.fromkeys(("scores", "plan", "settings", "provenance", "carry"), dict),
    **dict.fromkeys((*_TEXTS, "certificates", "problems"), list),
    "classes": (list, type(None)),
    "latest": str,
}

_VERSION_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("number", "rows", "rounds"), int),
    **dict.fromkeys(("when", "by", "path"), str),
    "scores": dict,
    "files": (dict, type(None)),
}
_FILE_KINDS: dict[str, type | tuple[type, ...]] = {
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
    for name, kind in _KINDS.items():
        if not isinstance(state[name], kind):
            raise TypeError(f"'{name}' is {type(state[name]).__name__}")
    for name in (*_TEXTS, "classes"):
        if not all(isinstance(one, str) for one in state[name] or ()):
            raise TypeError(f"'{name}' must hold texts")
    if state["task"] != "multiclass" and len(state["classes"] or ("", "")) != 2:
        raise ValueError("'classes' must be two")
    lags = state.get("naive_lags", [])
    if not isinstance(lags, list) or not all(type(lag) is int and 0 < lag <= LONGEST_LAG for lag in lags):
        raise ValueError("'naive_lags' must hold numbers of rows")
    for name in ("certificates", "problems"):
        if not all(isinstance(one, dict) for one in state[name]):
            raise TypeError(f"'{name}' must hold objects")
    if state["status"] not in ("running", "finished") or state["task"] not in BASELINES:
        raise ValueError("'status' or 'task' is unknown")
    if (state["model"] is None) != (state["trace"] is None) or (state["rounds"] and state["model"] is None):
        raise ValueError("'model' and 'trace' belong together")
    if state["rows"] and not state["parts"]:
        raise ValueError("'parts' is empty")
    if min(state[name] for name in ("rows", "rounds", "batches", "versions_made", "keep_versions")) < 0:
        raise ValueError("a count is negative")
    require_ledger(state["learned"])
    if not state["learned"]:
        raise ValueError("'learned' is empty")
    _require_versions(state)
    if not isinstance(state["settings"]["target"], str):
        raise TypeError("'target' must be a text")


def _require_versions(state: RunState) -> None:
    """Raise TypeError or ValueError for versions that no run keeps."""
    for version in state["versions"]:
        for kinds, entry in ((_VERSION_KINDS, version), (_FILE_KINDS, version["files"])):
            for name, kind in kinds.items() if entry is not None else ():
                if not isinstance(entry[name], kind):
                    raise TypeError(f"'{name}' of a version is {type(entry[name]).__name__}")
    numbers = [version["number"] for version in state["versions"]]
    if numbers != sorted({*numbers}) or not all(0 < number <= state["versions_made"] for number in numbers):
        raise ValueError("the numbers of 'versions' are out of order")
    current = [version["number"] for version in state["versions"] if version["files"] is None]
    if current != ([] if state["version"] is None else [state["version"]]):
        raise ValueError("'version' is none of 'versions'")


def version_files(state: RunState) -> list[str]:
    """Return the names of the files that only versions name."""
    files = [version["files"] for version in state["versions"] if version["files"] is not None]
    return [one[name] for one in files for name in ("state", "model", "trace", "table") if one[name] is not None]

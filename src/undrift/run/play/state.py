"""What `run.json` of a run holds: plain types, names of files in its own folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from undrift.baselines import BASELINES
from undrift.run.state_file import STATE, explain_damage, read_state
from undrift.stream.settings import LONGEST_LAG, Settings

NOT_CERTIFIED = "Not certified"
"""How the note begins that says why there are no certificates."""
RunState = dict[str, Any]
"""What `run.json` holds."""

_TEXTS = ("parts", "features", "coefficients", "candidates", "notes")
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("rows", "rounds", "batches"), int),
    **dict.fromkeys(("model", "trace"), (str, type(None))),
    **dict.fromkeys(("scores", "plan", "settings", "provenance", "carry"), dict),
    **dict.fromkeys((*_TEXTS, "certificates", "problems"), list),
    "classes": (list, type(None)),
    "latest": str,
}

_SOURCE = {"path": (str,), "sha256": (str, type(None)), "absolute": (str, type(None)), "size": (int, type(None))}


def read_run(folder: Path) -> RunState:
    """Return what the last commit of a run wrote, or say what is wrong with it."""
    state = read_state(folder, "run")
    with explain_damage(folder):
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
    if min(state["rows"], state["rounds"], state["batches"]) < 0:
        raise ValueError("a count is negative")
    source = state["provenance"]["source"]
    for name, kinds in _SOURCE.items():
        if not isinstance(source[name], kinds):
            raise TypeError(f"'{name}' of the source is {type(source[name]).__name__}")
    if not isinstance(state["settings"]["target"], str):
        raise TypeError("'target' must be a text")

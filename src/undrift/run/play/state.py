"""What `run.json` holds, read as if a stranger had written it: plain types, names of files in its own folder."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from undrift._internal.folder import regular_file
from undrift.baselines import BASELINES
from undrift.errors import InputError, ModelFileError, UndriftError
from undrift.stream.settings import LONGEST_LAG, Settings

STATE = "run.json"
FORMAT = 3
"""Of the folder; runs of earlier formats, which no release wrote, are refused."""
LARGEST = 1 << 26
"""Bytes of the largest `run.json` that is read; the longest runs have a hundredth of that."""
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


def read_state(folder: Path) -> RunState:
    """Return what the last commit wrote, or say what is wrong with it."""
    path = folder / STATE
    if not os.path.lexists(path):
        raise InputError(f"{folder}: no run here ({STATE} is missing); name a folder of `undrift run`")
    regular_file(folder, STATE)
    try:
        if path.stat().st_size > LARGEST:
            raise ModelFileError(f"{path}: far larger than any run's; name a folder `undrift run` made")
        state = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, UndriftError):
            raise
        raise ModelFileError(f"{path}: cannot be read ({_reason(error)}); start the run again with --force") from None
    if not isinstance(state, dict) or not isinstance(state.get("format"), int):
        raise ModelFileError(f"{path}: not a run of undrift's; name a folder `undrift run` made")
    if state["format"] < FORMAT:
        raise ModelFileError(
            f"{path}: written by an undrift before 0.3; learn its file again: undrift run FILE --force"
        )
    if state["format"] > FORMAT:
        raise ModelFileError(f"{path}: format {state['format']} is newer than this undrift reads; upgrade undrift")
    with explain_damage(folder):
        _require_valid(state)
    return state


@contextlib.contextmanager
def explain_damage(folder: Path) -> Iterator[None]:
    """Turn the errors that reading a damaged `run.json` leads to into one sentence."""
    try:
        yield
    except UndriftError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{folder / STATE}: damaged or edited ({_reason(error)}); start the run again with --force"
        ) from None


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


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"{str(error)[:80]} is missing"
    return f"{str(error).splitlines()[0][:120]}" if str(error) else type(error).__name__


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")

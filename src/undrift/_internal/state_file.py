"""`run.json`: the one file of a folder that names what counts; read as if a stranger had written it.

A folder is of one kind: a run (over a file, a pipe or a service), a fleet, or forecasts. Whatever the kind, `run.json`
says its format, its kind, its settings and the ledger of what was learned, and it is renamed into place last. Its
checksum is the SHA-256 of the file with `"sha256": ""` in the place of the checksum, so that no damage goes unnoticed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from undrift._internal.folder import regular_file
from undrift.errors import InputError, ModelFileError, UndriftError

STATE = "run.json"
FORMAT = 4
"""Of the folder; those of earlier formats, which no release wrote, are refused."""
JOURNAL = "journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm"
"""Of a folder that is served: what came since its last commit, and the rows that wait for their labels."""
MOST_READS = 10
"""Times that a folder is read while somebody writes there; writers commit once a second at most."""
LARGEST = 1 << 26
"""Bytes of the largest `run.json` that is read; the longest runs have a hundredth of that."""
COMMANDS = {"run": "undrift run", "fleet": "undrift fleet", "forecast": "undrift forecast"}
"""The command that makes a folder of each kind."""
EARLIER = {"fleet.json": "fleet", "forecast.json": "forecast"}
"""What named the files of a folder before 0.3."""
State = dict[str, Any]
"""What `run.json` holds."""
Kinds = Mapping[str, type | tuple[type, ...]]
"""What an object in `run.json` must have: of each name, the type of its value."""
Found = TypeVar("Found")
_CHECKSUM = re.compile(rb'("sha256": ")([0-9a-f]{64})(")')


def find_kind(folder: Path) -> str | None:
    """Return the kind of a folder, None if nothing of ours is there; refuse one that cannot be read."""
    if os.path.lexists(folder / STATE):
        return str(_read_head(folder)["kind"])
    _refuse_earlier(folder)
    return None


def read_state(folder: Path, kind: str, name: str = STATE) -> State:
    """Return what the last commit of a folder of this kind wrote, or say what is wrong with it.

    `name` is that of a file with the state of an earlier version.
    """
    command = COMMANDS[kind]
    if not os.path.lexists(folder / STATE):
        _refuse_earlier(folder)
        raise InputError(f"{folder}: no {kind} here ({STATE} is missing); name a folder of `{command}`")
    state = _read_head(folder, name)
    if state["kind"] != kind:
        other = COMMANDS[state["kind"]]
        raise InputError(f"{folder}: this is a folder of `{other}`; name one of `{command}`")
    return state


def read_consistently(folder: Path, read: Callable[[], Found]) -> Found:
    """Return what `read` makes of a folder, from one commit: it is called again if a writer committed meanwhile.

    A commit removes the files of the one before, which a reader may be about to open.
    """
    for _ in range(MOST_READS - 1):
        before = _identify(folder / STATE)
        try:
            return read()
        except (UndriftError, OSError):
            if _identify(folder / STATE) == before:
                raise
    return read()


def _identify(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from the one that replaces it; None if there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns


def write_state(state: Mapping[str, Any], kind: str) -> bytes:
    """Return the text of `run.json`."""
    head = {"format": FORMAT, "kind": kind, "sha256": ""}
    text = (json.dumps(head | {**state} | head, indent=1, allow_nan=False) + "\n").encode()
    return text.replace(b'"sha256": ""', b'"sha256": "%s"' % _digest(text), 1)


@contextlib.contextmanager
def explain_damage(folder: Path, kind: str = "run", name: str = STATE) -> Iterator[None]:
    """Turn the errors that reading a damaged `run.json` leads to into one sentence."""
    try:
        yield
    except UndriftError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError(f"{folder / name}: damaged or edited ({_reason(error)}); {_afresh(kind)}") from None


def require_kinds(found: Mapping[str, Any], kinds: Kinds, where: str = "") -> None:
    """Raise TypeError or KeyError unless an object has values of these types; `where`: which one, for the message."""
    for name, kind in kinds.items():
        if not isinstance(found[name], kind):
            raise TypeError(f"'{name}'{where} is {type(found[name]).__name__}")


def _read_head(folder: Path, name: str = STATE) -> State:
    """Return what `run.json`, or a file of the same form, holds, of whatever kind."""
    path = regular_file(folder, name)
    try:
        if path.stat().st_size > LARGEST:
            raise ModelFileError(f"{path}: far larger than any that undrift writes; name a folder that it made")
        text = path.read_bytes()
        state = json.loads(text.decode(), parse_constant=_refuse_constant)
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, UndriftError):
            raise
        raise ModelFileError(f"{path}: cannot be read ({_reason(error)}); {_afresh('run')}") from None
    if not isinstance(state, dict) or type(state.get("format")) is not int:
        raise ModelFileError(f"{path}: not written by undrift; name a folder that it made")
    if state["format"] < FORMAT:
        raise _too_old(path, "run")
    if state["format"] > FORMAT:
        raise ModelFileError(f"{path}: format {state['format']} is newer than this undrift reads; upgrade undrift")
    kind = state.get("kind")
    if not isinstance(kind, str) or kind not in COMMANDS:
        raise ModelFileError(f"{path}: damaged or edited ('kind' is {kind!r:.40}); {_afresh('run')}")
    if not _is_whole(text):
        raise ModelFileError(f"{path}: damaged or edited (it does not match its checksum); {_afresh(kind)}")
    state.pop("sha256", None)
    return state


def _is_whole(text: bytes) -> bool:
    """Whether the checksum in the head of a `run.json` is that of the file."""
    found = _CHECKSUM.search(text)
    return found is not None and _digest(_CHECKSUM.sub(rb"\1\3", text, count=1)) == found[2]


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _refuse_earlier(folder: Path) -> None:
    """Refuse a folder that an earlier undrift wrote."""
    for name, kind in EARLIER.items():
        if os.path.lexists(folder / name):
            raise _too_old(folder / name, kind)


def _too_old(path: Path, kind: str) -> ModelFileError:
    return ModelFileError(f"{path}: written by an undrift before 0.3; {_afresh(kind)}")


def _afresh(kind: str) -> str:
    return f"learn its file again: {COMMANDS[kind]} FILE --force"


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"{str(error)[:80]} is missing"
    return f"{str(error).splitlines()[0][:120]}" if str(error) else type(error).__name__


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")

"""Whether a run may start, go on or be replaced in a folder: only what is ours, and only to the same result."""

from __future__ import annotations

import undrift
from undrift.errors import InputError, ModelFileError
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.state import STATE, RunState
from undrift.run.prepare.columns import infer_columns
from undrift.run.prepare.rows_in_order import read_rows
from undrift.run.read.source import Source


def find_state(folder: RunFolder, source: Source, *, resume: bool, force: bool) -> RunState | None:
    """Return the state to continue from; None to start. Refuse what is not ours or not the same."""
    if not folder.exists:
        folder.refuse_foreign_files()
        folder.sweep(None)
        return None
    try:
        state = folder.state()
    except ModelFileError:
        if not force or not folder.files.knows(STATE):
            raise
        folder.files.adopt(STATE)  # ours, but damaged: it may be replaced
        return None
    folder.adopt_files(state)
    try:
        folder.sweep(state)
    except ModelFileError:
        if not force:
            raise
    if force:
        return None
    if not resume:
        if not source.stdin:
            infer_columns(read_rows(source)[0])  # a slip in the settings is what the user should hear of first
        raise InputError(
            f"{folder.path}: there is a run already; continue it with --resume, replace it with --force, "
            "or choose another folder with --out"
        )
    if source.stdin:
        raise InputError("the standard input cannot be resumed: its first rows are gone; start again with --force")
    _refuse_difference(folder, state, source)
    return state


def _refuse_difference(folder: RunFolder, state: RunState, source: Source) -> None:
    """Refuse to continue where the result would not be the one of a run that was never interrupted."""
    then = state["provenance"]["source"]
    if then["sha256"] != source.digest():
        raise InputError(
            f"{folder.path}: a run of another file ({then['path']}, or its contents then); choose another --out"
        )
    asked = source.settings.as_dict()
    changed = sorted(k for k in {*asked, *state["settings"]} if asked.get(k) != state["settings"].get(k))
    if changed:
        k = changed[0]
        raise InputError(
            f"{folder.path}: this run has {k} = {state['settings'].get(k)!r}, not {asked.get(k)!r}; "
            "resume with the same settings, or choose another --out"
        )
    if state["status"] == "finished":
        return
    before, now = state["provenance"].get("undrift"), undrift.__version__
    if before != now:
        raise InputError(
            f"{folder.path}: this run was begun by undrift {before}, this is {now}, which may compute otherwise; "
            f"install undrift {before}, or start again with --force"
        )

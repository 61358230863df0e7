"""`play_file`: predict every row of a file before its label, learn from it, and leave all that in a folder.

A run starts, goes on or is replaced in a folder only if what is there is ours, and only to the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import undrift
from undrift._internal.state_file import STATE
from undrift._internal.stopping import Interrupted, StopRequest
from undrift.errors import InputError, ModelFileError
from undrift.run.play.run_folder import FINAL, RunFolder
from undrift.run.play.run_loop import Progress, RunLoop
from undrift.run.play.state import RunState
from undrift.run.read.rows_in_order import add_default_lags, read_rows
from undrift.run.read.source import Source
from undrift.stream.extras import log_sentence
from undrift.stream.schema import infer_schema
from undrift.stream.settings import Settings


def play_file(
    path: str,
    out: str | Path,
    settings: Settings,
    *,
    resume: bool = False,
    force: bool = False,
    command: str = "",
    progress: Callable[[Progress], None] | None = None,
    log: Callable[[str], None] | None = None,
    stop: StopRequest | Callable[[], bool] | None = None,
    versions: int | None = None,
) -> RunState:
    """Predict every row of a file before its label, learn from it, and leave all that in the folder `out`.

    Parameters
    ----------
    path
        A CSV or JSON (packed or not), Excel or Parquet file; "-" is CSV or NDJSON on the standard input.
    out
        Folder of the run.
    settings
        What to predict, and how.
    resume
        Continue a run that was interrupted: the same bits as if it never had been. Start one if there is none.
    force
        Replace a run that is there, once the new one has its first commit; until then nothing of the old one changes.
    command
        What the user typed, for the record.
    progress
        Called after every batch with how far the run is.
    log
        Called with sentences for the user: what the columns were taken for, and the like; None: `logging`.
    stop
        Asked after every batch, and while the source is read, whether to stop.
    versions
        How many versions the folder keeps for `rollback_run`, the current one counted; None: 5, or as many as before.

    Raises
    ------
    Interrupted
        `stop` asked for it; the text says what the folder holds.

    Returns
    -------
    RunState
        What `run.json` holds.
    """
    Source(path, settings)  # refuses what is no file before anything is made
    folder = RunFolder(out)
    request = stop if isinstance(stop, StopRequest) else StopRequest(stop)
    say = log or log_sentence
    with folder.hold_lock():
        try:
            with request.interruptible():
                source = Source(path, add_default_lags(path, settings))
                source.digest()  # before any row is read, so that it covers every row that is learned
                state = find_state(folder, source, resume=resume, force=force)
                if state is not None and state["status"] != "running":
                    say(f"{folder.path}: this run is finished, {state['rows']:,} rows; nothing to do")
                    return state
                folder.files.refuse_foreign(FINAL)  # now, not when all the work is done
                loop = RunLoop(source, folder, command, say, versions=versions)
                loop.start(state)
        except Interrupted:
            raise Interrupted(f"{folder.path} is as it was before") from None
        return loop.play_all(progress or (lambda _: None), request)


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
            infer_schema(read_rows(source)[0])  # a slip in the settings is what the user should hear of first
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
    then = state["learned"][0]
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

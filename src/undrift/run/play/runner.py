"""`play_file`: predict every row of a file before its label, learn from it, and leave all that in a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from undrift._internal.stopping import Interrupted, StopRequest
from undrift.run.extras import log_sentence
from undrift.run.play.resume import find_state
from undrift.run.play.run_folder import FINAL, RunFolder
from undrift.run.play.run_loop import Progress, RunLoop
from undrift.run.play.state import RunState
from undrift.run.prepare.default_lags import add_default_lags
from undrift.run.read.source import Source
from undrift.run.settings import Settings


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
                loop = RunLoop(source, folder, command, say)
                loop.start(state)
        except Interrupted:
            raise Interrupted(f"{folder.path} is as it was before") from None
        return loop.play_all(progress or (lambda _: None), request)

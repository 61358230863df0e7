"""`forecast_file` and `learn_later_file`: the series of a file, forecast after every row, and again tomorrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from undrift._internal.state_file import explain_damage
from undrift._typing import Matrix
from undrift.errors import DataError, InputError, LearnedBeforeError
from undrift.events import Event
from undrift.forecast import Forecaster
from undrift.forecast.calendar import Seconds
from undrift.run.forecast.columns import ForecastSource, settle_target
from undrift.run.forecast.forecast_folder import ForecastFolder, require_free
from undrift.run.forecast.panel import read_panel
from undrift.run.forecast.recorder import ForecastRecorder
from undrift.run.forecast.scores import ForecastScores
from undrift.run.ledger import LedgerEntry, extend_entry, find_grown, make_entry, put_entry, was_learned
from undrift.stream.extras import log_sentence
from undrift.stream.settings import ForecastSettings

Log = Callable[[str], None]
Render = Callable[["ForecastResult", Path], object]
Result = TypeVar("Result")


class ForecastResult(NamedTuple):
    """Everything about forecasts in a folder, for reports and tables."""

    folder: Path
    state: dict[str, Any]
    """What `run.json` holds."""
    model: Forecaster
    times: Seconds | None
    """Of the rows learned."""
    values: Matrix
    """(rows, series)."""
    scores: ForecastScores
    added: int
    """Rows that this call learned."""
    skipped: int
    """Rows that were learned before."""
    changes: int = 0
    """Events that this call found."""


class FilePass(NamedTuple):
    """A file that is being learned into a folder, which is locked."""

    folder: ForecastFolder
    state: dict[str, Any]
    """What `run.json` will say."""
    settings: ForecastSettings
    source: ForecastSource
    log: Log

    def begin_entry(self) -> tuple[LedgerEntry, bool]:
        """Return the file's entry in the ledger, and whether it is a file learned before that grew."""
        learned, by = self.state["learned"], "update" if self.state["learned"] else "forecast"
        grown = find_grown(learned, self.source)
        entry = make_entry(self.source, by) if grown is None else extend_entry(learned[grown], self.source, by)
        put_entry(learned, grown, entry)
        return entry, grown is not None


def forecast_file(
    path: str, out: str | Path, settings: ForecastSettings, *, force: bool = False, log: Log | None = None,
    report: Render | None = None,
) -> ForecastResult:  # fmt: skip
    """Forecast the series of a file after every row, and leave all that in the folder `out`.

    Parameters
    ----------
    path
        A CSV or JSON (packed or not), Excel or Parquet file.
    out
        Folder of the forecasts; it appears when everything is done.
    settings
        What to forecast, and how far.
    force
        Replace forecasts that are there.
    log
        Called with sentences for the user.
    report
        Writes the report.
    """
    return begin_folder(path, out, settings, _learn_series, force=force, log=log, report=report)


def begin_folder(
    path: str, out: str | Path, settings: ForecastSettings, learn: Callable[[FilePass], Result], *, force: bool,
    resume: bool = False, log: Log | None, report: Callable[[Result, Path], object] | None,
) -> Result:  # fmt: skip
    """Let `learn` take in the first file of a folder, or with `resume` go on with it, and write the report."""
    settings = settle_target(path, settings, log or log_sentence)
    source, folder = ForecastSource(path, settings), ForecastFolder(out)
    with folder.hold_lock():
        source.digest()  # before any row is read, so that it covers every row that is learned
        if resume and folder.exists:
            state = folder.read_state()
            if ForecastSettings.from_dict(state["settings"]) != settings:
                raise InputError(f"{out}: it was begun with other options; repeat them, or begin anew with --force")
        else:
            require_free(folder, force=force)
            state = {
                "settings": settings.as_dict(), "plan": None, "rows": 0, "last": None, "learned": [], "notes": [],
                "commits": 0,
            }  # fmt: skip
        return _learn(FilePass(folder, state, settings, source, log or log_sentence), learn, report)


def learn_later_file(
    folder: ForecastFolder, path: str, *, log: Log | None = None, report: Render | None = None
) -> ForecastResult:
    """Learn the new rows of a file into a folder that has no journal."""
    return update_folder(folder, path, _learn_series, log=log, report=report)


def update_folder(
    folder: ForecastFolder, path: str, learn: Callable[[FilePass], Result], *, log: Log | None,
    report: Callable[[Result, Path], object] | None,
) -> Result:  # fmt: skip
    """Let `learn` take in a later file, unless it was learned, and write the report."""
    if not folder.exists:
        out = folder.path
        raise InputError(f"{out}: no forecasts there; begin with undrift forecast FILE --target COLUMN --out {out}")
    with folder.hold_lock():
        state = folder.read_state()
        folder.adopt_files(state)
        settings = ForecastSettings.from_dict(state["settings"])
        source = ForecastSource(path, settings)
        digest = source.digest()
        if state.get("journal"):
            raise InputError(f"{folder.path}: a service has begun meanwhile; end it, then give the same command again")
        if was_learned(_finished_entries(state), digest):
            raise LearnedBeforeError(f"{path}: this very file was learned already; nothing was changed")
        return _learn(FilePass(folder, state, settings, source, log or log_sentence), learn, report)


def find_forecast(out: str | Path, path: str) -> dict[str, Any] | None:
    """Return the state of a folder in which this very file was forecast, if it was."""
    folder = ForecastFolder(out)
    if not folder.exists:
        return None
    state = folder.read_state()
    digest = ForecastSource(path, ForecastSettings.from_dict(state["settings"])).digest()
    return state if was_learned(_finished_entries(state), digest) else None


def event_sentence(event: Event) -> str:
    """Return what changed, and where."""
    return f"row {event.row:,}{'' if event.key is None else f' of {event.key:.60}'}: {event.sentence}"


def _finished_entries(state: dict[str, Any]) -> list[LedgerEntry]:
    """Return the files that were learned to the end."""
    return [one for one in state["learned"] if one.get("done", True)]


def _learn(
    work: FilePass, learn: Callable[[FilePass], Result], report: Callable[[Result, Path], object] | None
) -> Result:
    result = learn(work)
    if report is not None:
        work.folder.put_report(lambda path: report(result, path))
    return result


def _learn_series(work: FilePass) -> ForecastResult:
    """Learn a file whose series are forecast together."""
    folder, state, settings, source, log = work
    plan = folder.read_plan(state)
    entry, grown = work.begin_entry()
    after = None
    if plan is not None:
        after = state["last"] if plan.time is not None else state["rows"] - 1 if grown else None
    panel = read_panel(source, settings, plan, after)
    if plan is None:
        if not len(panel.values):
            raise DataError(
                f"{source.name}: '{settings.target[0]}' is empty in every row; there is nothing to forecast"
            )
        state |= {"plan": panel.plan.as_dict(), "notes": list(panel.notes)}
    for note in panel.notes:
        log(note)
    with explain_damage(folder.path, "forecast"):
        model = settings.forecaster() if plan is None else folder.read_model(state)
        recorder = ForecastRecorder(folder, state, model)
    events = recorder.play(panel, source, entry)
    for event in events:
        log(event_sentence(event))
    state, times, values, scores = recorder.commit()
    added, skipped = len(panel.values), panel.skipped
    return ForecastResult(folder.path, state, model, times, values, scores, added, skipped, len(events))

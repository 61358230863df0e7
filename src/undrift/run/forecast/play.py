"""`forecast_file` and `learn_later_file`: the series of a file, forecast after every row, and again tomorrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from undrift._internal.state_file import explain_damage
from undrift._typing import Matrix
from undrift.errors import DataError, InputError, LearnedBeforeError
from undrift.events import Event
from undrift.forecast import Forecaster
from undrift.forecast.calendar import Seconds
from undrift.run.forecast.columns import ForecastSource, settle_target
from undrift.run.forecast.forecast_folder import ForecastFolder, require_free
from undrift.run.forecast.panel import Panel, read_panel
from undrift.run.forecast.recorder import ForecastRecorder
from undrift.run.forecast.scores import ForecastScores
from undrift.run.ledger import LedgerEntry, extend_entry, find_grown, make_entry, put_entry, was_learned
from undrift.stream.extras import log_sentence
from undrift.stream.settings import ForecastSettings

Log = Callable[[str], None]
Render = Callable[["ForecastResult", Path], object]


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
    settings = settle_target(path, settings, log or log_sentence)
    source, folder = ForecastSource(path, settings), ForecastFolder(out)
    with folder.hold_lock():
        require_free(folder, force=force)
        source.digest()  # before any row is read, so that it covers every row that is learned
        panel = read_panel(source, settings)
        if not len(panel.values):
            raise DataError(
                f"{source.name}: '{settings.target[0]}' is empty in every row; there is nothing to forecast"
            )
        for note in panel.notes:
            (log or log_sentence)(note)
        state = begin_state(settings) | {"plan": panel.plan.as_dict(), "last": None, "notes": list(panel.notes)}
        state["learned"].append(make_entry(source, "forecast"))
        recorder = ForecastRecorder(folder, state, settings.forecaster())
        return _learn(recorder, panel, source, state["learned"][0], log, report)


def begin_state(settings: ForecastSettings) -> dict[str, Any]:
    """Return what `run.json` says before anything was learned."""
    return {"settings": settings.as_dict(), "plan": None, "rows": 0, "learned": [], "notes": [], "commits": 0}


def learn_later_file(
    folder: ForecastFolder, path: str, *, log: Log | None = None, report: Render | None = None
) -> ForecastResult:
    """Learn the new rows of a file into a folder that has no journal."""
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
        if was_learned(state["learned"], digest):
            raise LearnedBeforeError(f"{path}: this very file was learned already; nothing was changed")
        plan = folder.read_plan(state)
        assert plan is not None  # a file was learned
        grown = find_grown(state["learned"], source)
        after = state["last"] if plan.time is not None else state["rows"] - 1 if grown is not None else None
        panel = read_panel(source, settings, plan, after)
        for note in panel.notes:
            (log or log_sentence)(note)
        entry = make_entry(source, "update")
        if grown is not None:
            entry = extend_entry(state["learned"][grown], source, "update")
        put_entry(state["learned"], grown, entry)
        with explain_damage(folder.path, "forecast"):
            recorder = ForecastRecorder(folder, state, folder.read_model(state))
        return _learn(recorder, panel, source, entry, log, report)


def find_forecast(out: str | Path, path: str) -> dict[str, Any] | None:
    """Return the state of a folder in which this very file was forecast, if it was."""
    folder = ForecastFolder(out)
    if not folder.exists:
        return None
    state = folder.read_state()
    digest = ForecastSource(path, ForecastSettings.from_dict(state["settings"])).digest()
    return state if was_learned([one for one in state["learned"] if one.get("done", True)], digest) else None


def event_sentence(event: Event) -> str:
    """Return what changed, and where."""
    return f"row {event.row:,}{'' if event.key is None else f' of {event.key:.60}'}: {event.sentence}"


def _learn(
    recorder: ForecastRecorder, panel: Panel, source: ForecastSource, entry: LedgerEntry, log: Log | None,
    report: Render | None,
) -> ForecastResult:  # fmt: skip
    """Learn the rows of a panel, which are counted in an entry of the ledger, commit, and write the report."""
    events = recorder.play(panel, source, entry)
    for event in events:
        (log or log_sentence)(event_sentence(event))
    state, times, values, scores = recorder.commit()
    added, skipped = len(panel.values), panel.skipped
    result = ForecastResult(
        recorder.folder.path, state, recorder.model, times, values, scores, added, skipped, len(events)
    )
    if report is not None:
        recorder.folder.put_report(lambda path: report(result, path))
    return result

"""`forecast_file` and `update_forecast`: the series of a file, forecast after every row, and again tomorrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from undrift._typing import Matrix
from undrift.errors import DataError, InputError, LearnedBeforeError
from undrift.forecast import Forecaster, ForecastTrace
from undrift.forecast.calendar import Seconds, later_times
from undrift.run.forecast.columns import ForecastSource, settle_target
from undrift.run.forecast.forecast_folder import ForecastFolder, require_free
from undrift.run.forecast.panel import Panel, read_panel
from undrift.run.forecast.scores import Cube, ForecastScores, score, score_candidates
from undrift.run.ledger import LedgerEntry, extend_entry, find_grown, make_entry, put_entry, was_learned
from undrift.run.tables import as_csv
from undrift.stream.extras import log_sentence, polars
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
        state: dict[str, Any] = {
            "settings": settings.as_dict(),
            "plan": panel.plan.as_dict(),
            "rows": 0,
            "last": None,
            "learned": [],
            "notes": list(panel.notes),
            "commits": 0,
        }
        state["learned"].append(make_entry(source, "forecast"))
        return _learn(folder, state, settings.forecaster(), panel, state["learned"][0], None, report)


def update_forecast(
    out: str | Path, path: str, *, log: Log | None = None, report: Render | None = None
) -> ForecastResult:
    """Learn the new rows of a file: the same bits as if all rows had come in one file.

    The file may begin with all that was learned before and go on, or hold rows that are later (rows that are not are
    skipped and counted). A file that was learned already is refused.
    """
    folder = ForecastFolder(out)
    if not folder.exists:
        raise InputError(f"{out}: no forecasts there; begin with undrift forecast FILE --target COLUMN --out {out}")
    with folder.hold_lock():
        state = folder.read_state()
        folder.adopt_files(state)
        settings = ForecastSettings.from_dict(state["settings"])
        source = ForecastSource(path, settings)
        digest = source.digest()
        if was_learned(state["learned"], digest):
            raise LearnedBeforeError(f"{path}: this very file was learned already; nothing was changed")
        plan = folder.read_plan(state)
        assert plan is not None  # a file was learned
        grown = find_grown(state["learned"], source)
        after = state["last"] if plan.time is not None else state["rows"] - 1 if grown is not None else None
        panel = read_panel(source, settings, plan, after)
        for note in panel.notes:
            (log or log_sentence)(note)
        model, before = folder.read_model(state), read_tables(folder, state, settings)
        state["plan"] = panel.plan.as_dict()
        entry = make_entry(source, "update")
        if grown is not None:
            entry = extend_entry(state["learned"][grown], source, "update")
        put_entry(state["learned"], grown, entry)
        return _learn(folder, state, model, panel, entry, before, report)


def find_forecast(out: str | Path, path: str) -> dict[str, Any] | None:
    """Return the state of a folder in which this very file was forecast, if it was."""
    folder = ForecastFolder(out)
    if not folder.exists:
        return None
    state = folder.read_state()
    digest = ForecastSource(path, ForecastSettings.from_dict(state["settings"])).digest()
    return state if was_learned([one for one in state["learned"] if one.get("done", True)], digest) else None


class EarlierTables(NamedTuple):
    """What earlier commits hold."""

    frames: dict[str, Any]
    times: Seconds | None
    values: Matrix
    trace: ForecastTrace
    own: Cube
    """Forecasts of the user's own (origins, series, candidates, steps)."""


def read_tables(folder: ForecastFolder, state: dict[str, Any], settings: ForecastSettings) -> EarlierTables:
    """Return values and forecasts of a folder."""
    frames = {name: folder.read_table(state, name) for name in ("forecasts", "values")}
    values = frames["values"].select(frames["values"].columns[1:]).fill_null(np.nan).to_numpy().astype(np.float64)
    times = None
    if state["plan"]["time"] is not None:
        times = frames["values"]["time"].to_numpy().astype("datetime64[s]").astype(np.int64)
    shape = (-1, len(state["plan"]["names"]), settings.horizon)

    def cube(name: str) -> Cube:
        return np.asarray(frames["forecasts"][name].fill_null(np.nan).to_numpy().reshape(shape))

    yhat, lower, upper = cube("yhat"), cube("lower"), cube("upper")
    own = [cube(_own_column(name)) for name in settings.candidate]
    return EarlierTables(
        frames,
        times,
        values,
        ForecastTrace(yhat, lower, upper, ~np.isnan(yhat[:, :, 0])),
        np.stack(own, axis=2) if own else np.empty((*yhat.shape[:2], 0, yhat.shape[2])),
    )


def _own_column(name: str) -> str:
    """Return what a candidate's forecasts are called in the table of forecasts."""
    return f"candidate {name}"


def _learn(
    folder: ForecastFolder, state: dict[str, Any], model: Forecaster, panel: Panel, entry: LedgerEntry,
    before: EarlierTables | None, report: Render | None,
) -> ForecastResult:  # fmt: skip
    """Play the rows of a panel, and commit what came of it together with what was there."""
    settings = ForecastSettings.from_dict(state["settings"])
    known = panel.known if settings.known else None
    rows = int(state["rows"])
    given = panel.own if settings.candidate else None
    trace = model.play(panel.values, known=known, times=instants(panel.times), candidates=given)
    kept = np.flatnonzero((rows + np.arange(len(panel.values))) % settings.every == 0)
    trace = ForecastTrace(trace.yhat[kept], trace.lower[kept], trace.upper[kept], trace.known[kept])
    own = panel.own[kept]
    frames = {
        "forecasts": forecast_frame(panel, trace, rows + kept, kept, settings),
        "values": _value_frame(panel, rows),
    }
    times, values = panel.times, panel.values
    if before is not None:
        pl = polars(str(folder.path))
        frames = {name: pl.concat([before.frames[name], frame]) for name, frame in frames.items()}
        values = np.concatenate([before.values, values])
        trace, own = _join(before.trace, trace), np.concatenate([before.own, own])
        times = None if times is None or before.times is None else np.concatenate([before.times, times])
    season = next((one for one in reversed(model.seasons) if one < len(values)), 0)  # a longer one has no last season
    yhat, lower, upper = (np.where(trace.known[:, :, None], part, np.nan) for part in trace[:3])
    scores = score(values, yhat, lower, upper, every=settings.every, season=season, level=settings.level)
    entry["rows"] += len(panel.values)
    entry["skipped"] += panel.skipped
    state = state | {
        "rows": rows + len(panel.values),
        "last": state["last"] if times is None or not len(times) else int(times[-1]),
        "seasons": list(model.seasons),
        "scores": scores.as_dict(),
    }
    if settings.candidate:
        found = score_candidates(values, yhat, own, every=settings.every, names=settings.candidate)
        state["candidates"] = [one._asdict() for one in found]
    ahead = next_frame(model, panel.plan.names, state["rows"], timed=panel.times is not None)
    state = folder.commit(state, model, frames, as_next_csv(ahead))
    result = ForecastResult(folder.path, state, model, times, values, scores, len(panel.values), panel.skipped)
    if report is not None:
        folder.put_report(lambda path: report(result, path))
    return result


def _join(one: ForecastTrace, two: ForecastTrace) -> ForecastTrace:
    """Return the forecasts of two blocks of origins as one."""
    parts = [np.concatenate(pair) for pair in ((one.yhat, two.yhat), (one.lower, two.lower), (one.upper, two.upper))]
    return ForecastTrace(parts[0], parts[1], parts[2], np.concatenate([one.known, two.known]))


def instants(times: Seconds | None) -> Any:
    """Return seconds since 1970 as times."""
    return None if times is None else times.astype("datetime64[s]")


def forecast_frame(panel: Panel, trace: ForecastTrace, origins: Any, kept: Any, settings: ForecastSettings) -> Any:
    """Return the forecasts as a table: origin by origin, series by series, step by step."""
    pl = polars("forecasts")
    names, n, horizon = panel.plan.names, len(origins), settings.horizon
    each = len(names) * horizon
    step = np.tile(np.arange(1, horizon + 1), n * len(names))
    if panel.times is None:
        origin, when = origins, origins[:, None] + np.arange(1, horizon + 1)
    else:
        origin = panel.times[kept].astype("datetime64[s]").astype("datetime64[us]")
        spacing = panel.plan.spacing
        ahead = np.arange(1, horizon + 1)
        when = (
            np.stack([later_times(int(one), ahead, max(spacing, 1)) for one in panel.times[kept]])
            if n
            else np.zeros((0, horizon), np.int64)
        )
        when = when.astype("datetime64[s]").astype("datetime64[us]")
    parts: dict[str, Cube] = {}
    for name in ("yhat", "lower", "upper"):
        parts[name] = np.where(trace.known[:, :, None], getattr(trace, name), np.nan).ravel()
    for k, name in enumerate(settings.candidate):
        parts[_own_column(name)] = panel.own[kept, :, k].ravel()
    frame = pl.DataFrame(
        {
            "series": np.tile(np.repeat(np.array(names, dtype=object), horizon), n),
            "origin": np.repeat(origin, each),
            "step": step.astype(np.int32),
            "time": np.repeat(when, len(names), axis=0).ravel() if len(names) > 1 else when.ravel(),
            **parts,
        },
        schema_overrides={"series": pl.String},
    )
    return frame.with_columns(pl.col(list(parts)).fill_nan(None))


def _value_frame(panel: Panel, first: int) -> Any:
    pl = polars("values")
    times = instants(panel.times)
    when = first + np.arange(len(panel.values)) if times is None else times.astype("datetime64[us]")
    columns = {f"{i}": panel.values[:, i] for i in range(panel.values.shape[1])}
    return pl.DataFrame({"time": when, **columns}).with_columns(pl.col(list(columns)).fill_nan(None))


def next_frame(model: Forecaster, names: Sequence[str], rows: int, *, timed: bool) -> Any:
    """Return the steps after the last row as a table: series, step, time, yhat, lower, upper.

    Without times, `time` is the number of the row, the first one being 0; with them, it is missing until two rows show
    how far apart rows are.
    """
    pl = polars("next steps")
    found, steps = model.forecast(), np.arange(1, model.horizon + 1)
    when: Any = rows - 1 + steps
    if timed:
        when = model.times().astype("datetime64[us]") if model.spacing else np.full(len(steps), "NaT", "datetime64[us]")
    return pl.DataFrame(
        {
            "series": [name for name in names for _ in steps],
            "step": np.tile(steps.astype(np.int32), len(names)),
            "time": np.tile(when, len(names)),
            **{name: getattr(found, name).ravel() for name in ("yhat", "lower", "upper")},
        },
        schema_overrides={"series": pl.String, "time": pl.Datetime("us") if timed else pl.Int64},
    )


def as_next_csv(frame: Any) -> bytes:
    """Return the next steps as CSV: times to the second, and `yhat` under the name `forecast`."""
    pl = polars("next steps")
    texts = frame.with_columns(pl.col(pl.Datetime).dt.to_string("%Y-%m-%dT%H:%M:%S"))
    return as_csv(texts.rename({"yhat": "forecast"})).encode()

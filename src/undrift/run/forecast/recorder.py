"""ForecastRecorder: a forecaster while it learns rows, and what its folder keeps of them.

Forecasts of a file and of a service are written through it: the same tables, scores and next steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from undrift._typing import Matrix
from undrift.forecast import Forecaster, ForecastTrace
from undrift.forecast.calendar import Seconds, later_times
from undrift.run.forecast.forecast_folder import ForecastFolder
from undrift.run.forecast.panel import Panel
from undrift.run.forecast.scores import Cube, ForecastScores, score, score_candidates
from undrift.run.ledger import LedgerEntry
from undrift.run.tables import as_csv
from undrift.stream.extras import polars
from undrift.stream.settings import ForecastSettings


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


class _PlayedPanel(NamedTuple):
    """Rows that were learned together, and the forecasts made after those that are origins."""

    first: int
    """How many rows came before."""
    panel: Panel
    kept: Any
    """Which rows are origins."""
    trace: ForecastTrace


class ForecastCommit(NamedTuple):
    """What a folder holds after a commit."""

    state: dict[str, Any]
    times: Seconds | None
    values: Matrix
    scores: ForecastScores


class ForecastRecorder:
    """A forecaster, the rows it has learned since the last commit, and the forecasts it made after them.

    Parameters
    ----------
    folder
        Where commits go; locked.
    state
        What `run.json` holds, or will hold first.
    model
        The forecaster after the rows of this state.
    """

    def __init__(self, folder: ForecastFolder, state: dict[str, Any], model: Forecaster) -> None:
        self.folder, self.state, self.model = folder, state, model
        self.settings = ForecastSettings.from_dict(state["settings"])
        self.rows, self.last = int(state["rows"]), state["last"]
        """Rows so far, and seconds since 1970 of the last one; None without times."""
        self._blocks: list[_PlayedPanel] = []

    def play(self, panel: Panel, entry: LedgerEntry) -> None:
        """Learn the rows of a panel, which are counted in an entry of the ledger."""
        settings = self.settings
        known = panel.known if settings.known else None
        own = panel.own if settings.candidate else None
        trace = self.model.play(panel.values, known=known, times=instants(panel.times), candidates=own)
        kept = np.flatnonzero((self.rows + np.arange(len(panel.values))) % settings.every == 0)
        trace = ForecastTrace(trace.yhat[kept], trace.lower[kept], trace.upper[kept], trace.known[kept])
        self._blocks.append(_PlayedPanel(self.rows, panel, kept, trace))
        self.rows += len(panel.values)
        if panel.times is not None and len(panel.times):
            self.last = int(panel.times[-1])
        entry["rows"] += len(panel.values)
        entry["skipped"] += panel.skipped
        self.state["plan"] = panel.plan.as_dict()

    def commit_state(self) -> dict[str, Any]:
        """Write what `run.json` says, where no rows were learned; return it."""
        self.state = self.folder.commit_state(self.state)
        return self.state

    def commit(self) -> ForecastCommit:
        """Write what was learned into the folder, together with what was there."""
        settings, folder, blocks = self.settings, self.folder, self._blocks
        frames = [
            {
                "forecasts": forecast_frame(block.panel, block.trace, block.first + block.kept, block.kept, settings),
                "values": _value_frame(block.panel, block.first),
            }
            for block in blocks
        ]
        times = [block.panel.times for block in blocks]
        values, traces = [block.panel.values for block in blocks], [block.trace for block in blocks]
        own = [block.panel.own[block.kept] for block in blocks]
        if "files" in self.state:
            before = read_tables(folder, self.state, settings)
            frames, times, values = [before.frames, *frames], [before.times, *times], [before.values, *values]
            traces, own = [before.trace, *traces], [before.own, *own]
        pl = polars(str(folder.path))
        tables = {name: pl.concat([one[name] for one in frames]) for name in ("forecasts", "values")}
        whole, seen = np.concatenate(values), [one for one in times if one is not None]
        trace = ForecastTrace(*(np.concatenate(part) for part in zip(*traces, strict=True)))
        seasons = self.model.seasons
        season = next((one for one in reversed(seasons) if one < len(whole)), 0)  # a longer one has no last season
        yhat, lower, upper = (np.where(trace.known[:, :, None], part, np.nan) for part in trace[:3])
        scores = score(whole, yhat, lower, upper, every=settings.every, season=season, level=settings.level)
        state = self.state | {
            "rows": self.rows,
            "last": self.last,
            "seasons": list(seasons),
            "scores": scores.as_dict(),
        }
        if settings.candidate:
            found = score_candidates(whole, yhat, np.concatenate(own), every=settings.every, names=settings.candidate)
            state["candidates"] = [one._asdict() for one in found]
        timed = bool(seen)
        ahead = next_frame(self.model, state["plan"]["names"], self.rows, timed=timed)
        self.state = folder.commit(state, self.model, tables, as_next_csv(ahead))
        self._blocks = []
        return ForecastCommit(self.state, np.concatenate(seen) if timed else None, whole, scores)


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

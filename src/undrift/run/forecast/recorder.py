"""ForecastRecorder: a forecaster while it learns rows, and what its folder keeps of them.

Forecasts of a file and of a service are written through it: the same tables, scores and next steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix
from undrift.errors import InputError
from undrift.events import Event, Watch
from undrift.forecast import Forecast, Forecaster, ForecastTrace
from undrift.forecast.calendar import Seconds, later_times
from undrift.forecast.forecaster import NO_QUANTILES
from undrift.run.forecast.forecast_folder import ForecastFolder
from undrift.run.forecast.known_columns import KnownColumns
from undrift.run.forecast.panel import Panel, PanelPlan
from undrift.run.forecast.scores import Cube, ForecastScores, StepScores, score, score_candidates
from undrift.run.ledger import LedgerEntry
from undrift.run.tables import as_csv
from undrift.stream.answers import quantile_column
from undrift.stream.extras import polars
from undrift.stream.first_rows import RowOrigin
from undrift.stream.settings import ForecastSettings

BETWEEN_ALARMS = 5000.0
"""Rows between two false alarms of all series together, at least, on average; of keys, rows of all of them."""
BLOCK_NUMBERS = 4_000_000
"""Numbers that are known in advance of the rows that are learned at once."""
MOST_WATCHED = 200
"""Series that are watched together."""


class EarlierTables(NamedTuple):
    """What earlier commits hold."""

    frames: dict[str, Any]
    times: Seconds | None
    values: Matrix
    trace: ForecastTrace
    own: Cube
    """Forecasts of the user's own (origins, series, candidates, steps)."""


def read_tables(
    folder: ForecastFolder, state: dict[str, Any], settings: ForecastSettings, key: str | None = None
) -> EarlierTables:
    """Return values and forecasts of a folder; with many keys those of one."""
    frames = {name: folder.read_table(state, name) for name in ("forecasts", "values")}
    names = state["plan"]["names"]
    if key is not None:
        pl, names = polars(str(folder.path)), [key]
        frames = {name: frame.filter(pl.col("series") == key) for name, frame in frames.items()}
        frames["values"] = frames["values"].drop("series")
    values = frames["values"].select(frames["values"].columns[1:]).fill_null(np.nan).to_numpy().astype(np.float64)
    times = None
    if state["plan"]["time"] is not None:
        times = frames["values"]["time"].to_numpy().astype("datetime64[s]").astype(np.int64)
    shape = (-1, len(names), settings.horizon)

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


class PlayedPanel(NamedTuple):
    """Rows that were learned together, and the forecasts made after those that are origins."""

    first: int
    """How many rows came before."""
    panel: Panel
    kept: NDArray[np.int64]
    """Which rows are origins."""
    trace: ForecastTrace
    events: list[Event]
    """What changed."""

    def frames(self, settings: ForecastSettings) -> dict[str, Any]:
        """Return the rows of the tables of forecasts and values."""
        origins = self.first + self.kept
        return {
            "forecasts": forecast_frame(self.panel, self.trace, origins, self.kept, settings),
            "values": _value_frame(self.panel, self.first, keyed=settings.key is not None),
        }


class SeriesRecord:
    """A forecaster with the features of its known columns and a watch over its errors: of a key, or of all series.

    Parameters
    ----------
    settings
        What is forecast.
    plan
        The series, and which known columns hold texts.
    model
        The forecaster.
    state
        What `state` gave when it was saved.
    """

    def __init__(
        self, settings: ForecastSettings, plan: PanelPlan, model: Forecaster, state: Mapping[str, Any] | None = None
    ) -> None:
        self.settings, self.model = settings, model
        self.known = KnownColumns(settings, plan.texts)
        if settings.alert and len(plan.names) > MOST_WATCHED:
            raise InputError(
                f"undrift forecast: --alert watches at most {MOST_WATCHED} series together, got {len(plan.names)}; "
                "forecast each by itself with --key, or leave out --alert"
            )
        rows = BETWEEN_ALARMS * len(plan.names)
        self.watches = [Watch(rows, level=settings.level) for _ in plan.names if settings.alert]
        if state:
            self.known.resume(state["known"])
            for watch, saved in zip(self.watches, state["watches"], strict=True):
                watch.resume(saved)

    def state(self) -> dict[str, Any]:
        """Return what later rows depend on besides the forecaster, as JSON values; nothing where that is nothing."""
        if not (self.settings.known or self.watches):
            return {}
        return {"known": self.known.state(), "watches": [watch.state() for watch in self.watches]}

    def play(self, panel: Panel, origin: RowOrigin, scores: StepScores | None = None) -> PlayedPanel:
        """Learn the rows of a panel; with `scores`, judge row by row what was forecast of them."""
        model, settings, first = self.model, self.settings, self.model.rows
        before, traces = self._last_forecast() if self.watches else None, list[ForecastTrace]()
        size = max(1, BLOCK_NUMBERS // ((settings.horizon + 1) * max(1, self.known.width)))
        for a in range(0, len(panel.values), size):
            y, known = panel.values[a : a + size], None
            if settings.known:  # what is known of the next steps, for one block of rows at a time
                cells = panel.known[a : a + len(y) + settings.horizon]
                known = self.known.windows(origin, cells, panel.texts, y)
            for rows in [slice(i, i + 1) for i in range(len(y))] if scores is not None else [slice(0, len(y))]:
                there = slice(a + rows.start, a + rows.stop)
                trace = model.play(
                    y[rows],
                    known=None if known is None else known[rows],
                    times=None if panel.times is None else instants(panel.times[there]),
                    candidates=panel.own[there] if settings.candidate else None,
                    quantiles=settings.quantiles,
                )
                traces.append(trace)
                if scores is not None:
                    seen = trace.known[0, 0]
                    said = Forecast(trace.yhat[0, 0], trace.lower[0, 0], trace.upper[0, 0]) if seen else None
                    scores.observe(float(y[rows][0, 0]), said, model.naive_forecasts()[0] if seen else None)
        whole = _join_traces(traces) if traces else _no_trace(panel, settings)
        events = self._look(panel, first, whole, before) if self.watches else []
        kept = np.flatnonzero((first + np.arange(len(panel.values))) % settings.every == 0)
        return PlayedPanel(first, panel, kept, _join_traces([whole], kept), events)

    def _last_forecast(self) -> Matrix:
        """Return forecast and interval of the next row (series, 3), NaN where nothing is known."""
        out = np.full((len(self.watches), 3), np.nan)
        if self.model.rows:
            known = ~np.isnan(self.model.naive_forecasts()[:, 0, 0])
            if known.any():
                out[known] = np.stack([part[:, 0] for part in self.model.forecast()], axis=1)[known]
        return out

    def _look(self, panel: Panel, first: int, trace: ForecastTrace, before: Matrix | None) -> list[Event]:
        """Hold every value against its forecast one step before; return what changed, row by row."""
        assert before is not None
        ahead = np.stack([part[:, :, 0] for part in trace[:3]], axis=2)
        said = np.concatenate([before[None], np.where(trace.known[:, :, None], ahead, np.nan)])
        named = self.settings.key is not None or len(self.watches) > 1
        events: list[Event] = []
        for i, row in enumerate(panel.values.tolist()):
            for s, y in enumerate(row):
                yhat, lower, upper = said[i, s].tolist()
                if y == y and yhat == yhat:
                    found = self.watches[s].add_round(first + i + 1, y, yhat, lower, upper)
                    events += [one._replace(key=panel.plan.names[s] if named else None) for one in found]
        return events


def _join_traces(traces: Sequence[ForecastTrace], rows: Any = slice(None)) -> ForecastTrace:
    """Return forecasts one after the other, of some rows."""
    return ForecastTrace(*(np.concatenate(part)[rows] for part in zip(*traces, strict=True)))


def _no_trace(panel: Panel, settings: ForecastSettings) -> ForecastTrace:
    size = (0, len(panel.plan.names), settings.horizon)
    quantiles = np.zeros((*size[:2], len(settings.quantiles), size[2]))
    return ForecastTrace(np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size[:2], bool), quantiles)


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
        self.folder, self.state = folder, state
        self.settings = ForecastSettings.from_dict(state["settings"])
        self.record = SeriesRecord(self.settings, PanelPlan.from_dict(state["plan"]), model, state.get("record"))
        self.rows, self.last = int(state["rows"]), state["last"]
        """Rows so far, and seconds since 1970 of the last one; None without times."""
        self._blocks: list[PlayedPanel] = []

    @property
    def model(self) -> Forecaster:
        """The forecaster."""
        return self.record.model

    def play(self, panel: Panel, origin: RowOrigin, entry: LedgerEntry) -> list[Event]:
        """Learn the rows of a panel, which are counted in an entry of the ledger; return what changed."""
        block = self.record.play(panel, origin)
        self._blocks.append(block)
        self.rows += len(panel.values)
        if panel.times is not None and len(panel.times):
            self.last = int(panel.times[-1])
        entry["rows"] += len(panel.values)
        entry["skipped"] += panel.skipped
        self.state["plan"] = panel.plan.as_dict()
        return block.events

    def commit_state(self) -> dict[str, Any]:
        """Write what `run.json` says, where no rows were learned; return it."""
        self.state = self.folder.commit_state(self.state)
        return self.state

    def commit(self) -> ForecastCommit:
        """Write what was learned into the folder, together with what was there."""
        settings, folder, blocks = self.settings, self.folder, self._blocks
        frames = [block.frames(settings) for block in blocks]
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
        trace = _join_traces([one._replace(quantiles=NO_QUANTILES) for one in traces])
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
        if record := self.record.state():
            state["record"] = record
        if settings.alert:
            state["events"] = [*state.get("events", ()), *(one.as_dict() for block in blocks for one in block.events)]
        if settings.candidate:
            found = score_candidates(whole, yhat, np.concatenate(own), every=settings.every, names=settings.candidate)
            state["candidates"] = [one._asdict() for one in found]
        timed = bool(seen)
        ahead = next_frame(self.model, state["plan"]["names"], self.rows, settings.quantiles, timed=timed)
        self.state = folder.commit(state, tables, as_next_csv(ahead), self.model)
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
    for k, q in enumerate(settings.quantiles):
        parts[quantile_column(q)] = np.where(trace.known[:, :, None], trace.quantiles[:, :, k], np.nan).ravel()
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


def _value_frame(panel: Panel, first: int, *, keyed: bool) -> Any:
    """Return the values as a table: the time and a column for each series; of a key, after its name."""
    pl = polars("values")
    times = instants(panel.times)
    when = first + np.arange(len(panel.values)) if times is None else times.astype("datetime64[us]")
    columns = {f"{i}": panel.values[:, i] for i in range(panel.values.shape[1])}
    frame = pl.DataFrame({"time": when, **columns}).with_columns(pl.col(list(columns)).fill_nan(None))
    return frame.select(pl.lit(panel.plan.names[0]).alias("series"), pl.all()) if keyed else frame


def next_frame(
    model: Forecaster, names: Sequence[str], rows: int, quantiles: Sequence[float] = (), *, timed: bool
) -> Any:
    """Return the steps after the last row as a table: series, step, time, yhat, lower, upper, and quantiles.

    Without times, `time` is the number of the row, the first one being 0; with them, it is missing until two rows show
    how far apart rows are.
    """
    pl = polars("next steps")
    made = model.quantiles(quantiles)
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
            **{quantile_column(q): made[:, k].ravel() for k, q in enumerate(quantiles)},
        },
        schema_overrides={"series": pl.String, "time": pl.Datetime("us") if timed else pl.Int64},
    )


def as_next_csv(frame: Any) -> bytes:
    """Return the next steps as CSV: times to the second, and `yhat` under the name `forecast`."""
    pl = polars("next steps")
    texts = frame.with_columns(pl.col(pl.Datetime).dt.to_string("%Y-%m-%dT%H:%M:%S"))
    return as_csv(texts.rename({"yhat": "forecast"})).encode()

"""`forecast_keys` and `update_keys`: a forecaster of its own for every key of a file, and new rows later.

Only the file's columns and the forecasters of one shard are in memory. What counts is what `run.json` names: a
kill loses what was not committed, and the same command goes on behind it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift import kernels, store
from undrift._internal.folder import regular_file
from undrift._internal.state_file import explain_damage
from undrift.errors import InputError, ModelFileError
from undrift.forecast import Forecaster, forecast_file
from undrift.learners.serializable import warn_if_level_differs
from undrift.run.forecast.forecast_folder import ForecastFolder
from undrift.run.forecast.panel import KeyCells, key_panel, read_key_cells
from undrift.run.forecast.play import FilePass, Log, begin_folder, event_sentence, update_folder
from undrift.run.forecast.recorder import SeriesRecord, as_next_csv, next_frame
from undrift.run.forecast.scores import PARTS, StepScores
from undrift.run.ledger import LedgerEntry
from undrift.run.tables import write_parquet
from undrift.stream.extras import polars
from undrift.stream.settings import ForecastSettings

COMMIT_SECONDS = 30.0
"""Work that a kill may lose."""
COMMIT_ROWS = 2_000_000
"""Rows of the table of forecasts that are kept in memory."""


NAIVE = ("", "_last_time", "_last_season")
"""Endings of the columns of errors in the table of keys: ours, and those of both naive forecasts."""


class KeysResult(NamedTuple):
    """What came of a file with many keys."""

    folder: Path
    state: dict[str, Any]
    """What `run.json` holds."""
    keys: Any
    """A row for each key: rows, last time, season, errors beside both naive forecasts, coverage (a frame)."""
    added: int
    """Rows that this call learned."""
    skipped: int
    """Rows that were learned before."""
    changes: int = 0
    """Events that were found in this file."""


RenderKeys = Callable[[KeysResult, Path], object]


def forecast_keys(
    path: str, out: str | Path, settings: ForecastSettings, *, force: bool = False, resume: bool = False,
    log: Log | None = None, report: RenderKeys | None = None,
) -> KeysResult:  # fmt: skip
    """Forecast every key of a file by a forecaster of its own, as `forecast_file`.

    With `resume`, go on with a pass over this very file that was killed.
    """
    return begin_folder(path, out, settings, _learn, force=force, resume=resume, log=log, report=report)


def has_keys(out: str | Path) -> bool:
    """Whether every key of a folder of forecasts has a forecaster of its own."""
    return ForecastFolder(out).read_state()["settings"].get("key") is not None


def update_keys(out: str | Path, path: str, *, log: Log | None = None, report: RenderKeys | None = None) -> KeysResult:
    """Learn the new rows of a file, new keys among them; forecasts are those of one long file."""
    return update_folder(ForecastFolder(out), path, _learn, log=log, report=report)


def _learn(work: FilePass) -> KeysResult:
    """Learn a file shard by shard, committing now and then."""
    folder, state, settings, source, log = work
    entry = next((one for one in state["learned"] if not one["done"]), None)
    if entry is not None and entry["sha256"] != source.digest():
        raise InputError(f"{folder.path}: {entry['path']} was not finished; give that file again first")
    cells = read_key_cells(source, settings, folder.read_plan(state))
    if entry is None:
        entry, grown = work.begin_entry()
        entry |= {"whole": cells.plan.time is None and grown, "done": False}
        entry["before"] = [entry["rows"], entry["skipped"], len(state.get("events", ()))]
        for note in cells.notes:
            log(note)
        state |= {"plan": {**cells.plan.as_dict(), "names": []}, "notes": [*state["notes"], *cells.notes]}
        state |= {"files": {}, "shards": [], "parts": []} | state | {"passes": state.get("passes", 0) + 1}
    learned = _KeyPass(folder, state, settings, cells, entry, log)
    for shard in range(learned.shards):
        learned.learn_shard(shard)
    return learned.finish()


class _KeyPass:
    """One pass over a file: what was learned since the last commit, and the tables as they will be."""

    def __init__(
        self, folder: ForecastFolder, state: dict[str, Any], settings: ForecastSettings, cells: KeyCells,
        entry: LedgerEntry, log: Log,
    ) -> None:  # fmt: skip
        self.folder, self.state, self.settings, self.cells, self.entry = folder, state, settings, cells, entry
        self.log, self.rows_of = log, cells.rows_by_key()
        self.facts: dict[str, dict[str, Any]] = {}
        self.next: dict[str, Any] = {}
        """The next steps of keys that learned rows of this file; those of the others are in the table from before."""
        self.earlier_next: Any = None
        if state["files"]:
            for row in folder.read_table(state, "keys").iter_rows(named=True):
                self.facts[row["key"]] = row
            self.earlier_next = folder.read_table(state, "ahead") if "ahead" in state["files"] else None
        for key in self.rows_of:
            self.facts.setdefault(key, {"key": key, "shard": len(self.facts) // SHARD_KEYS, "rows": 0, "last": None})
        self.keys_of: dict[int, list[str]] = {}
        for key, fact in self.facts.items():
            self.keys_of.setdefault(fact["shard"], []).append(key)
        self.shards = len(self.keys_of)
        self.frames: list[dict[str, Any]] = []
        """Rows of the tables of forecasts and values that were not written yet."""
        self.last_commit = time.monotonic()

    def learn_shard(self, shard: int) -> None:
        """Let the keys of a shard learn their rows of this file, unless they have."""
        shards = self.state["shards"]
        if shard < len(shards) and shards[shard]["passes"] >= self.state["passes"]:
            return
        keys = self.keys_of[shard]
        name = shards[shard]["name"] if shard < len(shards) else None
        if any(key in self.rows_of for key in keys):
            old = {} if name is None else {one.key: one for one in read_shard(regular_file(self.folder.path, name))}
            models = [self._learn_key(key, old.get(key)) for key in keys]
            name = self.folder.files.next_free_name("models-", ".undrift", self.state["commits"])
            with self.folder.files.new_file(name, durable=False) as path:
                write_shard(path, models)
        done = {"name": name, "passes": self.state["passes"]}
        shards[shard : shard + 1] = [done]
        rows = sum(len(frames["forecasts"]) for frames in self.frames)
        if time.monotonic() - self.last_commit > COMMIT_SECONDS or rows > COMMIT_ROWS:
            self.commit()

    def _learn_key(self, key: str, known: KeyModel | None) -> KeyModel:
        """Play the new rows of one key, row by row, and judge what was said before each."""
        fact, settings = self.facts[key], self.settings
        if known is None:
            model = settings.forecaster(every=self.cells.plan.spacing or None)
            known = KeyModel(key, model, StepScores(settings.horizon, settings.level), {})
        if key not in self.rows_of:
            return known
        model, scores = known.model, known.scores
        after = fact["last"] if self.cells.plan.time is not None else fact["rows"] - 1 if self.entry["whole"] else None
        panel = key_panel(self.cells, key, self.rows_of[key], after if fact["rows"] else None)
        with explain_damage(self.folder.path, "forecast"):
            record = SeriesRecord(settings, panel.plan, model, known.state)
        played = record.play(panel, self.cells.source, scores)
        if len(panel.values):
            self.frames.append(played.frames(settings))
        for event in played.events:
            self.log(event_sentence(event))
        if settings.alert:
            self.state["events"] = [*self.state.get("events", ()), *(event.as_dict() for event in played.events)]
        self.entry["rows"] += len(panel.values)
        self.entry["skipped"] += panel.skipped
        self.state["rows"] += len(panel.values)
        fact["rows"] += len(panel.values)
        if panel.times is not None and len(panel.times):
            fact["last"] = int(panel.times[-1])
        fact |= _measure(model, scores)
        if len(panel.values) and not np.isnan(model.naive_forecasts()).all():
            timed = panel.times is not None
            self.next[key] = next_frame(model, [key], fact["rows"], settings.quantiles, timed=timed)
        return known._replace(state=record.state())

    def commit(self, *, last: bool = False) -> None:
        """Write the tables, and at last the state that names what counts; the last time, join the parts."""
        pl, state, files = polars(str(self.folder.path)), self.state, self.folder.files
        tables = {"keys": pl.DataFrame(list(self.facts.values()), schema=_schema())}
        ahead = list(self.next.values())
        if self.earlier_next is not None:
            ahead.insert(0, self.earlier_next.filter(~pl.col("series").is_in(list(self.next))))
        if ahead:
            tables["ahead"] = pl.concat(ahead)
        for table in ("forecasts", "values") if self.frames else ():
            name = files.next_free_name(f"{table}-", ".parquet", state["commits"] + 1)
            with files.new_file(name, durable=False) as path:
                write_parquet(pl.concat([frames[table] for frames in self.frames]), path)
            state["parts"].append(name)
        self.frames = []
        joined: dict[str, list[str]] = {}
        if last:
            for name in state["parts"]:
                joined.setdefault(name.partition("-")[0], []).append(name)
            joined = {name: [*filter(None, [state["files"].get(name)]), *parts] for name, parts in joined.items()}
            state["parts"] = []
        csv = as_next_csv(tables["ahead"]) if ahead else None
        self.state |= self.folder.commit(state, tables, csv, joined=joined)
        self.last_commit = time.monotonic()

    def finish(self) -> KeysResult:
        """Commit what is left, and say what came of it."""
        self.entry["done"] = True
        self.commit(last=True)
        keys = self.folder.read_table(self.state, "keys")
        rows, skipped, events = self.entry["before"]
        added, found = self.entry["rows"] - rows, len(self.state.get("events", ())) - events
        return KeysResult(self.folder.path, self.state, keys, added, self.entry["skipped"] - skipped, found)


def _measure(model: Forecaster, scores: StepScores) -> dict[str, Any]:
    """Return the row of a key in the table of keys."""
    found = scores.scores(model.seasons[-1] if model.seasons else 0)
    numbers = {f"mse{name}": found.mse[k] for k, name in enumerate(NAIVE)}
    numbers |= {f"mae{name}": found.mae[k] for k, name in enumerate(NAIVE)}
    numbers |= {"mase": found.mase[0], "pinball": found.pinball}
    numbers["coverage"] = float(scores.inside.sum()) / found.judged if found.judged else math.nan
    return {
        "season": model.seasons[-1] if model.seasons else None,
        "judged": found.judged,
        **{name: float(value) if math.isfinite(value) else None for name, value in numbers.items()},
    }


def _schema() -> dict[str, Any]:
    pl = polars("keys")
    whole = ("shard", "rows", "last", "season", "judged")
    numbers = [*(f"{error}{name}" for error in ("mse", "mae") for name in NAIVE), "mase", "pinball", "coverage"]
    return {"key": pl.String} | dict.fromkeys(whole, pl.Int64) | dict.fromkeys(numbers, pl.Float64)


def rank_keys(keys: Any) -> Any:
    """Return the table of keys, the worst first: by our squared errors over those of the better naive forecast."""
    pl = polars("keys")
    found = _with_best_naive(keys)
    ratio = pl.when(pl.col("mse_best_naive") > 0.0).then(pl.col("mse") / pl.col("mse_best_naive"))
    return found.with_columns(ratio=ratio).sort("ratio", descending=True, nulls_last=True, maintain_order=True)


def _with_best_naive(keys: Any) -> Any:
    return keys.with_columns(mse_best_naive=polars("keys").min_horizontal("mse_last_time", "mse_last_season"))


def summarize_keys(keys: Any) -> dict[str, Any]:
    """Return what a reader wants to know of all keys together: how often and how far naive forecasts were beaten."""
    pl = polars("keys")
    seen = _with_best_naive(keys).filter(pl.col("judged") > 0)
    found: dict[str, Any] = {"keys": len(keys), "rows": int(keys["rows"].sum()), "judged_keys": len(seen)}
    for name in ("best_naive", "last_time", "last_season"):
        against = seen.filter(pl.col(f"mse_{name}") > 0.0)
        ratio = (against["mse"] / against[f"mse_{name}"]).to_numpy()
        found[f"better_than_{name}"] = int(np.count_nonzero(ratio < 1.0))
        found[f"median_ratio_to_{name}"] = float(np.median(ratio)) if len(ratio) else None
    for name, values in (("coverage", seen["coverage"].mean()), ("median_mase", seen["mase"].median())):
        found[name] = None if values is None else float(values)
    return found


SHARD_KEYS = 64
"""Keys in one file."""


class KeyModel(NamedTuple):
    """What is known of one key."""

    key: str
    model: Forecaster
    scores: StepScores
    state: dict[str, Any]
    """What `SeriesRecord.state` gave."""


def write_shard(path: Path, keys: list[KeyModel]) -> None:
    """Write the models and scores of some keys."""
    header: store.Header = {
        "class": "ForecastShard",
        "level": kernels.level(),
        "keys": json.dumps([one.key for one in keys]),
    }
    arrays: dict[str, NDArray[np.float64]] = {}
    for i, one in enumerate(keys):
        header[f"model {i}"], own = forecast_file.describe(one.model)
        header[f"state {i}"] = json.dumps(one.state)
        arrays |= {f"{i}/model/{name}": array for name, array in own.items()}
        arrays |= {f"{i}/scores/{name}": array for name, array in one.scores.arrays().items()}
    store.write(path, header, arrays)


def read_shard(path: Path) -> list[KeyModel]:
    """Return the models and scores that `write_shard` wrote."""
    header, arrays = store.read(path)
    parts: dict[str, dict[str, NDArray[np.float64]]] = {}
    for name, array in arrays.items():
        where, _, own = name.rpartition("/")
        parts.setdefault(where, {})[own] = array
    try:
        if header.pop("class") != "ForecastShard":
            raise ModelFileError("not the forecasters of some keys")
        level = header.pop("level")
        names = [str(name) for name in json.loads(str(header["keys"]))]
        found = [_read_key(i, name, header, parts) for i, name in enumerate(names)]
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: damaged ({' '.join(str(error).split())[:100]})") from None
    warn_if_level_differs(f"{path} was saved", level)
    return found


def _read_key(i: int, name: str, header: store.Header, parts: dict[str, dict[str, NDArray[np.float64]]]) -> KeyModel:
    own = header.get(f"model {i}")
    if not isinstance(own, dict):
        raise ModelFileError("the model of a key is missing")
    model = forecast_file.restore(Forecaster, own, parts.get(f"{i}/model", {}))
    scores, saved = StepScores(model.horizon, model.level), parts.get(f"{i}/scores", {})
    if any(saved[part].shape != getattr(scores, part).shape for part in PARTS):
        raise ModelFileError("the scores of a key have a wrong shape")
    scores.load(saved)
    return KeyModel(name, model, scores, json.loads(str(header[f"state {i}"])))

"""Predictions for a file of rows, with a model that a run left behind."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from undrift import store
from undrift._typing import Vector
from undrift.errors import DataError, InputError
from undrift.folder import named_file
from undrift.losses import sigmoid
from undrift.online import OnlineRegressor, Table
from undrift.run.data import Lines
from undrift.run.encode import Encoder
from undrift.run.extras import polars
from undrift.run.plan import PREFIX, Plan
from undrift.run.player import loaded
from undrift.run.settings import did_you_mean
from undrift.run.source import Batch, Source
from undrift.run.state import State, read_state, settings_of, understood
from undrift.run.tables import as_csv, write_table

if TYPE_CHECKING:
    from polars import DataFrame


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says about the rows of a file."""

    target: str
    """Name of what was predicted."""
    frame: DataFrame
    """line, time, prediction (and lower, upper; with lags, of the first row only), or label and probability."""
    notes: tuple[str, ...] = ()
    """What the reader must know."""

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.frame)

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns as lists; times as texts."""
        pl = polars("undrift predict")
        texts = self.frame.with_columns(pl.col(pl.Datetime).dt.to_string("iso:strict"))
        return {name: texts[name].to_list() for name in texts.columns}

    def csv(self) -> str:
        """Return the predictions as CSV."""
        return as_csv(self.frame)

    def spread(self) -> tuple[float, float, float]:
        """Return the smallest, the mean and the largest prediction (or probability)."""
        column = self.frame["prediction" if "prediction" in self.frame.columns else "probability"].to_numpy()
        return float(column.min()), float(column.mean()), float(column.max())

    def write(self, path: Path) -> None:
        """Write CSV or Parquet, by the ending; whole or not at all."""
        write_table(path, self.frame.to_dict())


def predictions(model: str | os.PathLike[str], file: str, level: float = 0.9) -> Predictions:
    """Return what the model of a run says about every row of a file; nothing is learned."""
    folder = Path(model) if Path(model).is_dir() else Path(model).parent
    state = read_state(folder)
    if state["model"] is None:
        raise InputError(f"{folder}: this run has learned no row yet; continue it with --resume")
    learner = loaded(str(named_file(folder, state["model"]) if Path(model).is_dir() else model))
    settings = replace(settings_of(folder, state), limit=None, format="auto", missing="fill", categories=10_000)
    source = Source(file, settings)
    batches = source.batches()
    head = list(islice(batches, PREFIX))
    if not head:
        raise DataError(f"{source.name} has no rows, only a header; there is nothing to predict")
    with understood(folder):
        plan = _plan(state, source, head[0])
        encoder = _Blind(source, plan)
        encoder.follow(state, store.read(named_file(folder, state["trace"]))[1]["encoder.late"])
    parts: list[dict[str, Any]] = []
    unknown: list[Lines] = []
    for batch in chain(head, batches):
        rows = encoder.encode(batch)
        table = Table(encoder.features, rows.Z)
        part: dict[str, Any] = {"line": rows.line} | ({} if rows.time is None else {"time": rows.time})
        unknown.append(rows.line[np.isnan(rows.Z[:, encoder.lags]).any(axis=1)])
        if isinstance(learner, OnlineRegressor):
            low, high = learner.predict_interval(table, level)
            parts.append(part | {"prediction": learner.predict(table), "lower": low, "upper": high})
        else:
            odds = learner.predict(table)
            labels = np.array([state["classes"][int(one > 0.0)] for one in odds], dtype=object)
            parts.append(part | {"label": labels, "probability": sigmoid(odds)})
    pl = polars("undrift predict")
    frame = pl.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    if "label" in frame.columns:
        frame = frame.with_columns(pl.col("label").cast(pl.String))
    elif settings.lag:
        first = pl.int_range(pl.len()) == 0
        frame = frame.with_columns(pl.when(first).then(pl.col(end)).alias(end) for end in ("lower", "upper"))
    return Predictions(settings.target, frame, tuple(_notes(encoder, np.concatenate(unknown), len(frame))))


def _notes(encoder: Encoder, unknown: Lines, rows: int) -> Iterator[str]:
    """Yield what is less sure than it looks, above all after the first row: the model learns nothing on the way."""
    source, plan = encoder.source, encoder.plan
    for one in encoder.problems.entries():
        if one["kind"] in ("infinite", "too large"):
            where = f"{source.place} {one['lines'][0]} is the first of {one['count']:,}"
            yield f"'{one['column']}' is {one['kind']} ({where}): {one['note']}"
    name, lags = source.settings.target, ", ".join(map(str, source.settings.lag))
    if len(unknown):
        yield (
            f"{len(unknown):,} of {rows:,} rows, from {source.place} {unknown[0]} on, need '{name}' of earlier rows "
            f"(lag {lags}), which is not known yet; the last one known stands in for it"
        )
    if plan.task == "regression" and rows > 1 and lags:
        yield "only the first row has an interval, as intervals of a run with lags hold one row ahead"
    elif plan.task == "regression" and rows > 1:
        yield f"intervals hold one row ahead; after the first row they are too narrow if '{name}' drifts meanwhile"


def _plan(state: State, source: Source, first: Batch) -> Plan:
    """Return the plan of the run, for a file that must have its columns."""
    words = state["plan"]
    wanted = [
        *words["numbers"],
        *words["texts"],
        *([words["time"]] if words["time"] and source.settings.calendar else []),
    ]
    for name in wanted:
        if name not in first.columns:
            raise InputError(
                f"{source.name} has no column '{name}', which the model needs{did_you_mean(name, first.columns)}"
            )
    time = words["time"] if words["time"] in first.columns else None
    texts = tuple((name, tuple(values)) for name, values in words["texts"].items())
    classes = None if words["classes"] is None else tuple(words["classes"])
    return Plan(words["task"], classes, time, words["clock"], words["hours"], tuple(words["numbers"]), texts, ())


class _Blind(Encoder):
    """An encoder for rows that may have no label; those that have one serve the lags of later rows and nothing else."""

    def follow(self, state: State, late: Vector) -> None:
        """Know the texts the run met, and its last labels."""
        words = {"rows": 0, "digests": [""] * len(self.digests), "problems": [], "latest": "NaT"}
        arrays = {"late": late, "low": self.low, "high": self.high}
        self.resume({**state["carry"]["encoder"], **words}, arrays)

    def _labels(self, batch: Batch) -> Vector:
        if not self.settings.lag or self.settings.target not in batch.columns:
            return np.full(len(batch.lines), math.nan)
        return super()._labels(batch)

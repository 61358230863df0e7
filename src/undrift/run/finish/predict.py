"""Predictions for a file of rows, with a model that a run left behind."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from undrift import store
from undrift._internal.folder import regular_file
from undrift._internal.stopping import StopRequest
from undrift.errors import DataError, InputError
from undrift.fleet.state_store import STORE_FILE
from undrift.losses import sigmoid
from undrift.online import OnlineClassifier, OnlineRegressor, Table
from undrift.online.estimator import OnlineEstimator
from undrift.run.forecast.forecast_folder import NEXT, ForecastFolder
from undrift.run.play.run_model import load_model
from undrift.run.play.state import STATE, RunState, explain_damage, read_state, settings_of
from undrift.run.read.source import Source
from undrift.run.tables import probability_column
from undrift.stream.cells import RowBatch
from undrift.stream.extras import polars
from undrift.stream.features import Features
from undrift.stream.schema import Schema
from undrift.stream.settings import did_you_mean

if TYPE_CHECKING:
    from polars import DataFrame


class Predictions:
    """Predictions of the rows of a file, batch by batch; only one batch is in memory at a time.

    Parameters
    ----------
    encoder
        Makes features of the rows.
    batches
        The rows.
    learner
        The model.
    level
        Part of the labels that the intervals are made to hold.
    classes
        The labels, of two the negative one first; none for numbers.
    stop
        A request to stop, which is granted at once while a batch is read and predicted.
    """

    def __init__(
        self,
        encoder: Features,
        batches: Iterator[RowBatch],
        learner: OnlineEstimator,
        level: float,
        classes: Sequence[str],
        stop: StopRequest,
    ) -> None:
        self.target = encoder.settings.target
        self.rows = 0
        self._encoder, self._batches, self._learner = encoder, batches, learner
        self._level, self._classes, self._stop = level, classes, stop
        self._low, self._sum, self._high = math.inf, 0.0, -math.inf
        self._unknown, self._first_unknown = 0, 0  # rows whose lags are not known, and where the first one stands

    def frames(self) -> Iterator[DataFrame]:
        """Yield line, time, and prediction, lower, upper (with lags, of the first row only), or the likelier label.

        Of classes the label's probability follows, and one such as p(yes) for each class. The rows of a file come once.
        """
        while True:
            with self._stop.interruptible():
                batch = next(self._batches, None)
                frame = None if batch is None else self._predict(batch)
            if frame is None:
                return
            yield frame

    def spread(self) -> tuple[float, float, float]:
        """Return the smallest, the mean and the largest prediction (or probability) so far."""
        return self._low, self._sum / self.rows, self._high

    @property
    def features(self) -> Sequence[str]:
        """What the model is given of each row."""
        return self._encoder.features

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the rows so far must know."""
        return tuple(self._notes())

    def _predict(self, batch: RowBatch) -> DataFrame:
        """Return the predictions of one batch, and count them."""
        pl = polars("undrift predict")
        rows = self._encoder.encode(batch)
        table = Table(self._encoder.features, rows.Z)
        frame: DataFrame
        columns: dict[str, Any] = {"line": rows.line} | ({} if rows.time is None else {"time": rows.time})
        if isinstance(self._learner, OnlineRegressor):
            low, high = self._learner.predict_interval(table, self._level)
            predicted = self._learner.predict(table)
            frame = pl.DataFrame(columns | {"prediction": predicted, "lower": low, "upper": high})
            if self._encoder.settings.lag:
                first = pl.int_range(pl.len()) == -self.rows
                frame = frame.with_columns(pl.when(first).then(pl.col(end)).alias(end) for end in ("lower", "upper"))
        elif isinstance(self._learner, OnlineClassifier):
            if self._encoder.schema.task == "multiclass":
                p, names = self._learner.predict_proba(table), [str(label) for label in self._learner.columns]
                predicted = p.max(axis=1)
            else:
                odds, names = self._learner.log_odds(table), list(self._classes)
                predicted = sigmoid(odds)
                p = np.column_stack([sigmoid(-odds), predicted])
            label = pl.Series(np.array(names, dtype=object)[p.argmax(axis=1)].tolist(), dtype=pl.String)
            each = {probability_column(name): p[:, k] for k, name in enumerate(names)}
            frame = pl.DataFrame(columns | {"label": label, "probability": p.max(axis=1)} | each)
        unknown = rows.line[np.isnan(rows.Z[:, self._encoder.lags]).any(axis=1)]
        if len(unknown) and not self._unknown:
            self._first_unknown = int(unknown[0])
        self._unknown += len(unknown)
        self.rows += len(predicted)
        self._low, self._high = min(self._low, float(predicted.min())), max(self._high, float(predicted.max()))
        self._sum += float(predicted.sum())
        return frame

    def _notes(self) -> Iterator[str]:
        """Yield what makes predictions less certain than they look: the model does not learn from row to row."""
        source, task = self._encoder.source, self._encoder.schema.task
        for one in self._encoder.problems.entries():
            if one["kind"] in ("infinite", "too large"):
                where = f"{source.row_word} {one['lines'][0]} is the first of {one['count']:,}"
                yield f"'{one['column']}' is {one['kind']} ({where}): {one['note']}"
        name, lags = source.settings.target, ", ".join(map(str, source.settings.lag))
        if self._unknown:
            yield (
                f"{self._unknown:,} of {self.rows:,} rows, from {source.row_word} {self._first_unknown} on, need "
                f"'{name}' of earlier rows (lag {lags}), which is not known yet; the last one known stands in for it"
                + ("; for several steps ahead use undrift forecast" if task == "regression" else "")
            )
        if task == "regression" and self.rows > 1 and lags:
            yield "only the first row has an interval, as intervals of a run with lags hold one row ahead"
        elif task == "regression" and self.rows > 1:
            yield f"intervals hold one row ahead; after the first row they are too narrow if '{name}' drifts meanwhile"


def _refuse_other_folders(folder: Path) -> None:
    """Refuse the folder of a fleet or of forecasts with where its predictions are."""
    if os.path.lexists(folder / STATE):
        return
    if os.path.lexists(folder / STORE_FILE):
        raise InputError(
            f"{folder}: the folder of a fleet, not of a run; undrift update {folder} FILE predicts rows without a "
            "target, as the last lines of predictions.csv"
        )
    forecasts = ForecastFolder(folder)
    if forecasts.exists:
        ahead = folder / forecasts.read_state()["files"].get("next", NEXT)
        raise InputError(
            f"{folder}: a folder of forecasts, not of a run; the next steps are in {ahead}, and undrift update "
            f"{folder} FILE learns new rows"
        )


def predict_file(
    model: str | os.PathLike[str],
    file: str,
    level: float = 0.9,
    stop: StopRequest | None = None,
    file_format: str = "auto",
) -> Predictions:
    """Return the predictions of every row of a file by the model of a run, batch by batch; nothing is learned."""
    folder = Path(model) if Path(model).is_dir() else Path(model).parent
    _refuse_other_folders(folder)
    state = read_state(folder)
    if state["model"] is None:
        raise InputError(f"{folder}: this run has learned no row yet; continue it with --resume")
    learner = load_model(str(regular_file(folder, state["model"]) if Path(model).is_dir() else model))
    settings = settings_of(folder, state).replace(limit=None, format=file_format, missing="fill")
    source = Source(file, settings)
    batches = source.batches()
    first = next(batches, None)
    if first is None:
        raise DataError(f"{source.name} has no rows, only a header; there is nothing to predict")
    with explain_damage(folder):
        encoder = Features(source, _roles_of_run(state, source, first), learning=False)
        if not isinstance(learner, OnlineRegressor) and state["classes"] is None:
            raise ValueError("'classes' is missing")
        _, arrays = store.read(regular_file(folder, state["trace"]))
        encoder.follow(state["carry"]["encoder"], arrays["encoder.late"])
    rows = chain([first], batches)
    return Predictions(encoder, rows, learner, level, state["classes"] or (), StopRequest() if stop is None else stop)


def _roles_of_run(state: RunState, source: Source, first: RowBatch) -> Schema:
    """Return what the columns were in the run, for a file that must have those the model needs."""
    values = state["plan"]
    times = [values["time"]] if values["time"] and source.settings.calendar else []
    for name in (*values["numbers"], *values["texts"], *values.get("many_texts", ()), *times):
        if name not in first.columns:
            raise InputError(
                f"{source.name} has no column '{name}', which the model needs{did_you_mean(name, first.columns)}"
            )
    return Schema.from_dict(values, values["time"] if values["time"] in first.columns else None)

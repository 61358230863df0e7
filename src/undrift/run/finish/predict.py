"""Predictions for a file of rows, with a model that a run left behind."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from undrift._internal.folder import regular_file
from undrift._internal.state_file import find_kind, read_consistently
from undrift._internal.stopping import StopRequest
from undrift._typing import Vector
from undrift.errors import DataError, InputError
from undrift.fleet.state_store import STORE_FILE
from undrift.run.forecast.forecast_folder import NEXT, ForecastFolder
from undrift.run.play.run_loop import load_stream, require_stream
from undrift.run.play.state import read_run
from undrift.run.read.rows_in_order import take_rows
from undrift.run.read.source import LaterSource, Source
from undrift.stream import Answers, Explanation, Stream
from undrift.stream.cells import RowBatch
from undrift.stream.extras import polars
from undrift.stream.features import Features
from undrift.stream.problems import DataProblems
from undrift.stream.settings import did_you_mean

if TYPE_CHECKING:
    from polars import DataFrame


class Predictions:
    """Predictions of the rows of a file, batch by batch; only one batch is in memory at a time.

    Parameters
    ----------
    stream
        What predicts them.
    source, batches
        The rows.
    level, quantiles
        Part of the labels that the intervals are made to hold, and levels of quantiles.
    explained
        Whether what each column adds is written in place of intervals and probabilities.
    stop
        A request to stop, which is granted at once while a batch is read and predicted.
    """

    def __init__(
        self,
        stream: Stream,
        source: Source,
        batches: Iterator[RowBatch],
        level: float | None,
        quantiles: Sequence[float] | None,
        explained: bool,
        stop: StopRequest,
    ) -> None:
        assert stream.features is not None
        self.stream, self.target, self.rows, self.explained = stream, stream.settings.target, 0, explained
        self._source, self._batches, self._stop = source, batches, stop
        self._wanted: dict[str, Any] = {"level": level, "quantiles": quantiles}
        self._features = stream.features.copy()  # goes on from batch to batch, with labels for lags
        self._features.problems = DataProblems()
        self._low, self._sum, self._high = math.inf, 0.0, -math.inf
        self._unknown, self._first_unknown = 0, 0  # rows whose lags are not known, and where the first one stands

    def frames(self) -> Iterator[DataFrame]:
        """Yield the line, the time, and the columns of `Answers.columns`. The rows of a file come once.

        A row that needs the label of an earlier row which is not known has no interval, unless it is the first one.
        Explained rows have the columns of `explanation_columns` instead.
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
        return self._features.names

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the rows so far must know."""
        return tuple(self._notes())

    def _predict(self, batch: RowBatch) -> DataFrame:
        """Return the predictions of one batch, and count them."""
        pl = polars("undrift predict")
        before = self._features.copy()
        rows, answers = self.stream.predict_batch(batch, self._source, features=self._features, **self._wanted)
        columns = self._explain(batch, before) if self.explained else answers.columns()
        unknown = np.asarray(np.isnan(rows.Z[:, self._features.lags]).any(axis=1))
        if unknown.any() and not self._unknown:
            self._first_unknown = int(rows.line[unknown][0])
        predicted = self._spread_values(answers)
        self._unknown += int(np.count_nonzero(unknown))
        self.rows += len(answers)
        self._low = min(self._low, float(predicted.min(initial=math.inf)))
        self._high = max(self._high, float(predicted.max(initial=-math.inf)))
        self._sum += float(predicted.sum())
        numbers = {
            name: pl.Series(column, dtype=pl.String) if name == "label" else column for name, column in columns.items()
        }
        frame: DataFrame = pl.DataFrame({"line": rows.line, **numbers})
        return frame.with_columns(pl.col(pl.Float64).fill_nan(None))

    def _explain(self, batch: RowBatch, features: Features) -> dict[str, Any]:
        """Return why each row of a batch is predicted as it is, from what was known before the batch."""
        explained = []
        for t in range(len(batch.lines)):
            row = take_rows(batch, slice(t, t + 1))
            explained.append(self.stream.explain_batch(row, self._source, features))
        return explanation_columns(explained)

    def _spread_values(self, answers: Answers) -> Vector:
        """Return what `spread` is about: predictions, or probabilities of the second of two classes, or of the best."""
        if answers.classes is None:
            return answers.yhat
        p = answers.probabilities
        return p[:, 1] if self.stream.task == "classification" else np.max(p, axis=1)

    def _notes(self) -> Iterator[str]:
        """Yield what makes predictions less certain than they look: the model does not learn from row to row."""
        source, task, settings = self._source, self.stream.task, self.stream.settings
        for problem in self._features.problems.entries():
            if problem["kind"] in ("infinite", "too large"):
                where = f"{source.row_word} {problem['lines'][0]} is the first of {problem['count']:,}"
                yield f"'{problem['column']}' is {problem['kind']} ({where}): {problem['note']}"
        name, lags = settings.target, ", ".join(map(str, settings.lag))
        if self._unknown:
            yield (
                f"{self._unknown:,} of {self.rows:,} rows, from {source.row_word} {self._first_unknown} on, need "
                f"'{name}' of earlier rows (lag {lags}), which is not known yet; the last one known stands in for it"
                + (", and they have no interval" if task == "regression" else "")
                + ("; for several steps ahead use undrift forecast" if task == "regression" else "")
            )
        if task == "regression" and self.rows > 1:
            yield f"intervals hold one row ahead; after the first row they are too narrow if '{name}' drifts meanwhile"


def explanation_columns(explained: Sequence[Explanation]) -> dict[str, Any]:
    """Return explanations as columns: the prediction, the usual one, what each column adds, and what they add together.

    Predictions of classes are the log-odds of the likeliest label, which comes first.
    """
    out: dict[str, Any] = {}
    if explained and explained[0].label is not None:
        out["label"] = [row.label for row in explained]
    out |= {"prediction": [row.prediction for row in explained], "usual": [row.usual for row in explained]}
    for name in [part.column for part in explained[0].contributions] if explained else ():
        out[f"adds({name})"] = [next(p.adds for p in row.contributions if p.column == name) for row in explained]
    return out | {"together": [row.together for row in explained]}


def _refuse_other_folders(folder: Path) -> None:
    """Refuse the folder of a fleet or of forecasts with where its predictions are."""
    kind = find_kind(folder)
    if kind == "fleet" or (kind is None and os.path.lexists(folder / STORE_FILE)):
        raise InputError(
            f"{folder}: the folder of a fleet, not of a run; undrift update {folder} FILE predicts rows without a "
            "target, as the last lines of predictions.csv"
        )
    if kind == "forecast":
        ahead = folder / ForecastFolder(folder).read_state()["files"].get("next", NEXT)
        raise InputError(
            f"{folder}: a folder of forecasts, not of a run; the next steps are in {ahead}, and undrift update "
            f"{folder} FILE learns new rows"
        )


def _read_stream(folder: Path) -> Stream:
    """Return the stream of a run as of its last commit."""
    state = read_run(folder)
    if state["model"] is None:
        raise InputError(f"{folder}: this run has learned no row yet; continue it with --resume")
    stream = load_stream(regular_file(folder, state["model"]))
    require_stream(folder, state, stream)
    return stream


def predict_file(
    model: str | os.PathLike[str],
    file: str,
    level: float | None = None,
    stop: StopRequest | None = None,
    file_format: str = "auto",
    quantiles: Sequence[float] | None = None,
    *,
    explained: bool = False,
) -> Predictions:
    """Return the predictions of every row of a file by the stream of a run, batch by batch; nothing is learned.

    `level` and `quantiles` are by default those of the run. With `explained`, each row comes with what its columns add.
    """
    if Path(file).is_dir() and Path(model).is_file():
        raise InputError(f"{file} is a folder and {model} a file; the folder of the run comes first")
    if not Path(model).is_file():
        folder = Path(model)
        _refuse_other_folders(folder)
        stream = read_consistently(folder, lambda: _read_stream(folder))
    else:
        stream = load_stream(model)
    if stream.features is None or not stream.rounds:
        raise InputError(f"{model}: this stream has learned no row yet, so there is nothing to predict by")
    source = LaterSource(file, stream.settings.replace(limit=None, format=file_format))
    batches = source.batches()
    first = next(batches, None)
    if first is None:
        raise DataError(f"{source.name} has no rows, only a header; there is nothing to predict")
    for name in stream.features.columns:
        if name not in first.columns:
            raise InputError(
                f"{source.name} has no column '{name}', which the model needs{did_you_mean(name, first.columns)}"
            )
    request = StopRequest() if stop is None else stop
    if quantiles and stream.task != "regression":
        raise InputError(f"{model}: quantiles are of numbers, and this run predicts classes; leave out --quantiles")
    return Predictions(stream, source, chain([first], batches), level, quantiles, explained, request)

"""Stream: what the columns of a table mean, the model that learns it, and the rows that wait for their labels."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from undrift import _check, kernels, store
from undrift._internal import html, thread_lock
from undrift._internal.names import find_similar
from undrift._typing import Arrays, Vector
from undrift.errors import DataError, InputError, ModelFileError
from undrift.learners import Learner
from undrift.learners.files import find_model_file, learner_from_snapshot
from undrift.learners.row_context import WEIGHT_LIMIT
from undrift.learners.save_point import HeldInterrupt
from undrift.learners.serializable import Construction, Serializable, below_prefix, read_model, with_prefix
from undrift.online import OnlineRegressor
from undrift.online.estimator import OnlineEstimator
from undrift.stream.answers import Answers
from undrift.stream.cells import LIMIT, Cells, RowBatch, UnreadableCell, parse_numbers
from undrift.stream.explanation import Explanation, explain_row
from undrift.stream.extras import log_sentence
from undrift.stream.features import Features, ParsedRows, Rows
from undrift.stream.first_rows import FIRST_ROWS, FirstRows, RowOrigin, first_rows_of, not_a_number
from undrift.stream.frames import (
    Frame,
    in_python,
    is_series,
    python_words,
    read_cells,
    read_table,
    require_columns,
)
from undrift.stream.labels import LabelCode
from undrift.stream.model import StreamModel
from undrift.stream.schema import Schema, extend_schema, infer_growing_schema, infer_schema, with_default_lags
from undrift.stream.settings import Settings

MOST_WAITING = 100_000
"""Rows that wait for their label; with more, the oldest one is given up."""
Reference = str | int | float
"""What a row is called by whoever asks."""
FILES = ("sort", "header", "encoding", "decimal", "delimiter", "format", "limit", "alert")
"""Settings that are for files and commands, not for tables in Python."""


class WaitingRows(NamedTuple):
    """Rows whose labels come later, encoded and not served yet."""

    rows: Rows
    features: Features
    """The stream's, with what these rows brought."""
    model: StreamModel


class Stream(Serializable):
    """Learn a table as people have it: numbers, texts, dates and holes, row by row or all at once.

    The columns are found from the first rows, as `undrift run` finds them in a file, and the predictions are the same
    to the last bit. Rows are a data frame of any library, a list of dicts, or one dict.

    Parameters
    ----------
    target
        Column to predict.
    settings
        Those of `undrift run` by name: `time`, `features`, `drop`, `candidate`, `task`, `positive`, `speed`,
        `half_life`, `nonnegative`, `lag`, `delay`, `weight`, `elapsed`, `calendar`, `missing`, `na`, `categories`,
        `time_format`, `level`, `quantiles`, `seed`. `undrift.run.Settings` describes each.

    Notes
    -----
    `play` predicts each row before its label is learned. `predict` changes nothing. `ask` serves rows that have come
    and whose labels come later, by `tell`. Whatever is refused, or interrupted, leaves the stream as it was.

    Columns found from a single row are those that have a value in it; others follow as they come. To have the columns
    of a whole table from the first row on, begin with `infer`.

    Examples
    --------
    >>> rows = [{"shop": "ab"[t % 2], "sales": 5.0 + 3.0 * (t % 2) + 0.1 * (t % 3)} for t in range(200)]
    >>> stream = Stream("sales", speed="fast")
    >>> answers = stream.play(rows)
    >>> round(stream.predict({"shop": "b"})[0]["prediction"])
    8
    >>> waiting = stream.ask({"shop": "a"})
    >>> stream.tell(waiting, 5.0)
    >>> [part.column for part in stream.explain({"shop": "a"}).contributions]
    ['shop']
    """

    unusable = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError, InputError, DataError)

    def __init__(self, target: str | Settings, **settings: Any) -> None:
        if not isinstance(target, (str, Settings)):
            raise InputError(
                f"Stream: target must be the name of the column to predict, got a {type(target).__name__}; the table "
                "comes later, as in Stream('sales').play(frame)"
            )
        self.settings = target if isinstance(target, Settings) else _make_settings(target, settings)
        self.features: Features | None = None
        """What makes numbers of the columns; None before the first row."""
        self._model = StreamModel(self.settings, "regression")  # until the first rows show what the target is
        self._references: dict[int, Reference] = {}
        self._serials: dict[Reference, int] = {}
        self._weights: dict[int, float] = {}
        self._exclusive_lock = kernels.Lock()
        self._shared_lock = self._exclusive_lock.shared

    # ---- what it is --------------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema | None:
        """What each column is; None before the first row."""
        return None if self.features is None else self.features.schema

    @property
    def task(self) -> str:
        """What is predicted: "regression", "classification" (two classes) or "multiclass"."""
        return "regression" if self.features is None else self.features.schema.task

    @property
    def classes(self) -> list[str] | None:
        """Labels: of two the negative one first, several in order of appearance; None for numbers."""
        return None if self.features is None else self.features.labels.classes

    @property
    def model(self) -> OnlineEstimator:
        """The online estimator inside."""
        return self._model.estimator  # type: ignore[no-any-return]  # streams of keys may have another learner

    @property
    def rounds(self) -> int:
        """Labels learned."""
        return self.model.rounds

    @property
    def waiting(self) -> list[int]:
        """Serial numbers of the rows that were asked and wait for their label, oldest first."""
        return self.model.unlabelled_rows()

    @property
    def notes(self) -> list[str]:
        """What was decided about the columns that the user may want to know."""
        return [] if self.schema is None else [in_python(note) for note in self.schema.notes]

    @property
    def problems(self) -> list[Any]:
        """What was wrong with the data so far, by kind and column."""
        return [] if self.features is None else self.features.all_problems()

    def begin(self, schema: Schema) -> None:
        """Set up features and the model for columns that are known."""
        features, model = Features(self.settings, schema), StreamModel(self.settings, schema.task)
        with HeldInterrupt():
            self._keep(features, model)

    @classmethod
    def around(cls, estimator: OnlineEstimator, settings: Settings, schema: Schema) -> Self:
        """Return a stream that goes on with an estimator which has learned rows of these columns."""
        stream = cls(settings)
        stream._model = StreamModel(settings, schema.task, estimator)
        features = stream.features = Features(settings, schema)
        features.rows = features.taken = estimator.served_rows
        if features.labels.several:
            features.labels.classes = list(schema.classes or ())
            stream._model.first_rows = np.zeros(len(schema.classes or ()))
        return stream

    def go_on(
        self,
        features: Features,
        estimator: Learner,
        first_rows: Vector,
        weights: dict[int, float],
        *,
        bounded: bool = True,
    ) -> None:
        """Become the stream of another key: its features and model, and what it keeps of rows that wait."""
        model = StreamModel(features.settings, features.schema.task, estimator, bounded=bounded)
        model.first_rows = first_rows
        self._weights = weights
        self._keep(features, model)

    @property
    def first_rows(self) -> Vector:
        """The row in which each of several classes first came, from 1 on."""
        return self._model.first_rows

    @property
    def waiting_weights(self) -> dict[int, float]:
        """How often rows count that wait for their labels, by serial number, where weights were given."""
        return self._weights

    def use_settings(self, settings: Settings) -> None:
        """Go on with settings that say otherwise where rows come from."""
        self.settings = self._model.settings = settings
        if self.features is not None:
            self.features.settings = settings

    @thread_lock.hold_exclusive
    def infer(self, table: Frame) -> Self:
        """Find out what the columns are from rows that are not learned; return the stream."""
        if self.features is not None:
            raise InputError("Stream: the columns are known already; make another stream for other columns")
        with python_words():
            features, model = self._find_columns(*self._read(table))
        with HeldInterrupt():
            self._keep(features, model)
        return self

    # ---- predictions -------------------------------------------------------------------------------------------

    @thread_lock.hold_exclusive
    def play(self, table: Frame) -> Answers:
        """Predict each row before its label, then learn the label; rows without a label are predicted only.

        With `delay`, a label is learned after so many further rows. The answers are those of all rows in order, less
        those that `missing="skip"` leaves out.
        """
        with python_words():
            batch, origin = self._read(table)
            self._require_target(batch)
            return _with_index(self.play_batch(batch, origin), batch, table)

    def learn(self, table: Frame) -> None:
        """Learn rows that have come with their labels: `play` without the answers."""
        self.play(table)

    def _require_target(self, batch: RowBatch) -> None:
        """Refuse a table without the column to learn, which is a slip."""
        target = self.settings.target
        if len(batch.lines) and target not in batch.columns:
            meant = find_similar(target, batch.columns)
            slip = "" if meant is None else f" Did you mean '{meant}'?"
            raise InputError(
                f"Stream: the table has no column '{target}' to learn; it has {', '.join(batch.columns):.200}.{slip} "
                "For rows without labels there is predict, or ask where the labels come later"
            )

    @thread_lock.hold_shared
    def predict(
        self, table: Frame, *, level: float | None = None, quantiles: float | Sequence[float] | None = None
    ) -> Answers:
        """Predict rows, each as if it were the next one; nothing changes.

        Intervals are at `level`, and quantiles at the levels `quantiles`; by default those of the settings. They hold
        one row ahead. A row that needs an earlier label which is not known (`lag`) has none, unless it is the first.
        """
        with python_words():
            levels = (quantiles,) if isinstance(quantiles, (int, float)) else quantiles
            batch, origin = self._read(table)
            return _with_index(self.predict_batch(batch, origin, level=level, quantiles=levels)[1], batch, table)

    @thread_lock.hold_exclusive
    def ask(self, table: Frame, reference: Reference | Sequence[Reference] | None = None) -> Answers:
        """Serve rows that have come, and keep them until `tell` brings their labels.

        `reference` is a name of your own for the row, or a list with one for each; `tell` takes it in place of the
        answers. A row that has a number for its name goes by that, and no longer by its serial number. Times, last-seen
        values and scaling advance; nothing that a label could change does.
        """
        with python_words():
            batch, origin = self._read(table)
            return _with_index(self.serve_batch(batch, origin, reference)[1], batch, table)

    @thread_lock.hold_exclusive
    def tell(self, row: Answers | Reference | Sequence[Reference], label: Any, *, weight: float | None = None) -> None:
        """Learn the label of a row that was asked, from what was predicted then.

        Parameters
        ----------
        row
            What `ask` returned, or its serial number, or the reference it was given, or a list of these. For several
            rows, `label` is a sequence.
        label
            The label; None or NaN says that it will never come.
        weight
            How often the row counts; by default what its column of weights says, or once.
        """
        asked = row.serial if isinstance(row, Answers) else _as_list(row)
        serials = asked.tolist() if isinstance(asked, np.ndarray) else [self._find(one) for one in asked]
        alone = isinstance(label, (str, Mapping)) or not hasattr(label, "__len__") or getattr(label, "ndim", 1) == 0
        several = isinstance(row, Answers) or (hasattr(row, "__len__") and not isinstance(row, str))
        labels = [label] if alone or not several else list(label)
        if len(labels) != len(serials):
            raise InputError(
                f"Stream: tell takes a label for each row, got {len(labels)} labels for {len(serials)} rows"
            )
        with python_words():
            self.tell_rows(serials, labels, _TableRows(self.settings, 0, learned=True), weight=weight)

    @thread_lock.hold_shared
    def explain(self, row: Frame) -> Explanation:
        """Explain the prediction of one row: what each column adds beside its usual value.

        A column's features take their usual values (the means of the last 128 rows) together, all else stays, and the
        prediction is made again. A column of predictions made elsewhere abstains instead.
        """
        with python_words():
            batch, origin = self._read(row)
            if len(batch.lines) != 1:
                raise InputError(f"Stream: explain takes one row, got {len(batch.lines)}")
            return self.explain_batch(batch, origin)

    # ---- batches, for files and services -----------------------------------------------------------------------

    def play_batch(self, batch: RowBatch, origin: RowOrigin) -> Answers:
        """Predict and learn the rows of a batch, whole or not at all; `origin` is for errors."""
        features, model = self._prepare(batch, origin)
        work = features.copy()
        return self._play(work, model, work.parse(batch, origin, "here"), origin)[1]

    def play_parsed(self, parsed: ParsedRows, origin: RowOrigin) -> tuple[Rows, Answers]:
        """Predict and learn parsed rows of columns that are known, all of them or none."""
        assert self.features is not None  # whose columns they were parsed by
        return self._play(self.features.copy(), self._model, parsed, origin)

    def _play(self, work: Features, model: StreamModel, parsed: ParsedRows, origin: RowOrigin) -> tuple[Rows, Answers]:
        rows = work.complete(parsed, origin)
        with HeldInterrupt():
            answers = model.close(rows, work)
            self._keep(work, model)
        return rows, answers

    def encode_batch(self, batch: RowBatch, origin: RowOrigin) -> Rows:
        """Return the rows of a batch that has come, to be closed by `close_rows`: `play_batch` in two steps."""
        features, model = self._prepare(batch, origin)
        work = features.copy()
        rows = work.encode(batch, origin)
        self._keep(work, model)
        return rows

    def close_rows(self, rows: Rows) -> Answers:
        """Predict and learn rows that `encode_batch` returned, all of them or some of them in order."""
        assert self.features is not None
        return self._model.close(rows, self.features)

    def predict_batch(
        self,
        batch: RowBatch,
        origin: RowOrigin,
        *,
        level: float | None = None,
        quantiles: Sequence[float] | None = None,
        features: Features | None = None,
    ) -> tuple[Rows, Answers]:
        """Return the rows of a batch and their predictions, each as if it were the next one; nothing changes.

        `features` is a copy of the stream's, which keeps the earlier labels and the problems of batches that follow
        each other.
        """
        if self.features is None:
            raise InputError("Stream: nothing was learned yet, so there is nothing to predict by; play some rows first")
        work = self.features.copy() if features is None else features
        rows = work.encode(batch, origin, "never")
        answers = self._model.predict(rows, work, level, quantiles)
        unknown = np.asarray(np.isnan(rows.Z[:, work.lags]).any(axis=1))
        unknown[: max(0, len(unknown) - work.ahead + 1)] = False  # the first row really is the next one
        return rows, answers.without_intervals(unknown)

    def no_rows(self) -> tuple[Rows, Answers]:
        """Return no rows and no answers, of the kinds that others have."""
        assert self.features is not None
        time = None if self.features.schema.time is None else np.empty(0, dtype="datetime64[us]")
        rows = Rows(np.empty(0, dtype=np.int64), time, np.empty((0, len(self.features.names))), np.empty(0))
        return rows, self._model.read([], rows, self.classes)

    def explain_batch(self, batch: RowBatch, origin: RowOrigin, features: Features | None = None) -> Explanation:
        """Explain the prediction of a batch of one row; `features` as in `predict_batch`."""
        rows, answers = self.predict_batch(batch, origin, features=features)
        assert self.features is not None  # it has predicted
        return explain_row(self._model, self.features, rows, answers)

    def serve_batch(
        self, batch: RowBatch, origin: RowOrigin, reference: Reference | Sequence[Reference] | None = None
    ) -> tuple[Rows, Answers]:
        """Serve the rows of a batch, and keep them until their labels come: `ask` with the rows that it encoded."""
        names = dict(zip(batch.lines.tolist(), self._check_references(reference, len(batch.lines)), strict=False))
        return self.serve_rows(self.encode_waiting(batch, origin), names)

    def encode_waiting(self, batch: RowBatch, origin: RowOrigin) -> WaitingRows:
        """Return the rows of a batch whose labels come later, to be served by `serve_rows`; nothing changes."""
        features, model = self._prepare(batch, origin)
        work = features.copy()
        return WaitingRows(work.encode(batch, origin, "later"), work, model)

    def serve_parsed(self, parsed: ParsedRows, origin: RowOrigin) -> tuple[Rows, Answers]:
        """Serve parsed rows of columns that are known, and keep them until their labels come."""
        return self.serve_rows(self.complete_waiting(parsed, origin))

    def complete_waiting(self, parsed: ParsedRows, origin: RowOrigin) -> WaitingRows:
        """Return parsed rows whose labels come later, to be served by `serve_rows`; nothing changes."""
        assert self.features is not None
        work = self.features.copy()
        return WaitingRows(work.complete(parsed, origin, "later"), work, self._model)

    def serve_rows(self, waiting: WaitingRows, names: Mapping[int, Reference] | None = None) -> tuple[Rows, Answers]:
        """Serve rows that `encode_waiting` returned last; `names` are references by line."""
        rows, features, model = waiting
        with HeldInterrupt():
            served = model.serve(rows, features)
            self._keep(features, model)
            for t, (row, line) in enumerate(zip(served, rows.line.tolist(), strict=True)):
                if names and line in names:
                    self._references[row.serial], self._serials[names[line]] = names[line], row.serial
                if rows.weight is not None:
                    self._weights[row.serial] = float(rows.weight[t])
            self._limit_waiting()
        return rows, model.read(served, rows, self.classes)

    def release_rows(self, serials: Sequence[int]) -> list[Vector]:
        """Return all that is kept of rows that wait for their labels, and keep it no longer.

        Give it back with `adopt_rows` before the labels are told, whatever was learned since.
        """
        records = []
        for serial in serials:
            weight = self._weights.get(serial, 1.0)
            records.append(np.concatenate(([weight], self.model.release_record(serial))))
            self._forget(serial)
        return records

    def adopt_rows(self, serials: Sequence[int], records: Sequence[Vector]) -> None:
        """Keep rows again that `release_rows` gave away; refuse others."""
        for serial, record in zip(serials, records, strict=True):
            self.model.adopt_record(serial, record[1:])
            if record[0] != 1.0:
                self._weights[serial] = float(record[0])

    def find_answers(self, serials: Sequence[int], rows: Rows, level: float | None = None) -> Answers:
        """Return again what was answered to rows that wait; intervals are by default as in the settings."""
        served = [self.model.find_pending(serial) for serial in serials]
        return self._model.read(served, rows, self.classes, level)

    @property
    def references(self) -> Mapping[Reference, int]:
        """Serial numbers of the rows that wait for their label, by the reference they were given."""
        return self._serials

    def tell_rows(
        self,
        serials: Sequence[int],
        labels: Sequence[Any],
        origin: RowOrigin,
        *,
        weight: float | None = None,
        lines: NDArray[np.int64] | None = None,
    ) -> Vector:
        """Learn the labels of rows that were asked, all of them or none; return them as numbers, NaN where missing."""
        features = self.features
        if features is None:
            raise InputError("Stream: no row was asked yet, so there is no label to tell")
        late = next((serial for serial in serials if not self.model.lacks_label(serial)), None)
        if late is not None:
            raise InputError(f"Stream: no row {late} waits for its label; it came before, or the row was never asked")
        if len(set(serials)) < len(serials):
            raise InputError("Stream: tell takes each row once")
        if weight is not None:
            _check.interval(self, "weight", weight, f"[0, {WEIGHT_LIMIT:g}]")
        code, y = self.read_labels(labels, origin, np.arange(1, len(labels) + 1) if lines is None else lines)
        with HeldInterrupt():
            self.tell_numbers(serials, code, y, weight)
        return y

    def tell_numbers(self, serials: Sequence[int], code: LabelCode, y: Vector, weight: float | None = None) -> None:
        """Learn labels of rows that wait, as numbers that `code` reads."""
        features = self.features
        assert features is not None
        served = [self.model.find_pending(serial) for serial in serials]
        if code.several:
            self._model.note_classes(y, np.array(serials, dtype=np.int64), code.classes or [])
        features.labels = code
        for row, number in zip(served, y.tolist(), strict=True):
            own = self._weights.get(row.serial, 1.0) if weight is None else weight
            self._model.tell(row, number, code.classes, own)
            features.know_label(row.serial, number)
            self._forget(row.serial)

    def read_labels(
        self, labels: Sequence[Any], origin: RowOrigin, lines: NDArray[np.int64]
    ) -> tuple[LabelCode, Vector]:
        """Return the code that knows the classes of labels, and the labels as numbers, NaN where missing."""
        assert self.features is not None  # their rows came before
        code = self.features.labels.copy()
        return code, _read_labels(code, labels, lines, origin)

    # ---- the parts ---------------------------------------------------------------------------------------------

    def _keep(self, features: Features, model: StreamModel) -> None:
        """Go on with these."""
        self.features, self._model, self.settings = features, model, features.settings

    def _prepare(self, batch: RowBatch, origin: RowOrigin) -> tuple[Features, StreamModel]:
        """Return features and the model for a batch that has come: fresh ones for the first one, and wider ones."""
        if self.features is None:
            return self._find_columns(batch, origin)
        schema = self.features.schema
        if not schema.grows or {*batch.columns} <= {*self.features.columns}:
            return self.features, self._model
        for t in range(len(batch.lines)):
            schema = extend_schema(schema, FirstRows(origin, [_row_of(batch, t)], whole=False))
        if schema is self.features.schema:
            return self.features, self._model
        wider = self.features.copy()
        wider.extend(schema)
        return wider, self._model

    def _read(self, table: Frame) -> tuple[RowBatch, RowOrigin]:
        """Return the rows of a table and where they come from; refuse those that lack what was learned."""
        time = self.settings.time if self.schema is None else self.schema.time
        batch = read_table("Stream", table, self.settings.drop, time)
        if self.features is not None and len(batch.lines):
            settings = self.settings
            others = {settings.target, settings.weight, *settings.drop}
            require_columns(table, batch, self.features.columns, {name for name in others if name is not None})
        before = 0 if self.features is None else self.features.taken
        origin = _TableRows(self.settings, before, learned=self.features is not None)
        return RowBatch(batch.lines + before, batch.columns), origin

    def _find_columns(self, batch: RowBatch, origin: RowOrigin) -> tuple[Features, StreamModel]:
        """Return features and a model for what the columns of the first rows are."""
        count = len(batch.lines)
        if not count:
            raise DataError(f"{origin.name} has no rows; a stream begins with one or more")
        first = FirstRows(origin, [first_rows_of(batch)], whole=1 < count <= FIRST_ROWS)
        settings = first.source.settings = with_default_lags(first)
        if count == 1:
            schema = infer_growing_schema(first)
            if not (schema.numbers or schema.texts or settings.calendar or settings.lag):
                raise DataError(f"{origin.at(int(batch.lines[0]))}: there is nothing to predict from")
        else:
            schema = infer_schema(first)
        for note in schema.notes:
            log_sentence(in_python(note))
        return Features(settings, schema), StreamModel(settings, schema.task)

    def _limit_waiting(self) -> None:
        """Give up the oldest rows where too many wait."""
        for serial in self.model.unlabelled_rows(max(0, self.model.unlabelled_count - MOST_WAITING)):
            self.model.tell(self.model.find_pending(serial), np.nan)
            self._forget(serial)

    def _forget(self, serial: int) -> None:
        """Forget how a row is called and counted."""
        self._weights.pop(serial, None)
        if serial in self._references:
            del self._serials[self._references.pop(serial)]

    def _find(self, row: Reference) -> int:
        """Return the serial number of a row by its reference, or by itself."""
        row = row.item() if isinstance(row, np.generic) else row
        if isinstance(row, (str, int, float)):
            if row in self._serials:
                return self._serials[row]
            # a row that goes by a number of the user's goes by that alone: the same number may be another's serial
            if type(row) is int and isinstance(self._references.get(row, ""), str):
                return row
        if isinstance(row, Mapping):
            raise InputError("Stream: tell takes what ask returned, a reference or a serial number, got a dict")
        raise InputError(
            f"Stream: no row with the reference {row!r:.60} waits for its label; it came before, or the row was never "
            "asked"
        )

    def _check_references(self, reference: Any, count: int) -> list[Reference]:
        """Return a name for each row, or none at all."""
        if reference is None:
            return []
        given = [name.item() if isinstance(name, np.generic) else name for name in _as_list(reference)]
        if len(given) != count:
            raise InputError(f"Stream: reference must be one for each of the {count} rows, got {len(given)}")
        for k, name in enumerate(given):
            if not isinstance(name, (str, int, float)) or isinstance(name, bool) or name in (math.inf, -math.inf):
                raise InputError(f"Stream: a reference must be a text or a number, got {_check.describe(name)}")
            if name != name:
                raise InputError("Stream: a reference must be a text or a number, got NaN")
            if name in self._serials or name in given[:k]:
                raise InputError(f"Stream: a row with the reference {name!r:.60} waits for its label already")
        return given

    # ---- files -------------------------------------------------------------------------------------------------

    def _construction(self) -> Construction:
        return Construction((self.settings,), {})

    @classmethod
    def _from_snapshot(cls, header: store.Header, arrays: Arrays) -> Self:
        if header.get("class") != "Stream":
            raise ModelFileError(f"holds a {header.get('class')!r:.60}, not a Stream; use undrift.load")
        return super()._from_snapshot(header, arrays)

    @classmethod
    def _saved_construction(cls, header: store.Header) -> Construction:
        return Construction((Settings.from_dict(header["settings"], "the saved settings"),), {})  # type: ignore[arg-type]  # which it checks

    @thread_lock.hold_shared
    def snapshot(self) -> tuple[store.Header, Arrays]:
        """Return everything the stream is: a JSON header and its arrays, copied."""
        header: dict[str, Any] = {"class": "Stream", "settings": self.settings.as_dict()}
        model_header, model_arrays = self.model.snapshot()
        header["model"] = model_header
        arrays = with_prefix("model.", model_arrays)
        if self.features is not None:
            values, own = self.features.state()
            header |= {"schema": self.features.schema.as_dict(), "features": values}
            arrays = {**arrays, **with_prefix("features.", {name: array.copy() for name, array in own.items()})}
            arrays = {**arrays, "first_rows": self._model.first_rows.copy()}
            header["references"] = [[serial, reference] for serial, reference in self._references.items()]
            header["weights"] = [[serial, weight] for serial, weight in self._weights.items()]
        return header, arrays

    def _load_snapshot(self, header: store.Header, arrays: Arrays) -> None:
        saved: Any = header
        model = learner_from_snapshot(saved["model"], below_prefix("model.", arrays))
        if not isinstance(model, OnlineEstimator):
            raise ModelFileError("Stream: the saved model is no online estimator")
        schema = None if "schema" not in saved else Schema.from_dict(saved["schema"], saved["schema"]["time"])
        task = "regression" if schema is None else schema.task
        if isinstance(model, OnlineRegressor) != (task == "regression"):
            raise ModelFileError("Stream: the saved model is of another task")
        self._model = StreamModel(self.settings, task, model)
        if schema is None:
            return
        self.features = Features(self.settings, schema)
        self.features.resume(saved["features"], below_prefix("features.", arrays))
        self._model.first_rows = np.array(arrays["first_rows"])
        if self._model.first_rows.ndim != 1 or len(self._model.first_rows) > len(self.classes or ()):
            raise ModelFileError("Stream: the saved classes cannot be used")
        self._references = {int(serial): reference for serial, reference in saved["references"]}
        self._serials = {reference: serial for serial, reference in self._references.items()}
        self._weights = {int(serial): float(weight) for serial, weight in saved["weights"]}
        self._try()

    def _try(self) -> None:
        """Raise for a state that no stream writes: a row without values must pass, and the state be one for a file."""
        features = self.features
        assert features is not None  # it was just loaded
        cells: dict[str, Cells] = {name: [None] for name in features.columns}
        cells |= {name: [text] for name, texts in features.text_features.texts.items() for text in texts[:1]}
        batch = RowBatch(np.array([features.taken + 1]), cells)
        origin = _TableRows(self.settings, features.taken, learned=True)
        for where in ("later", "never"):
            work = features.copy()
            with np.errstate(all="ignore"):
                rows = work.encode(batch, origin, where)
                self._model.predict(rows._replace(elapsed=None), work)
            work.know_label(features.rows, 0.0)
        json.dumps(features.state()[0], allow_nan=False)
        features.all_problems()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the stream that `save` wrote to `path`, or that of a run's folder; it goes on with the same bits."""
        return read_model(cls, find_model_file(Path(_check.path("Stream", path))))

    def __repr__(self) -> str:
        given = {name: value for name, value in self.settings.as_dict().items() if value != DEFAULTS.get(name)}
        return f"Stream({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def _repr_html_(self) -> str:
        facts = {"target": self.settings.target, "task": self.task, "rows learned": f"{self.rounds:,}"}
        if self.features is not None:
            facts["columns"] = ", ".join(self.features.columns[:8])
            facts |= {"notes": "; ".join(self.notes)} if self.notes else {}
            seen = [f"{one['kind']} '{one['column']}' in {one['count']:,} rows" for one in self.problems]
            facts |= {"problems of the data": ", ".join(seen)} if seen else {}
        return html.facts_table("Stream", facts)


DEFAULTS = Settings(target="y").as_dict()


def _with_index(answers: Answers, batch: RowBatch, table: Frame) -> Answers:
    """Return answers that know the index of a frame of pandas, less the rows that were left out."""
    table = table.to_frame().T if is_series(table) else table
    index: Any = getattr(table, "index", None)
    if getattr(table, "ndim", 0) != 2 or index is None:
        return answers
    return dataclasses.replace(answers, index=index[answers.line - batch.lines[:1].sum()])


def _as_list(row: Any) -> list[Any]:
    """Return references as a list; one alone is a list of one."""
    row = row.tolist() if hasattr(row, "tolist") else row
    return list(row) if isinstance(row, (list, tuple)) else [row]


class _TableRows(RowOrigin):
    """Rows of a table in Python, numbered after all rows that came `before`; whether the columns are `learned` yet."""

    def __init__(self, settings: Settings, before: int, *, learned: bool) -> None:
        super().__init__("the table", settings)
        self._before, self._learned = before, learned

    def at(self, line: int) -> str:
        """Return where something stands, for an error."""
        return super().at(line - self._before)

    def leave_out(self, name: str) -> str:
        """Return how a column is left out, for an error."""
        return f"begin again with drop=['{name}']" if self._learned else super().leave_out(name)

    def mark_missing(self, text: str) -> str:
        """Return how a cell is said to be missing, for an error."""
        return "give None if it is missing" if self._learned else super().mark_missing(text)

    def choose(self, setting: str, value: str) -> str:
        """Return how a setting is given a value, for an error."""
        chosen = super().choose(setting, value)
        return chosen.replace("pass", "begin again with", 1) if self._learned else chosen

    def sort(self) -> str:
        """Return how rows are brought into order, for an error."""
        return "sort the table by it"


def _make_settings(target: str, values: dict[str, Any]) -> Settings:
    """Return the settings of a stream in Python."""
    wrong = next((name for name in values if name in FILES), None)
    if wrong is not None:
        raise InputError(f"Stream: {wrong} is for files; leave it out, or use undrift.run.play_file")
    with python_words():
        return Settings.from_dict({"target": target, **values}, "Stream")


def _read_labels(code: LabelCode, labels: Sequence[Any], lines: NDArray[np.int64], origin: RowOrigin) -> Vector:
    """Return labels that came by themselves as a model learns them, NaN for those that never come."""
    cells = read_cells("Stream", code.target, list(labels))
    if code.classes is not None:
        return code.encode(cells, lines, origin)
    try:
        y = parse_numbers(cells, origin.na)
    except UnreadableCell as bad:
        raise not_a_number(origin, int(lines[bad.row]), code.target, bad.cell) from None
    large = np.flatnonzero(np.abs(y) > LIMIT)
    if len(large):
        raise DataError(
            f"{origin.at(int(lines[large[0]]))}: the target '{code.target}' is {y[large[0]]:g}, where numbers up to "
            f"{LIMIT:g} in size are allowed; correct it, or write it in larger units"
        )
    return y


def _row_of(batch: RowBatch, t: int) -> RowBatch:
    return RowBatch(batch.lines[t : t + 1], {name: cells[t : t + 1] for name, cells in batch.columns.items()})

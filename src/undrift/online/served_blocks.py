"""Serve rows and settle labels in blocks: the same bits as `ask` and `tell` row by row, without their ceremony.

A service asks and tells thousands of times a second. What it needs of a served row is a few numbers, and checking a
block once costs as much as checking a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from undrift import _check
from undrift._typing import Vector
from undrift.errors import InputError
from undrift.kernels.definitions import EstimatorNumber, IntervalState, RecordPart
from undrift.online.base import OnlineLearner
from undrift.online.intervals import LEVELS, cut
from undrift.online.rows import Rows


class ServedRow(NamedTuple):
    """What was answered to a row."""

    serial: int
    """The row's number among all rows served, from 1 on."""
    yhat: float
    """The prediction; log-odds of the label +1 for two classes."""
    known: bool
    """Whether any label had been learned before; if not, the prediction says nothing."""
    lower: float | None
    """Ends of the interval; None where there is none."""
    upper: float | None


def ask_rows(model: OnlineLearner, rows: Rows, level: float = 0.9) -> list[ServedRow]:
    """Serve rows that have come, a matrix (n, d) or a `Table`, each as `ask` would.

    `level` is one of those whose intervals are tracked.
    """
    with model._exclusive_lock:
        arriving = model._rows_to_learn(rows)
        model._admit(arriving.names)
        model._fix_width(arriving.values.shape[1])
        found = []
        for t in range(len(arriving.values)):
            record = model._serve_row(arriving.values[t : t + 1])
            one = _read_record(model, record, level)
            model._pending.add(one.serial, record)
            found.append(one)
        model._count()
        return found


def tell_rows(
    model: OnlineLearner, serials: Sequence[int], labels: Iterable[float], level: float = 0.9
) -> list[ServedRow]:
    """Learn the labels of rows that wait, in this order, each as `tell` would; return what had been served."""
    with model._exclusive_lock:
        given = np.array([*labels], dtype=np.float64)
        y = model._labels(given, len(serials)).tolist()
        lost = next((serial for serial in serials if serial not in model._pending), None)
        if lost is not None:
            raise InputError(f"{_check.name_of(model)}: no row {lost} waits for its label")
        model._name_labels(given)
        found = []
        for serial, label in zip(serials, y, strict=True):
            found.append(_read_record(model, model._pending[serial], level))
            model._tell(serial, label)
        return found


def explain_missing_interval(model: OnlineLearner) -> str | None:
    """Return why the next row would be served without an interval though labels were learned; None if it has one.

    Labels that are so many rows late that fewer predictions than that were judged tell nothing of the error to come.
    """
    with model._exclusive_lock:
        if model.binary or not model.rounds:
            return None
        rows = int(model.served_rows - model._number(EstimatorNumber.LAST_SERIAL))
        judged = int(model.part("intervals")[IntervalState.RESIDUALS])
    if rows < judged:
        return None
    return f"{rows:,} rows came since the last labelled one, and only {judged:,} labels were compared with predictions"


def release_record(model: OnlineLearner, serial: int) -> Vector:
    """Return all that a model keeps of a row that waits for its label, as one vector; the model keeps it no longer.

    Give it back with `adopt_record` before the label is told, whatever the model has learned since.
    """
    with model._exclusive_lock:
        return model._release_record(serial)


def adopt_record(model: OnlineLearner, serial: int, kept: Vector) -> None:
    """Let a model keep a row again that `release_record` took away; refuse numbers that are no such record."""
    with model._exclusive_lock:
        model._adopt_record(serial, kept)


def _read_record(model: OnlineLearner, record: Vector, level: float) -> ServedRow:
    """Return what a record says, without making an object of every part of it."""
    serial, yhat = int(record.item(RecordPart.SERIAL)), record.item(RecordPart.YHAT)
    known = bool(record.item(RecordPart.KNOWN))
    if model.binary or not record.item(RecordPart.BOUNDED):
        return ServedRow(serial, yhat, known, None, None)
    begin, k = model._plan_of(record).kernel.quantiles_at, _PLACES[level]
    ends = (record.item(begin + len(LEVELS) - 1 - k), record.item(begin + len(LEVELS) + 1 + k))
    return ServedRow(serial, yhat, known, *(cut(end, model._limits) for end in ends))


_PLACES = {level: k for k, level in enumerate(LEVELS.tolist())}

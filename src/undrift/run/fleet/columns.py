"""The plan of a keyed run: what the columns are, found on the first rows of all keys, and then kept to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from undrift.errors import DataError, InputError
from undrift.fleet import Fleet
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.run.fleet.orders import TimeColumn, infer_time_reader, parse_wait, require_integer_column
from undrift.run.prepare.columns import PREFIX, join_column, not_a_number
from undrift.run.prepare.task import TargetColumn, are_numbers, infer_task
from undrift.run.read.cells import is_missing, parse_number
from undrift.run.read.rows import Cells, RowBatch
from undrift.run.read.source import Source


class FleetColumns(NamedTuple):
    """What each column of a file with many keys is."""

    fleet: Fleet
    """Columns and model."""
    task: str
    """regression or classification."""
    classes: tuple[str, ...] | None
    """The two labels, the negative one first."""
    clock: TimeColumn | None
    """How times are written, if rows are ordered by time."""
    left_out: list[str]
    """Columns that are no numbers."""


def infer_fleet_columns(source: Source, key: str, order: str | None, wait: str) -> FleetColumns:
    """Return what the columns are, from the first rows."""
    head = list(islice(source.batches(), PREFIX + 1))
    first, whole = head[:PREFIX], len(head) <= PREFIX
    if not first:
        raise DataError(f"{source.name} has no rows, only a header; there is nothing to learn")
    settings, na = source.settings, frozenset(source.settings.na)
    names = list(dict.fromkeys(name for batch in first for name in batch.columns))
    asked = [key, settings.target, *filter(None, (order, settings.time)), *(settings.features or ()), *settings.drop]
    for name in asked:
        if name not in names:
            raise InputError(f"column '{name}' not found; columns are {', '.join(names)}")
    features, left_out = list(settings.features or ()), list[str]()
    if settings.features is None:
        taken = {key, settings.target, order, settings.time, *settings.drop}
        others = [name for name in names if name not in taken]
        features = [name for name in others if _is_numeric(join_column(name, first), na)]
        left_out = [name for name in others if name not in features]
    if not features:
        raise InputError("no column is left to learn from; name some with --features")
    task, classes = _task(source, first, whole)
    time_parser = None
    if order is not None:
        require_integer_column(source, order, first, na)
    elif settings.time is not None:
        time_parser = infer_time_reader(source, settings.time, first, na)
    model = OnlineClassifier if task == "classification" else OnlineRegressor
    fleet = Fleet(
        model(speed=settings.model, seed=settings.seed),
        key=key,
        order=order or settings.time,
        features=features,
        target=settings.target,
        wait=parse_wait(wait, None if time_parser is None else time_parser.unit),
        numbered=order is not None,
        on_error="report",
    )
    return FleetColumns(fleet, task, classes, time_parser, left_out)


def _is_numeric(cells: Cells, na: frozenset[str]) -> bool:
    """Whether a column is numbers, a few bad cells aside, which will be reported one by one."""
    if isinstance(cells, np.ndarray):
        return cells.dtype.kind != "M"
    known = [parse_number(cell) is not None for cell in cells if not is_missing(cell, na)]
    return 2 * sum(known) > len(known)


def _task(source: Source, first: Sequence[RowBatch], whole: bool) -> tuple[str, tuple[str, ...] | None]:
    """Return the task and the classes."""
    name = source.settings.target
    target = TargetColumn(source, join_column(name, first), np.concatenate([batch.lines for batch in first]), whole)
    task, classes = infer_task(target)
    known = target.known()
    if task == "regression" and not are_numbers([cell for _, cell in known]):
        line, cell = next((line, cell) for line, cell in known if parse_number(cell) is None)
        raise not_a_number(source, line, name, cell)
    return task, classes

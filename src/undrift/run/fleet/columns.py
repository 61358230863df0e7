"""What each column of a file with many keys is, inferred from the first rows of all keys, and then kept to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from undrift.errors import DataError, InputError
from undrift.fleet import Fleet
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.run.fleet.orders import parse_wait, require_integer_column
from undrift.run.fleet.times import TimeColumn, infer_time_column
from undrift.run.prepare.first_rows import FirstRows, read_first_rows
from undrift.run.prepare.task import infer_task
from undrift.run.read.source import Source
from undrift.run.settings import Settings


class FleetColumns(NamedTuple):
    """What each column of a file with many keys is."""

    fleet: Fleet
    """Columns and model."""
    task: str
    """regression or classification."""
    classes: tuple[str, ...] | None
    """The two labels, the negative one first."""
    time: TimeColumn | None
    """How times are written, if rows are ordered by time."""
    left_out: list[str]
    """Columns that are no numbers."""


def infer_fleet_columns(source: Source, key: str, order: str | None, wait: str) -> FleetColumns:
    """Return what the columns are, from the first rows."""
    first, _ = read_first_rows(source)
    settings = source.settings
    asked = [key, settings.target, *filter(None, (order, settings.time)), *(settings.features or ()), *settings.drop]
    for name in asked:
        if name not in first.columns:
            raise InputError(f"column '{name}' not found; columns are {', '.join(first.columns)}")
    features, left_out = list(settings.features or ()), list[str]()
    if settings.features is None:
        taken = {key, settings.target, order, settings.time, *settings.drop}
        others = [name for name in first.columns if name not in taken]
        features = [name for name in others if _is_numeric(first, name)]
        left_out = [name for name in others if name not in features]
    if not features:
        raise InputError("no column is left to learn from; name some with --features")
    task, classes = infer_task(first)
    if task == "multiclass":
        raise DataError(
            f"{source.name}: the target '{settings.target}' has several classes ({', '.join((classes or ())[:3])}, "
            "...), where a fleet takes two; make one column of 0 and 1 for each, use undrift run for one stream, or "
            "pass --task regression if they are numbers"
        )
    time = None
    if order is not None:
        require_integer_column(first, order)
    elif settings.time is not None:
        time = infer_time_column(first, settings.time)
    unit = None if time is None else time.unit
    fleet = make_fleet(settings, task, key, order, features, parse_wait(wait, unit))
    return FleetColumns(fleet, task, classes, time, left_out)


def make_fleet(settings: Settings, task: str, key: str, order: str | None, features: Sequence[str], wait: int) -> Fleet:
    """Return the fleet of these columns, before its first record; `wait` is in orders."""
    model = OnlineClassifier if task == "classification" else OnlineRegressor
    return Fleet(
        model(speed=settings.speed, seed=settings.seed),
        key=key,
        order=order or settings.time,
        features=features,
        target=settings.target,
        wait=wait,
        numbered=order is not None,
        on_error="report",
    )


def _is_numeric(first: FirstRows, name: str) -> bool:
    """Whether most of a column is numbers: the other cells will be reported one by one, so they need not be few."""
    numbers, known = first.count_numbers(name)
    return 2 * numbers > known

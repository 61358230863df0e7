"""What the paths of `undrift.Stream` share: a stream made as the scenario asks, and rows of its table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import undrift as ud

from ..scenarios import Scenario

NO_SETTINGS = ("texts", "certify", "alert", "resume")
"""What a stream has no setting for: it is found in the columns, or is done beside it."""
UNSEEN = ("elapsed", "many texts")
"""Features that a single row does not show: the columns are found from the whole table before its first row."""


def make_stream(scenario: Scenario, *known: str) -> Any:
    """Return the stream of a scenario before its first row; options that the driver takes care of are `known`."""
    settings: dict[str, Any] = {"speed": "fast"}
    for name, value in scenario.options.items():
        if name == "elapsed":
            settings[name] = True
        elif name == "classes":
            settings["task"] = "multiclass"  # a single row shows one label
        elif name not in (*NO_SETTINGS, *known):
            settings[name] = value
    return ud.Stream("y", **settings)


def make_row_stream(scenario: Scenario, *known: str) -> Any:
    """Return the same for rows that come one by one, which bring the columns where a single row shows them."""
    stream = make_stream(scenario, *known)
    return stream.infer(make_frame(scenario)) if scenario.feature in UNSEEN else stream


def make_frame(scenario: Scenario, rows: slice = slice(None)) -> Any:
    """Return some rows of the table as a data frame."""
    import polars as pl

    return pl.DataFrame({name: cells[rows] for name, cells in scenario.columns.items()})


def make_rows(scenario: Scenario, leave_out: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the rows of the table as dictionaries, None where a cell is missing."""
    names = [name for name in scenario.columns if name not in leave_out]
    cells = zip(*(scenario.columns[name] for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in cells]


def answer_columns(answers: Any, scenario: Scenario) -> dict[str, Any]:
    """Return what the scenario shows of answers, less the classes that no label had yet."""
    columns = answers.columns()
    names = {name: "prediction" if name == "yhat" else name for name in scenario.shows}
    return {name: columns[column] for name, column in names.items() if column in columns}

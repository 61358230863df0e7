"""What the paths over arrays share: an estimator made as the scenario asks, and rows as dictionaries."""

from __future__ import annotations

import math
from typing import Any

from ..scenarios import Scenario

NO_FEATURES = ("time", "y", "w")


def make_estimator(scenario: Scenario, regressor: Any, classifier: Any, *known: str) -> Any:
    """Return an estimator of the scenario.

    Options that the driver takes care of are `known`. All others are parameters of the estimator, which refuses the
    ones it does not have.
    """
    arguments: dict[str, Any] = {"speed": "fast"}
    for name, value in scenario.options.items():
        if name == "missing":
            arguments["indicators"] = value == "indicators"
        elif name == "candidate":
            arguments["candidates"] = [value]
        elif name == "alert" and value == "events" and "watch" in known:
            pass  # a watch beside the loop finds them
        elif name != "classes" and name not in known:
            arguments[name] = value
    return (classifier if "classes" in scenario.options else regressor)(**arguments)


def feature_names(scenario: Scenario) -> list[str]:
    """Return the columns that are features, or predictions made elsewhere."""
    return [name for name in scenario.columns if name not in NO_FEATURES]


def row_dicts(scenario: Scenario) -> list[dict[str, Any]]:
    """Return the features of each row by name, NaN where missing."""
    names = feature_names(scenario)
    cells = zip(*(scenario.columns[name] for name in names), strict=True)
    return [{name: math.nan if cell is None else cell for name, cell in zip(names, row, strict=True)} for row in cells]


def labels(scenario: Scenario) -> list[Any]:
    """Return the labels, NaN where missing."""
    return [math.nan if cell is None else cell for cell in scenario.columns["y"]]


def classes_of(scenario: Scenario) -> list[str]:
    """Return the classes in order; none for numbers."""
    return sorted(set(scenario.columns["y"])) if "classes" in scenario.options else []


def cell(scenario: Scenario, name: str, row: int) -> Any:
    """Return the weight or the elapsed time of a row, None where the scenario has none."""
    if name not in scenario.options:
        return None
    value = scenario.options[name]
    return scenario.columns[value][row] if isinstance(value, str) else float(value[row])


def some(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are given."""
    return {name: value for name, value in arguments.items() if value is not None}

"""What the paths over arrays share: an estimator made as the scenario asks, and rows as dictionaries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import undrift as ud

from ..outcome import Answers
from ..references import certificate_columns, name_event
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
            arguments["candidates"] = [value] if isinstance(value, str) else value
        elif name not in ("classes", "alert") and name not in known:  # a watch beside the loop finds events
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


def certify_inside(model: Any, rows: Any, y: list[Any]) -> Answers:
    """Return the certificate of the estimator inside of what has learned the rows, which is played again."""
    from undrift.regret import certify, comparators

    certificate = certify(model, rows, y, u=comparators.fixed)
    return Answers(certificate_columns(certificate), single=True)


class Alarms:
    """A watch beside a loop, which calls whoever is to be told of events."""

    def __init__(self) -> None:
        self._heard: list[str] = []
        self._watch = ud.events.Watch(on_event=lambda event: self._heard.append(name_event(event.kind, event.row)))

    def add(self, t: int, row: dict[str, Any], y: float, known: bool, yhat: float, interval: Any) -> None:
        """Show a row, and if any label was `known` what was predicted for it."""
        self._watch.add_row(t, list(row), list(row.values()))
        if known:
            self._watch.add_round(t, y, yhat, *interval)

    def add_memory(self, t: int, model: Any) -> None:
        """Show the memory of the estimator now and then, after it has learned."""
        if model.rounds % 10 == 0:
            self._watch.add_memory(t, model.spectrum())

    def answers(self, scenario: Scenario) -> Answers:
        """Return the events, or that somebody was told of some."""
        found = {"signal": np.array([bool(self._heard)]), "events": np.array(self._heard)}
        return Answers({name: found[name] for name in scenario.shows}, single=True)

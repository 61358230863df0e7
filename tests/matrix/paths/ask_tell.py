"""`ask` and `tell` of the online estimators: rows are served, and learned when their labels come."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import undrift as ud

from ..outcome import Answers, PathDriver, explain_errors
from ..references import expect_stream
from ..scenarios import CUT, Scenario
from .estimators import Alarms, cell, classes_of, labels, make_estimator, row_dicts, some


class AskTell(PathDriver):
    """Each row is asked for, and its label told as late as the scenario says."""

    name = "ask, tell"
    expect = staticmethod(expect_stream)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Ask for every row, and tell the labels that are due."""
        asked, answers = scenario.options, {name: np.full(scenario.rows, math.nan) for name in scenario.shows}
        rows, y, delay = row_dicts(scenario), labels(scenario), scenario.options.get("delay", 0)
        waiting, alarms = dict[int, Any](), Alarms()
        with explain_errors():
            model = make_estimator(
                scenario, ud.OnlineRegressor, ud.OnlineClassifier,
                "weight", "elapsed", "delay", "level", "quantiles", "resume",
            )  # fmt: skip
            for t, row in enumerate(rows):
                served = waiting[t] = model.ask(row, **some(elapsed=cell(scenario, "elapsed", t)))
                if "alert" in asked:
                    alarms.add(t, row, y[t], served.known, served.yhat, served.interval(0.9))
                elif t >= scenario.start:
                    for name, value in _columns(served, scenario).items():
                        answers[name][t] = value
                if "resume" in asked and t == CUT:  # while the row waits for its label
                    model.save(folder / "model.undrift")
                    model = ud.load(folder / "model.undrift")
                due = t - delay
                if due >= 0:
                    model.tell(waiting.pop(due), y[due], **some(weight=cell(scenario, "weight", due)))
                if "alert" in asked:
                    alarms.add_memory(t, model)
        return alarms.answers(scenario) if "alert" in asked else Answers(answers)


def _columns(served: Any, scenario: Scenario) -> dict[str, float]:
    """Return what the scenario shows about a served row."""
    asked = scenario.options
    if "classes" in asked:
        p = np.exp(served.yhat).tolist()
        return dict(zip([f"p({label})" for label in classes_of(scenario)], p, strict=True))
    if "quantiles" in asked:
        return {f"q{level}": served.quantile(level) for level in asked["quantiles"]}
    if "level" in asked:
        low, high = served.interval(asked["level"])
        return {"lower": low, "upper": high}
    return {"yhat": served.yhat}

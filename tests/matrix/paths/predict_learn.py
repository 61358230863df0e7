"""`predict` and `learn` of the online estimators, row by row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import undrift as ud

from ..outcome import Answers, PathDriver, explain_errors
from ..references import expect_peeked, expect_seen_classes
from ..scenarios import CUT, Scenario
from .estimators import Alarms, cell, classes_of, labels, make_estimator, row_dicts, some


class PredictLearn(PathDriver):
    """Each row is predicted, and learned as late as the scenario says; late labels from what was predicted."""

    name = "predict, learn"
    tolerance: ClassVar = {"several classes": 1e-12}
    """`predict_proba` divides by another sum than `play`."""
    expect = staticmethod(expect_seen_classes)

    def others(self, scenario: Scenario) -> dict[str, Answers]:
        """Return what late labels are where nothing says before which row has come."""
        return {"features advance with the label": expect_peeked(scenario)} if "delay" in scenario.options else {}

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Predict and learn every row."""
        asked, answers = scenario.options, {name: np.full(scenario.rows, math.nan) for name in scenario.shows}
        rows, y, delay = row_dicts(scenario), labels(scenario), scenario.options.get("delay", 0)
        waiting, alarms = dict[int, Any](), Alarms()
        with explain_errors():
            model = make_estimator(
                scenario, ud.OnlineRegressor, ud.OnlineClassifier,
                "weight", "elapsed", "delay", "level", "quantiles", "resume",
            )  # fmt: skip
            for t, row in enumerate(rows):
                when = some(elapsed=cell(scenario, "elapsed", t))
                if "alert" in asked:
                    alarms.add(t, row, y[t], model.rounds > 0, model.predict(row), model.predict_interval(row))
                elif t >= scenario.start:
                    for name, value in self._predict(model, scenario, row, when).items():
                        answers[name][t] = value
                if delay:
                    waiting[t] = model.peek(row)
                due = t - delay
                if due >= 0:
                    weight, served = cell(scenario, "weight", due), waiting.pop(due, None)
                    model.learn(rows[due], y[due], **some(weight=weight, served=served), **when)
                if "alert" in asked:
                    alarms.add_memory(t, model)
                if "resume" in asked and t == CUT:
                    model.save(folder / "model.undrift")
                    model = ud.load(folder / "model.undrift")
        return alarms.answers(scenario) if "alert" in asked else Answers(answers)

    def _predict(self, model: Any, scenario: Scenario, row: dict[str, Any], when: dict[str, float]) -> dict[str, float]:
        """Return what the scenario shows about one row."""
        asked = scenario.options
        if "classes" in asked:
            p = model.predict_proba(row, **when)
            return dict(zip([f"p({label})" for label in classes_of(scenario)], p.tolist(), strict=True))
        if "quantiles" in asked:
            ends = model.predict_quantiles(row, asked["quantiles"], **when)
            return dict(zip(scenario.shows, ends.tolist(), strict=True))
        if "level" in asked:
            interval = model.predict_interval(row, asked["level"], **when)
            return {"lower": interval.low, "upper": interval.high}
        return {"yhat": model.predict(row, **when)}

"""River's estimators: `predict_one` and `learn_one`."""

from __future__ import annotations

import math
import pickle
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..outcome import Answers, PathDriver, explain_errors
from ..references import expect_peeked, expect_seen_classes
from ..scenarios import CUT, Scenario
from .estimators import Alarms, cell, certify_inside, classes_of, labels, make_estimator, row_dicts, some


class River(PathDriver):
    """Each row is predicted, and its label learned as late as the scenario says."""

    name = "River"
    tolerance: ClassVar = {"several classes": 1e-12}
    """`predict_proba` divides by another sum than `play`."""

    expect = staticmethod(expect_seen_classes)

    def others(self, scenario: Scenario) -> dict[str, Answers]:
        """Return what late labels are where nothing says before which row has come."""
        return {"features advance with the label": expect_peeked(scenario)} if "delay" in scenario.options else {}

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Predict every row, and learn the labels that are due."""
        from undrift.river import DriftClassifier, DriftRegressor

        asked, answers = scenario.options, {name: np.full(scenario.rows, math.nan) for name in scenario.shows}
        rows, y, delay = row_dicts(scenario), labels(scenario), scenario.options.get("delay", 0)
        known = ("weight", "elapsed", "delay", "level", "quantiles", "resume", "certify", "texts", "calendar", "lag")
        alarms, lags = Alarms(), some(lags=asked.get("lag"))
        if "calendar" in asked:
            rows = [{"time": when, **row} for when, row in zip(scenario.columns["time"], rows, strict=True)]
        with explain_errors():
            model = make_estimator(scenario, partial(DriftRegressor, **lags), DriftClassifier, *known)
            for t, row in enumerate(rows):
                when = some(elapsed=cell(scenario, "elapsed", t))
                if "alert" in asked:
                    known_labels = model.model.rounds > 0
                    alarms.add(t, row, y[t], known_labels, model.predict_one(row), model.predict_interval(row))
                elif "certify" not in asked:
                    shown = _predict(model, scenario, row, when)
                    for name, value in shown.items() if t >= scenario.start else ():
                        answers[name][t] = value
                due = t - delay
                if due >= 0:
                    model.learn_one(rows[due], y[due], **some(w=cell(scenario, "weight", due)), **when)
                if "alert" in asked:
                    alarms.add_memory(t, model.model)
                if "resume" in asked and t == CUT:
                    model = pickle.loads(pickle.dumps(model))
            if "certify" in asked:
                return certify_inside(model.model, rows, y)
        return alarms.answers(scenario) if "alert" in asked else Answers(answers)


def _predict(model: Any, scenario: Scenario, row: dict[str, Any], when: dict[str, float]) -> dict[str, float]:
    """Return what the scenario shows about one row."""
    asked = scenario.options
    if "classes" in asked:
        p = model.predict_proba_one(row, **when)
        return {f"p({label})": p.get(label, math.nan) for label in classes_of(scenario)}
    yhat = model.predict_one(row, **when)
    if "quantiles" in asked:
        ends = model.predict_quantiles(row, asked["quantiles"], **when)
        return {f"q{level}": ends[level] for level in asked["quantiles"]}
    if "level" in asked:
        interval = model.predict_interval(row, asked["level"], **when)
        return {"lower": interval.low, "upper": interval.high}
    return {"yhat": yhat}

"""`predict` and `learn` of the online estimators, row by row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import undrift as ud

from ..outcome import Answers, PathDriver, explain_errors
from ..references import expect_seen_classes, name_event
from ..scenarios import CUT, Scenario
from .estimators import cell, classes_of, labels, make_estimator, row_dicts, some


class PredictLearn(PathDriver):
    """Each row is predicted, and learned right after."""

    name = "predict, learn"
    tolerance: ClassVar = {"several classes": 1e-12}
    """`predict_proba` divides by another sum than `play`."""
    expect = staticmethod(expect_seen_classes)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Predict and learn every row."""
        asked, answers = scenario.options, {name: np.full(scenario.rows, math.nan) for name in scenario.shows}
        events: list[str] = []
        watch = ud.events.Watch(on_event=lambda event: events.append(name_event(event.kind, event.row)))
        with explain_errors():
            model = make_estimator(
                scenario, ud.OnlineRegressor, ud.OnlineClassifier,
                "weight", "elapsed", "delay", "level", "quantiles", "watch", "resume",
            )  # fmt: skip
            for t, (row, y) in enumerate(zip(row_dicts(scenario), labels(scenario), strict=True)):
                weight, elapsed = cell(scenario, "weight", t), cell(scenario, "elapsed", t)
                if t >= scenario.start and "alert" not in asked:
                    for name, value in self._predict(model, scenario, row, some(elapsed=elapsed)).items():
                        answers[name][t] = value
                if "alert" in asked:
                    watch.add_row(t, list(row), list(row.values()))
                    if model.rounds:
                        watch.add_round(t, y, model.predict(row), *model.predict_interval(row))
                model.learn(row, y, **some(weight=weight, elapsed=elapsed, delay=asked.get("delay")))
                if "alert" in asked and model.rounds % 10 == 0:
                    watch.add_memory(t, model.spectrum())
                if "resume" in asked and t == CUT:
                    model.save(folder / "model.undrift")
                    model = ud.load(folder / "model.undrift")
        return Answers({"events": np.array(events)}, single=True) if "alert" in asked else Answers(answers)

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

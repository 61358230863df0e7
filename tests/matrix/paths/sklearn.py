"""scikit-learn's estimators: `partial_fit` and `predict`."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..outcome import Answers, PathDriver, Refused, explain_errors
from ..references import expect_seen_classes
from ..scenarios import CUT, Scenario
from .estimators import cell, classes_of, labels, make_estimator, row_dicts, some


class Sklearn(PathDriver):
    """Each row is predicted, and fitted right after."""

    name = "sklearn"
    tolerance: ClassVar = {"several classes": 1e-12}
    """`predict_proba` divides by another sum than `play`."""
    expect = staticmethod(expect_seen_classes)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Predict and fit every row."""
        from undrift.sklearn import DriftClassifier, DriftRegressor

        asked, answers = scenario.options, {name: np.full(scenario.rows, math.nan) for name in scenario.shows}
        X = np.array([list(row.values()) for row in row_dicts(scenario)])
        y, classes = labels(scenario), classes_of(scenario)
        with explain_errors():
            model = make_estimator(
                scenario, DriftRegressor, DriftClassifier,
                "weight", "elapsed", "delay", "level", "quantiles", "resume",
            )  # fmt: skip
            for t in range(scenario.rows):
                row = X[t : t + 1]
                when = some(elapsed=cell(scenario, "elapsed", t))
                if t >= scenario.start:
                    for name, value in _predict(model, scenario, row, when).items():
                        answers[name][t] = value
                weight = cell(scenario, "weight", t)
                arguments = some(classes=(classes or None) if t == 0 else None, delay=asked.get("delay"))
                try:
                    model.partial_fit(
                        row, y[t : t + 1], **some(sample_weight=None if weight is None else [weight]), **arguments
                    )
                except ValueError as error:
                    raise Refused(str(error)) from error
                if "resume" in asked and t == CUT:
                    model = pickle.loads(pickle.dumps(model))
        return Answers(answers)


def _predict(model: Any, scenario: Scenario, row: Any, when: dict[str, float]) -> dict[str, float]:
    """Return what the scenario shows about one row."""
    asked = scenario.options
    if "classes" in asked:
        p = model.predict_proba(row, **when)[0]
        return dict(zip([f"p({label})" for label in classes_of(scenario)], p.tolist(), strict=True))
    if "quantiles" in asked:
        ends = model.predict_quantiles(row, asked["quantiles"], **when)[0]
        return dict(zip(scenario.shows, ends.tolist(), strict=True))
    if "level" in asked:
        interval = model.predict_interval(row, asked["level"], **when)
        return {"lower": interval.low[0], "upper": interval.high[0]}
    return {"yhat": model.predict(row, **when)[0]}

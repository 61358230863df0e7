"""scikit-learn's estimators: `partial_fit` and `predict`."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..outcome import Answers, PathDriver, explain_errors
from ..references import expect_seen_classes
from ..scenarios import CUT, Scenario
from .estimators import Alarms, cell, certify_inside, classes_of, labels, make_estimator, row_dicts, some
from .streams import make_frame

TABLES = ("lag", "texts", "calendar")
"""What is for data frames, whose columns are found from the rows of `fit`."""


class Sklearn(PathDriver):
    """Each row is predicted, and fitted right after; of tables, after the first rows were fitted at once."""

    name = "sklearn"
    tolerance: ClassVar = {"several classes": 1e-12}
    """`predict_proba` divides by another sum than `play`."""
    expect = staticmethod(expect_seen_classes)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Predict and fit every row."""
        from undrift.sklearn import DriftClassifier, DriftRegressor

        asked, answers = scenario.options, {name: np.full(scenario.rows, math.nan) for name in scenario.shows}
        if any(name in asked for name in TABLES):
            return _play_table(scenario, DriftRegressor)
        rows, alarms = row_dicts(scenario), Alarms()
        X, y, classes = np.array([list(row.values()) for row in rows]), labels(scenario), classes_of(scenario)
        with explain_errors():
            model = make_estimator(
                scenario, DriftRegressor, DriftClassifier,
                "weight", "elapsed", "delay", "level", "quantiles", "resume", "certify",
            )  # fmt: skip
            for t in range(scenario.rows):
                row = _frame(X[t : t + 1], list(rows[0])) if "candidate" in asked else X[t : t + 1]
                weight, elapsed = cell(scenario, "weight", t), cell(scenario, "elapsed", t)
                if "alert" in asked:
                    told = (model.predict(row)[0], np.ravel(model.predict_interval(row))) if t else (0.0, ())
                    alarms.add(t, rows[t], y[t], t > 0, *told)
                elif t >= scenario.start and "certify" not in asked:
                    for name, value in _predict(model, scenario, row, some(elapsed=elapsed)).items():
                        answers[name][t] = value
                arguments = some(classes=(classes or None) if t == 0 else None, delay=asked.get("delay"))
                arguments |= {} if weight is None else {"sample_weight": [weight]}
                arguments |= {} if elapsed is None else {"elapsed": [elapsed]}
                model.partial_fit(row, y[t : t + 1], **arguments)
                if "alert" in asked:
                    alarms.add_memory(t, model.model_)
                if "resume" in asked and t == CUT:
                    model = pickle.loads(pickle.dumps(model))
            if "certify" in asked:
                return certify_inside(model.model_, X, y)
        return alarms.answers(scenario) if "alert" in asked else Answers(answers)


def _play_table(scenario: Scenario, regressor: Any) -> Answers:
    """Fit the first rows of a table, and predict and fit each of the others."""
    frame, yhat = make_frame(scenario).drop("y"), []
    y = labels(scenario)
    with explain_errors():
        model = make_estimator(scenario, regressor, None, "texts").fit(frame[:CUT], y[:CUT])
        for t in range(CUT, scenario.rows):
            yhat.append(model.predict(frame[t : t + 1])[0])
            model.partial_fit(frame[t : t + 1], y[t : t + 1])
    return Answers({"yhat": np.array(yhat)}, rows=slice(CUT, None))


def _frame(X: Any, names: list[str]) -> Any:
    """Return rows with the names of their columns, by which candidates are known."""
    import pandas as pd

    return pd.DataFrame(X, columns=names)


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

"""River's estimators: `predict_one` and `learn_one`."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..outcome import Answers, PathDriver, explain_errors
from ..references import expect_seen_classes
from ..scenarios import CUT, Reference, Scenario
from .estimators import cell, classes_of, labels, make_estimator, row_dicts, some


class River(PathDriver):
    """Each row is predicted, and its label learned as late as the scenario says."""

    name = "River"
    tolerance: ClassVar = {"several classes": 1e-12}
    """`predict_proba` divides by another sum than `play`."""

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return what the library says; of several classes, with the numbers by which River's estimator knows them."""
        return expect_seen_classes(scenario, _number_classes(reference))

    def others(self, scenario: Scenario) -> dict[str, Answers]:
        """Return what late labels mean where nobody says which prediction a label belongs to."""
        if "delay" not in scenario.options:
            return {}
        if "classes" in scenario.options:
            return {"learned as if just predicted": _learn_late(scenario)}
        return {"means of features advance with the label": _learn_peeked(scenario)}

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Predict every row, and learn the labels that are due."""
        from undrift.river import DriftClassifier, DriftRegressor

        asked, answers = scenario.options, {name: np.full(scenario.rows, math.nan) for name in scenario.shows}
        rows, y, delay = row_dicts(scenario), labels(scenario), scenario.options.get("delay", 0)
        known = ("weight", "elapsed", "delay", "level", "quantiles", "resume")
        with explain_errors():
            model = make_estimator(scenario, DriftRegressor, DriftClassifier, *known)
            for t, row in enumerate(rows):
                when = some(elapsed=cell(scenario, "elapsed", t))
                shown = _predict(model, scenario, row, when)
                if t >= scenario.start:
                    for name, value in shown.items():
                        answers[name][t] = value
                due = t - delay
                if due >= 0:
                    model.learn_one(rows[due], y[due], **some(w=cell(scenario, "weight", due)))
                if "resume" in asked and t == CUT:
                    model = pickle.loads(pickle.dumps(model))
        return Answers(answers)


def _predict(model: Any, scenario: Scenario, row: dict[str, Any], when: dict[str, float]) -> dict[str, float]:
    """Return what the scenario shows about one row."""
    asked = scenario.options
    if "classes" in asked:
        p = model.predict_proba_one(row, **when)
        return {f"p({label})": p.get(label, math.nan) for label in classes_of(scenario)}
    yhat = model.predict_one(row, **when)
    if "quantiles" in asked:
        ends = model.predict_quantiles(row, asked["quantiles"])
        return {f"q{level}": ends[level] for level in asked["quantiles"]}
    if "level" in asked:
        interval = model.predict_interval(row, asked["level"])
        return {"lower": interval.low, "upper": interval.high}
    return {"yhat": yhat}


def _number_classes(reference: Reference) -> Reference:
    """Return the reference with the labels -1, 1, 2 in the order in which classes appear."""
    if not reference.classes:
        return reference
    code = dict(zip(dict.fromkeys(reference.y), (-1.0, 1.0, 2.0), strict=False))
    return replace(reference, y=np.array([code[label] for label in reference.y]), names=tuple(code))


def _learn_peeked(scenario: Scenario) -> Answers:
    """Return the predictions of a library model that takes a row in when its label comes."""
    reference, delay = scenario.reference, scenario.options["delay"]
    model, peeked = reference.make_model(), []
    for t in range(scenario.rows):
        peeked.append(model.peek(reference.rows(slice(t, t + 1))))
        if t >= delay:
            model.learn_peeked(
                reference.rows(slice(t - delay, t - delay + 1)), reference.y[t - delay], peeked[t - delay]
            )
    return Answers({"yhat": np.array([row.yhat for row in peeked])})


def _learn_late(scenario: Scenario) -> Answers:
    """Return the probabilities of a library model that learns each row late, but as if it had just been predicted."""
    reference, delay = _number_classes(scenario.reference), scenario.options["delay"]
    model, answers, peeked = reference.make_model(), [], []
    for t in range(scenario.rows):
        peeked.append(model.peek(reference.rows(slice(t, t + 1))) if t < delay + 2 else None)
        known = t >= scenario.start
        answers.append(model.predict_proba(reference.rows(slice(t, t + 1)))[0] if known else [math.nan] * 3)
        due = t - delay
        if due in (0, 1):  # two classes so far
            model.learn_peeked(reference.rows(slice(due, due + 1)), reference.y[due], peeked[due])
        elif due > 1:
            model.play(reference.rows(slice(due, due + 1)), reference.y[due : due + 1])
    return Answers(dict(zip([f"p({label})" for label in reference.classes], np.array(answers).T, strict=True)))

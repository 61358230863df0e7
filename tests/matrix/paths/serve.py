"""`undrift serve` of a run's folder: rows are predicted as they come, labels learned as they come."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..outcome import Answers, PathDriver, explain_errors
from ..references import expect_events, expect_stream, name_event
from ..scenarios import CUT, SERVED, Reference, Scenario
from .commands import json_row, read_predictions, require, run_options, write_csv


class Serve(PathDriver):
    """A run learns the first rows, and its folder is served with the others."""

    name = "serve"

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return what the library says; labels are late, and events found, from the first served row on."""
        return expect_served(scenario, reference)

    def others(self, scenario: Scenario) -> dict[str, Answers]:
        """Return the answers of an update that does not know what the service learned."""
        if "update" not in scenario.options:
            return {}
        return {"what the service learned is not known": forget_served(scenario)}

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Run over the first rows, and serve the others."""
        level = scenario.options.get("level", 0.9)
        if "model file" in scenario.options:
            return serve_rows(scenario, _save_model(scenario, folder / "model.undrift"), level)
        file, out = write_csv(folder / "first.csv", scenario.columns, slice(0, CUT)), folder / "run"
        require("run", file, *run_options(_without_served(scenario)), "--out", out, "--no-report", "--quiet")
        answers = serve_rows(scenario, out, level)
        if "certify" in scenario.options:
            require("certify", out)
        if "update" not in scenario.options:
            return answers
        later = write_csv(folder / "later.csv", scenario.columns, slice(SERVED, None))
        require("update", out, later, "--no-report", "--quiet")
        return Answers({"yhat": read_predictions(out)["yhat"][SERVED:]}, rows=slice(SERVED, None))


def _save_model(scenario: Scenario, path: Path) -> Path:
    """Save a model that was made in Python and has learned the first rows."""
    reference, first = scenario.reference, slice(0, CUT)
    model = reference.make_model()
    model.play(reference.rows(first), reference.y[first])
    model.save(path)
    return path


def _without_served(scenario: Scenario) -> Scenario:
    """Return the scenario without what is asked of the service instead of the run."""
    served = ["level", "resume", "alert", "certify"]
    if "delayed run" not in scenario.options:
        served.append("delay")
    return replace(scenario, options={name: value for name, value in scenario.options.items() if name not in served})


def expect_served(scenario: Scenario, reference: Reference) -> Answers:
    """Return what the library says about the served rows, the first ones learned with labels in time."""
    if "alert" in scenario.options:
        return expect_events(scenario, reference, CUT)
    if "delay" in reference.play and "delayed run" not in scenario.options:
        late = np.where(np.arange(scenario.rows) < CUT, 0, reference.play["delay"])
        reference = replace(reference, play={**reference.play, "delay": late})
    return expect_stream(scenario, reference)


def forget_served(scenario: Scenario) -> Answers:
    """Return the predictions of a library model that never saw the rows of the service."""
    reference = scenario.reference
    model, first, later = reference.make_model(), slice(0, CUT), slice(SERVED, None)
    model.play(reference.rows(first), reference.y[first])
    yhat = model.play(reference.rows(later), reference.y[later]).yhat
    return Answers({"yhat": np.concatenate([np.zeros(SERVED), yhat])})


def serve_rows(scenario: Scenario, path: Path, level: float) -> Answers:
    """Serve the later rows of a scenario, each label as late as it says, and return the answers."""
    from undrift.serve import open_service

    asked = scenario.options
    rows: ClassVar = range(CUT, SERVED if "update" in asked else scenario.rows)
    answers: list[Any] = []
    with explain_errors():
        middle = (len(rows) // 2,) if "resume" in asked else ()
        for begin, end in zip((0, *middle), (*middle, len(rows)), strict=True):
            with open_service(path, level=level) as service:
                for k in range(begin, end):
                    hidden = ("y", "time") if "model file" in asked else ("y",)
                    (answer,) = service.predict([json_row(scenario.columns, rows[k], hidden)])
                    answers.append(answer)
                    learn_label(service, scenario, answers, k - asked.get("delay", 0))
                events = list(service.events)
    if scenario.shows == ("signal",):
        return Answers({"signal": np.array([bool(events)])}, single=True)
    if "alert" in asked:
        names = [name_event(event.kind, CUT + event.row - 1) for event in events]  # the service counts rows from 1
        return Answers({"events": np.array(names)}, single=True)
    return Answers(answer_columns(answers, scenario), rows=slice(CUT, None))


def learn_label(service: Any, scenario: Scenario, answers: list[Any], k: int) -> None:
    """Send the label of the k-th answer, if it is due; None says that it will never come."""
    from undrift.run.service.service import Label

    if k >= 0:
        service.learn([Label(answers[k].id, scenario.columns["y"][CUT + k])])


def answer_columns(answers: list[Any], scenario: Scenario) -> dict[str, Any]:
    """Return what a service answered, column by column."""
    if "classes" in scenario.options:
        labels = sorted(answers[-1].probabilities)
        return {f"p({label})": np.array([answer.probabilities[label] for answer in answers]) for label in labels}
    known = {"yhat": "prediction", "lower": "lower", "upper": "upper"}
    columns = {name: [getattr(answer, field) for answer in answers] for name, field in known.items()}
    for level in answers[-1].quantiles or ():
        columns[f"q{level}"] = [answer.quantiles[level] for answer in answers]
    return {
        name: np.array([math.nan if cell is None else cell for cell in cells], dtype=float)
        for name, cells in columns.items()
    }

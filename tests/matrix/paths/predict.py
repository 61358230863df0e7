"""`undrift predict`: rows of a file by the model that a run left, each as if it came next."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..outcome import Answers, PathDriver
from ..scenarios import CUT, Reference, Scenario
from .commands import require, run_options, write_csv


class Predict(PathDriver):
    """A run learns the first rows; the others are predicted, and nothing is learned from them."""

    name = "predict"

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return what the library predicts for each later row after it played the first ones."""
        if reference is scenario.reference:
            reference = scenario.others.get("means of the first rows", reference)
        model, first = reference.make_model(), slice(0, CUT)
        played = {
            name: value
            for name, value in reference.play_arguments(first).items()
            if name not in ("interval", "quantiles")
        }
        model.play(reference.rows(first), reference.y[:CUT], **played)
        answers: dict[str, list[float]] = {}
        for t in range(CUT, scenario.rows):
            row, when = dict(zip(reference.columns, reference.Z[t].tolist(), strict=True)), {}
            if "elapsed" in reference.play:
                when = {"elapsed": float(reference.play["elapsed"][CUT : t + 1].sum())}
            for name, value in _predict(model, reference, row, when).items():
                answers.setdefault(name, []).append(value)
        return Answers({name: np.array(answers[name]) for name in scenario.shows if name in answers}, single=True)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Run over the first rows, and predict the others."""
        asked = {name: value for name, value in scenario.options.items() if name not in ("level", "quantiles")}
        words = run_options(replace(scenario, options=asked))
        file, out = write_csv(folder / "first.csv", scenario.columns, slice(0, CUT)), folder / "run"
        require("run", file, *words, "--out", out, "--no-report", "--quiet", codes=(0, 6))
        later = write_csv(folder / "later.csv", scenario.columns, slice(CUT, None))
        level, quantiles = scenario.options.get("level"), scenario.options.get("quantiles")
        options: list[Any] = [] if level is None else ["--level", level]
        options += [] if quantiles is None else ["--quantiles", ",".join(map(str, quantiles))]
        rows = list(csv.DictReader(require("predict", out, later, "--quiet", *options).splitlines()))
        known = {"yhat": "prediction", "lower": "lower", "upper": "upper"}
        return Answers(
            {
                name: np.array([float(row[known.get(name, name)] or math.nan) for row in rows])
                for name in scenario.shows
                if known.get(name, name) in rows[0]
            },
            single=True,
        )


def _predict(model: Any, reference: Reference, row: dict[str, float], when: dict[str, float]) -> dict[str, float]:
    """Return what the library says about one row that might come next."""
    if reference.classes:
        p = np.ravel(model.predict_shares(row, **when)).tolist()
        return dict(zip([f"p({label})" for label in reference.classes], p, strict=True))
    out = {"yhat": model.predict(row, **when)}
    if "quantiles" in reference.play:
        levels = reference.play["quantiles"]
        out |= dict(zip([f"q{level}" for level in levels], model.predict_quantiles(row, levels).tolist(), strict=True))
    if "interval" in reference.play:
        low, high = model.copy().ask(row, **when).intervals[reference.play["interval"]]
        out |= {"lower": low, "upper": high}
    return out

"""`undrift compare`: scores of our estimators on a file, which follow from their predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..outcome import Answers, PathDriver
from ..references import play_reference
from ..scenarios import FEATURES, Reference, Scenario
from .commands import parse_json, require, run_options, write_csv


class Compare(PathDriver):
    """The options are those of a run."""

    name = "compare"
    tolerance: ClassVar = dict.fromkeys(FEATURES, 1e-13)
    """Scores are means."""

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return the scores of the library's predictions, of the rows before which a label was known."""
        columns = play_reference(reference)
        rows = slice(1 + reference.play.get("delay", 0), None)
        if reference.classes:
            codes = [reference.classes.index(label) for label in reference.y]
            p = np.array([columns[f"p({label})"] for label in reference.classes])[codes, range(len(codes))]
            return Answers({"score": np.array([-np.log(p[rows]).mean()])}, single=True)
        y = reference.y[rows]
        scores = {"score": np.sqrt(np.nanmean((columns["yhat"][rows] - y) ** 2))}
        if "lower" in columns:
            level = reference.play["interval"]
            lower, upper = columns["lower"][rows], columns["upper"][rows]
            there = np.isfinite(lower) & np.isfinite(upper)
            scores["coverage"] = np.mean((lower <= y) & (y <= upper), where=there)
            quantiles = {(1.0 - level) / 2.0: lower, (1.0 + level) / 2.0: upper}
        else:
            quantiles = {level: columns[f"q{level}"][rows] for level in reference.play.get("quantiles", ())}
        if quantiles:
            away = [np.where(np.isfinite(q), y - q, np.nan) for q in quantiles.values()]
            losses = [np.maximum(level * far, (level - 1.0) * far) for level, far in zip(quantiles, away, strict=True)]
            scores["pinball"] = np.nanmean(np.mean(losses, axis=0))
        return Answers({name: np.array([score]) for name, score in scores.items()}, single=True)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Compare on the whole file; one learner takes part, that of the scenario's speed."""
        asked, file = scenario.options, write_csv(folder / "rows.csv", scenario.columns)
        words: list[Any] = [file, *run_options(scenario), "--only", asked.get("speed", "fast")]
        words += ["--resume"] if "resume" in asked else []
        results = parse_json(require("compare", *words, "--no-peers", "--quiet", "--json"))["results"]
        ours = next(result for result in results if result["kind"] == "undrift")
        scores = {"score": next(iter(ours["scores"].values()))}
        for name, score in ours["intervals"].items():
            scores["coverage" if name.endswith("coverage") else name] = score
        return Answers({name: np.array([score]) for name, score in scores.items()}, single=True)

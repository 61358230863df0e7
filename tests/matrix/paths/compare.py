"""`undrift compare`: scores of our estimators on a file, which follow from their predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..outcome import Answers, PathDriver
from ..references import play_reference
from ..scenarios import FEATURES, Reference, Scenario
from .commands import parse_json, require, write_csv

SETTINGS = ("weight", "delay", "lag", "calendar", "candidate", "missing", "level", "quantiles")
"""Options that the file of settings has a name for."""


class Compare(PathDriver):
    """The settings come in a file of settings, which knows all of those that a run has."""

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
        asked = scenario.options
        file = write_csv(folder / "rows.csv", scenario.columns)
        settings: dict[str, Any] = {"target": "y", "time": "time"}
        settings |= {name: asked[name] for name in SETTINGS if name in asked}
        settings |= {"elapsed": True} if "elapsed" in asked else {}
        (folder / "settings.toml").write_text("".join(f"{name} = {_toml(value)}\n" for name, value in settings.items()))
        words: list[Any] = [file, "--settings", folder / "settings.toml", "--only", asked.get("speed", "fast")]
        words += ["--resume"] if "resume" in asked else []
        results = parse_json(require("compare", *words, "--no-peers", "--quiet", "--json"))["results"]
        ours = next(result for result in results if result["kind"] == "undrift")
        scores = {"score": next(iter(ours["scores"].values()))}
        for name, score in ours["intervals"].items():
            scores["coverage" if name.endswith("coverage") else name] = score
        return Answers({name: np.array([score]) for name, score in scores.items()}, single=True)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return str(list(value))
    return f'"{value}"' if isinstance(value, str) else str(value)

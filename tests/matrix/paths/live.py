"""`undrift run --live`: rows from a pipe, one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ..outcome import Answers, PathDriver, Refused
from ..references import expect_stream, name_event
from ..scenarios import Reference, Scenario
from .commands import call, json_row, require, run_options


class Live(PathDriver):
    """Predictions are printed as JSON lines; late labels come in lines of their own, by the row's name."""

    name = "live"

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return what the library says; where nobody has seen the file, each text brings its feature when it comes."""
        if scenario.part == "three texts" and reference is scenario.reference:
            return _play_growing(scenario)
        return expect_stream(scenario, reference)

    def others(self, scenario: Scenario) -> dict[str, Answers]:
        """Return what becomes of more texts than twenty."""
        return {"the first twenty texts": _play_growing(scenario)} if scenario.part == "thirty texts" else {}

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Write the lines of the pipe into a file, and read what is printed."""
        asked, file = scenario.options, folder / "rows.ndjson"
        delay = asked.get("delay")
        words = [file, "--live", *run_options(scenario)]
        if delay is not None:
            at = words.index("--delay")
            words[at : at + 2] = ["--id", "name"]
        if "classes" in asked:
            words += ["--task", "multiclass"]
        words += [f"--{name}" for name in ("certify", "resume") if name in asked]
        file.write_text("".join(json.dumps(line) + "\n" for line in _lines(scenario, delay)), encoding="utf-8")
        if "alert" in asked:
            return _alerts(scenario, words)
        printed = [json.loads(line) for line in require("run", *words).splitlines()]
        known = {"yhat": "prediction", "lower": "lower", "upper": "upper"}
        columns = {
            name: np.array([np.nan if line.get(key) is None else line[key] for line in printed])
            for name, key in known.items()
        }
        return Answers(columns)


def _lines(scenario: Scenario, delay: int | None) -> list[dict[str, object]]:
    """Return the objects of the pipe; the time of a row is no feature of a pipe."""
    if delay is None:
        return [json_row(scenario.columns, t) for t in range(scenario.rows)]
    lines = []
    for t in range(scenario.rows):
        lines.append({"name": f"row {t}", **json_row(scenario.columns, t, ("y",))})
        if t >= delay:
            lines.append({"name": f"row {t - delay}", "y": scenario.columns["y"][t - delay]})
    return lines


def _alerts(scenario: Scenario, words: list[object]) -> Answers:
    code, out, err = call("run", *words)
    if code not in (0, 6):
        raise Refused(err)
    if scenario.shows == ("signal",):
        return Answers({"signal": np.array([code == 6])}, single=True)
    lines = [json.loads(line) for line in out.splitlines()]
    events = [name_event(line["event"], line["line"] - 1) for line in lines if "event" in line]
    return Answers({"events": np.array(events)}, single=True)


def _play_growing(scenario: Scenario) -> Answers:
    """Return the predictions of a library model whose rows gain a feature for each of the first twenty texts."""
    column, numbers = scenario.options["texts"], scenario.others["ignored"]
    model, texts, yhat = numbers.make_model(), list[str](), []
    for t, text in enumerate(scenario.columns[column]):
        if text not in texts and len(texts) < 20:
            texts.append(text)
        row = dict(zip(numbers.columns, numbers.Z[t].tolist(), strict=True))
        row |= {f"{column}={known}": float(known == text) for known in texts}
        yhat.append(model.play([row], scenario.columns["y"][t : t + 1]).yhat[0])
    return Answers({"yhat": np.array(yhat)})

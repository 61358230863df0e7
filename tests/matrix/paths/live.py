"""`undrift run --live`: rows from a pipe, one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..outcome import Answers, PathDriver, Refused
from ..references import expect_stream, name_event
from ..scenarios import CUT, Reference, Scenario, earlier_means
from .commands import call, json_row, require, run_options, write_csv


class Live(PathDriver):
    """Predictions are printed as JSON lines; late labels come in lines of their own, by the row's name.

    Nobody has seen the rows before, but for the time between them and for texts: there a run over the first rows leaves
    a folder, and the pipe goes on from it. Texts are played in both ways.
    """

    name = "live"

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return what the library says; without a folder, each text brings its feature when it comes."""
        expected = expect_stream(scenario, reference)
        if "texts" not in scenario.options or reference is not scenario.reference:
            return expected
        return Answers({"yhat": _play_growing(scenario), AFTER_RUN: _hide_first(expected.columns["yhat"])})

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Write the lines of the pipe into files, and read what is printed."""
        asked = scenario.options
        words = _pipe_options(scenario)
        if "alert" in asked:
            return _alerts(scenario, [write_lines(scenario, folder / "rows.ndjson"), *words])
        if "resume" in asked:
            first = _predict(scenario, folder, words, slice(0, CUT), "--out", folder / "run")
            later = _predict(scenario, folder, words, slice(CUT, None), "--out", folder / "run", "--resume")
            return Answers({name: np.concatenate((first[name], later[name])) for name in first})
        if "elapsed" in asked:
            return Answers(_predict_after_run(scenario, folder, words), rows=slice(CUT, None))
        columns = _predict(scenario, folder, words, slice(None), *(["--certify"] if "certify" in asked else []))
        if "texts" in asked:
            later = _predict_after_run(scenario, folder, words)["yhat"]
            columns[AFTER_RUN] = np.concatenate((np.full(CUT, np.nan), later))
        return Answers(columns)


AFTER_RUN = "yhat after a run"
"""What the pipe predicts of the later rows where it goes on from the folder of a run."""


def _pipe_options(scenario: Scenario) -> list[object]:
    """Return the options of a pipe: labels that come later are known by the row's name, classes by the task."""
    words: list[object] = [*run_options(scenario)]
    if "delay" in scenario.options:
        at = words.index("--delay")
        words[at : at + 2] = ["--id", "name"]
    return [*words, "--task", "multiclass"] if "classes" in scenario.options else words


def _predict(scenario: Scenario, folder: Path, words: list[object], rows: slice, *more: object) -> dict[str, Any]:
    """Return what is printed for some rows."""
    file = write_lines(scenario, folder / f"rows from {rows.start or 0}.ndjson", rows)
    printed = [json.loads(line) for line in require("run", file, "--live", *words, *more).splitlines()]
    columns = {}
    for name in scenario.shows:
        key = "prediction" if name == "yhat" else name
        each = [
            (line.get("probabilities") or {}).get(name[2:-1]) if "p(" in name else line.get(key) for line in printed
        ]
        columns[name] = np.array([np.nan if cell is None else cell for cell in each])
    return columns


def _predict_after_run(scenario: Scenario, folder: Path, words: list[object]) -> dict[str, Any]:
    """Return what is printed for the later rows where a run has learned the first ones."""
    first, out = write_csv(folder / "first.csv", scenario.columns, slice(0, CUT)), folder / "run"
    require("run", first, *run_options(scenario), "--out", out, "--no-report", "--quiet")
    return _predict(scenario, folder, words, slice(CUT, None), "--out", out, "--resume")


def write_lines(scenario: Scenario, file: Path, rows: slice = slice(None)) -> Path:
    """Write some rows as the lines of a pipe."""
    lines = _lines(scenario, range(*rows.indices(scenario.rows)), scenario.options.get("delay"))
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def _lines(scenario: Scenario, rows: range, delay: int | None) -> list[dict[str, object]]:
    """Return the objects of the pipe."""
    if delay is None:
        return [json_row(scenario.columns, t) for t in rows]
    lines = []
    for t in rows:
        lines.append({"name": f"row {t}", **json_row(scenario.columns, t, ("y",))})
        if t >= delay:
            lines.append({"name": f"row {t - delay}", "y": scenario.columns["y"][t - delay]})
    return lines


def _alerts(scenario: Scenario, words: list[object]) -> Answers:
    code, out, err = call("run", *words, "--live")
    if code not in (0, 6):
        raise Refused(err)
    if scenario.shows == ("signal",):
        return Answers({"signal": np.array([code == 6])}, single=True)
    lines = [json.loads(line) for line in out.splitlines()]
    events = [name_event(line["event"], line["line"] - 1) for line in lines if "event" in line]
    return Answers({"events": np.array(events)}, single=True)


def _play_growing(scenario: Scenario) -> Any:
    """Return the predictions of a library model whose rows gain a feature for each of the first twenty texts.

    From the row with the first text too many on, the means of earlier labels of its text come in addition.
    """
    column, numbers, y = scenario.options["texts"], scenario.others["ignored"], scenario.columns["y"]
    cells = scenario.columns[column]
    firsts = sorted(cells.index(text) for text in set(cells))
    begin = firsts[20] if len(firsts) > 20 else scenario.rows
    recent, long = earlier_means(cells[begin:], np.array(y[begin:]))
    model, texts, yhat = numbers.make_model(), list[str](), []
    for t, text in enumerate(cells):
        if text not in texts and len(texts) < 20:
            texts.append(text)
        row = dict(zip(numbers.columns, numbers.Z[t].tolist(), strict=True))
        row |= {f"{column}={known}": float(known == text) for known in texts}
        if t >= begin:
            row |= {f"{column}: recent mean": recent[t - begin], f"{column}: mean": long[t - begin]}
        yhat.append(model.play([row], y[t : t + 1]).yhat[0])
    return np.array(yhat)


def _hide_first(column: Any) -> Any:
    """Return a column whose first rows, those of the run, are NaN."""
    return np.where(np.arange(len(column)) < CUT, np.nan, column)

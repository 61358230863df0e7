"""`undrift serve` of a fleet's folder: a model for each key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..outcome import Answers, PathDriver, explain_errors
from ..scenarios import CUT, SERVED, Reference, Scenario
from .commands import json_row, require, run_options, write_csv
from .fleet import read_fleet
from .keyed_rows import KEYS, expect_keys, join_keys, keyed_columns, scenarios_by_key
from .serve import answer_columns, expect_served, learn_label


class ServeKeys(PathDriver):
    """A fleet learns the first rows of two keys, and its folder is served with the others."""

    name = "serve by key"

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return what the library says about each key; labels are late from the first served row on."""
        if scenario.options.get("alert") == "events":
            found = [expect_served(own, own.reference).columns["events"] for own in scenarios_by_key(scenario).values()]
            kinds = [event.split(" in row")[0] for event in np.concatenate(found)]
            return Answers({"events": np.unique(kinds)}, single=True)
        if "alert" in scenario.options:
            return expect_served(scenario, reference)
        if "texts" in scenario.options and reference is scenario.reference:
            return expect_shared_texts(scenario)
        return expect_keys(scenario, reference, expect_served)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Play the fleet over the first rows, and serve the others."""
        from undrift.serve import open_service

        asked, out = scenario.options, folder / "fleet"
        file = write_csv(folder / "first.csv", keyed_columns(scenario, slice(0, CUT)))
        served = ("delay", "level", "resume", "alert", "certify")
        plain = {name: value for name, value in asked.items() if name not in served}
        words = ["--key", "key", *run_options(replace(scenario, options=plain))]
        require("fleet", file, *words, "--out", out, "--no-report", "--quiet")
        answers: dict[str, list[Any]] = {key: [] for key in KEYS}
        count = (SERVED if "update" in asked else scenario.rows) - CUT
        middle = (count // 2,) if "resume" in asked else ()
        with explain_errors():
            for begin, end in zip((0, *middle), (*middle, count), strict=True):
                with open_service(out, level=asked.get("level", 0.9)) as service:
                    for k in range(begin, end):
                        for key, own in scenarios_by_key(scenario).items():
                            row = {"key": key, **json_row(own.columns, CUT + k, ("y",))}
                            answers[key] += service.predict([row])
                            learn_label(service, own, answers[key], k - asked.get("delay", 0))
                    events = list(service.events)
        if "certify" in asked:
            require("certify", out)
        if "update" in asked:
            later = write_csv(folder / "later.csv", keyed_columns(scenario, slice(SERVED, None)))
            require("update", out, later, "--no-report", "--quiet")
            return Answers({"yhat": read_fleet(out, scenario.shows)["yhat"][SERVED:]}, rows=slice(SERVED, None))
        if scenario.shows == ("signal",):
            return Answers({"signal": np.array([bool(events)])}, single=True)
        if "alert" in asked:
            return Answers({"events": np.unique([str(event.kind) for event in events])}, single=True)
        columns = [answer_columns(answers[key], own) for key, own in scenarios_by_key(scenario).items()]
        return Answers(
            {name: join_keys([own_columns[name] for own_columns in columns]) for name in columns[0]},
            rows=slice(CUT, None),
        )


def expect_shared_texts(scenario: Scenario) -> Answers:
    """Return what a stream says about each key that knows the columns from the first rows of both."""
    import undrift as ud

    def columns(own: dict[str, list[Any]], rows: slice = slice(None)) -> dict[str, list[Any]]:
        return {name: cells[rows] for name, cells in own.items() if name != "key"}

    predictions = []
    for own in scenarios_by_key(scenario).values():
        stream = ud.Stream("y", time="time", speed="fast")
        stream.infer(_table(columns(keyed_columns(scenario, slice(0, CUT)))))
        predictions.append(stream.play(_table(columns(own.columns))).yhat)
    return Answers({"yhat": join_keys(predictions)})


def _table(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return columns as rows."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

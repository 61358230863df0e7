"""`undrift serve` of a fleet's folder: a model for each key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..outcome import Answers, PathDriver, explain_errors
from ..scenarios import CUT, SERVED, Reference, Scenario
from .commands import json_row, require, require_option, write_csv
from .fleet import fleet_options, read_fleet
from .keyed_rows import KEYS, expect_keys, join_keys, keyed_columns, scenarios_by_key
from .serve import answer_columns, expect_served, learn_label


class ServeKeys(PathDriver):
    """A fleet learns the first rows of two keys, and its folder is served with the others."""

    name = "serve by key"

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return what the library says about each key; labels are late from the first served row on."""
        if scenario.options.get("alert") == "events":
            answers = expect_served(scenario, reference).columns["events"]
            return Answers({"events": np.unique([event.split(" in row")[0] for event in answers])}, single=True)
        if "alert" in scenario.options:
            return expect_served(scenario, reference)
        return expect_keys(scenario, reference, expect_served)

    def others(self, scenario: Scenario) -> dict[str, Answers]:
        """Return what is watched by key."""
        return {"coverage of intervals alone": Answers({"events": np.array(["coverage fell"])}, single=True)}

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Play the fleet over the first rows, and serve the others."""
        from dataclasses import replace

        from undrift.serve import open_service

        asked, out = scenario.options, folder / "fleet"
        file = write_csv(folder / "first.csv", keyed_columns(scenario, slice(0, CUT)))
        served = ("delay", "level", "quantiles", "resume", "alert", "certify")
        plain = {name: value for name, value in asked.items() if name not in served}
        words = fleet_options(replace(scenario, options=plain))
        require("fleet", file, *words, "--out", out, "--no-report", "--quiet")
        for name in ("quantiles", "certify"):
            if name in asked:
                require_option("serve", name)
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
        if "update" in asked:
            later = write_csv(folder / "later.csv", keyed_columns(scenario, slice(SERVED, None)))
            require("update", out, later, "--no-report", "--quiet")
            return Answers({"yhat": read_fleet(out, scenario.shows)["yhat"][CUT:]}, rows=slice(SERVED, None))
        if scenario.shows == ("signal",):
            return Answers({"signal": np.array([bool(events)])}, single=True)
        if "alert" in asked:
            return Answers({"events": np.unique([str(event.kind) for event in events])}, single=True)
        columns = [answer_columns(answers[key], own) for key, own in scenarios_by_key(scenario).items()]
        return Answers(
            {name: join_keys([own_columns[name] for own_columns in columns]) for name in columns[0]},
            rows=slice(CUT, None),
        )

"""`undrift update` of a run's folder with a file that has rows added."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ..outcome import Answers, PathDriver, Refused
from ..references import expect_run, name_event
from ..scenarios import CUT, Scenario
from .commands import (
    call,
    first_certificate,
    parse_json,
    read_predictions,
    require,
    run_options,
    write_csv,
)


class Update(PathDriver):
    """The first rows are learned by a run, the others by two updates; predictions are read from the folder."""

    name = "update"
    expect = staticmethod(expect_run)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Run over the first rows, and update with longer files."""
        out, asked = folder / "run", scenario.options
        code = update_run(scenario, folder, out)
        if "certify" in asked:
            return Answers(
                first_certificate(parse_json(require("certify", out, "--json"))["certificates"]), single=True
            )
        if scenario.shows == ("signal",):
            return Answers({"signal": np.array([code == 6])}, single=True)
        if "alert" in asked:
            lines = (out / "events.jsonl").read_text(encoding="utf-8").splitlines()
            events = [name_event(event["kind"], event["row"] - 2) for event in map(json.loads, lines)]
            return Answers({"events": np.array(events)}, single=True)
        return Answers(read_predictions(out))


def update_run(scenario: Scenario, folder: Path, out: Path) -> int:
    """Run over the first rows, and update with files that have more of them; return the last exit code."""
    first = write_csv(folder / "first.csv", scenario.columns, slice(0, CUT))
    require("run", first, *run_options(scenario), "--out", out, "--no-report", "--quiet", codes=(0, 6))
    alone = "new rows" in scenario.options
    for k, part in enumerate([slice(CUT if alone else 0, CUT + 10), slice(CUT + 10 if alone else 0, None)]):
        longer = write_csv(folder / f"more {k}.csv", scenario.columns, part)
        code, _, err = call("update", out, longer, "--no-report", "--quiet")
        if code not in (0, 6):
            raise Refused(err)
    return code

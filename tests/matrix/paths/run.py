"""`undrift run` on a file."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import ClassVar

import numpy as np

from ..outcome import Answers, PathDriver, Refused
from ..references import expect_run, name_event
from ..scenarios import Scenario
from .commands import (
    call,
    first_certificate,
    parse_json,
    read_predictions,
    require,
    run_options,
    write_csv,
)


class Run(PathDriver):
    """A file into a folder; predictions are read from the folder."""

    name = "run"
    rows: ClassVar = {"save, resume": 5000}
    """More than a batch of the file, so that a run can be interrupted between two."""
    expect = staticmethod(expect_run)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Run over the whole file."""
        file, out = write_csv(folder / "rows.csv", scenario.columns), folder / "run"
        if "resume" in scenario.options:
            interrupt_run(file, out)
        words = [file, *run_options(scenario), "--out", out, "--no-report", "--quiet"]
        if "certify" in scenario.options:
            return Answers(
                first_certificate(parse_json(require("run", *words, "--certify", "--json"))["certificates"]),
                single=True,
            )
        if "alert" in scenario.options:
            return run_with_alerts(scenario, words)
        require("run", *words, *(["--resume"] if "resume" in scenario.options else []))
        return Answers(read_predictions(out))


def run_with_alerts(scenario: Scenario, words: list[object]) -> Answers:
    """Run, and return the events it found, or whether its exit code says so."""
    code, out, err = call("run", *words, "--json")
    if code not in (0, 6):
        raise Refused(err)
    if scenario.shows == ("signal",):
        return Answers({"signal": np.array([code == 6])}, single=True)
    events = [
        name_event(event["kind"], event["row"] - 2) for event in parse_json(out)["events"]
    ]  # lines, with a header
    return Answers({"events": np.array(events)}, single=True)


def interrupt_run(file: Path, out: Path) -> None:
    """Begin a run, and stop it after its first batch of rows."""
    from undrift.run import Interrupted, Settings, play_file

    batches = itertools.count()
    try:
        play_file(str(file), out, Settings(target="y", time="time", speed="fast"), stop=lambda: next(batches) > 0)
    except Interrupted:
        return
    raise AssertionError("the run was not interrupted; give it more rows")

"""`play_fleet`, which is `undrift fleet`: one model per key of a file."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..outcome import Answers, PathDriver, explain_errors
from ..references import expect_stream
from ..scenarios import CUT, Reference, Scenario
from .commands import call, parse_json, require, run_options, write_csv
from .keyed_rows import KEYS, expect_keyed_events, expect_keys, join_keys, keyed_columns

NOT_SETTINGS = ("classes", "texts", "delayed run", "level", "certify", "resume", "alert")


class FleetPath(PathDriver):
    """Rows of two keys in one file; the predictions of both are read from the folder."""

    name = "fleet"

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return what the library says about each key."""
        if scenario.options.get("alert") == "events":
            return expect_keyed_events(scenario)
        return expect_stream(scenario, reference) if "alert" in scenario.options else expect_keys(scenario, reference)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Play the fleet over the whole file."""
        out, asked = folder / "fleet", scenario.options
        first = slice(0, CUT) if "resume" in asked else slice(None)
        file = write_csv(folder / "rows.csv", keyed_columns(scenario, first))
        if "alert" in asked:
            words = [*fleet_options(scenario), "--no-report", "--json", "--quiet"]
            code, printed, _ = call("fleet", file, "--out", out, *words)
            if asked["alert"] == "signal":
                return Answers({"signal": np.array([code == 6])}, single=True)
            events = [f"{event['kind']} in row {event['row']}" for event in parse_json(printed)["events"]]
            return Answers({"events": np.array(events)}, single=True)
        with explain_errors():
            play_fleet_file(scenario, file, out)
        if "certify" in asked:
            require("certify", out)
        if "resume" in asked:
            longer = write_csv(folder / "more.csv", keyed_columns(scenario))
            require("update", out, longer, "--no-report", "--quiet")
        return Answers(read_fleet(out, scenario.shows))


def fleet_options(scenario: Scenario) -> list[str]:
    """Return the options of `undrift fleet` that ask for the feature; those that it lacks are refused by it."""
    return ["--key", "key", *run_options(scenario)]


def play_fleet_file(scenario: Scenario, file: Path, out: Path) -> None:
    """Play a fleet over a file as the scenario asks."""
    from undrift.run import FleetSettings, play_fleet

    asked: dict[str, Any] = {"speed": "fast", **scenario.options}
    settings = {name: value for name, value in asked.items() if name not in NOT_SETTINGS}
    if "elapsed" in settings:
        settings["elapsed"] = True
    if "candidate" in settings:
        settings["candidate"] = [settings["candidate"]]
    settings |= {"interval": asked.get("level")}
    play_fleet(str(file), out, FleetSettings(target="y", time="time", key="key", **settings))


def read_fleet(folder: Path, shows: tuple[str, ...]) -> dict[str, Any]:
    """Return the predictions of both keys in the order of their rows."""
    rows: ClassVar = list(csv.DictReader((folder / "predictions.csv").read_text(encoding="utf-8").splitlines()))
    known = {"yhat": "prediction"}
    columns = {}
    for name in shows:
        column = known.get(name, name)
        if column in rows[0]:
            by_key = {key: [row for row in rows if row["key"] == key] for key in KEYS}
            numbers = [[float(row[column] or math.nan) for row in by_key[key]] for key in KEYS]
            columns[name] = join_keys([np.array(values) for values in numbers])
    return columns
